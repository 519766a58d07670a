//! Time: monotonic for every deadline, wall clock for logs and dates (clock_gettime(2), localtime(3)).

use nix::libc;
use nix::time::{ClockId, clock_gettime};

/// Milliseconds of the monotonic clock; deadlines compare these, so a clock that jumps ends nothing.
pub fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or_else(|_| nix::sys::time::TimeSpec::new(0, 0));
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1000 + u64::try_from(now.tv_nsec()).unwrap_or(0) / 1_000_000
}

/// Microseconds of the monotonic clock.
pub fn monotonic_us() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or_else(|_| nix::sys::time::TimeSpec::new(0, 0));
    u64::try_from(now.tv_sec()).unwrap_or(0) * 1_000_000 + u64::try_from(now.tv_nsec()).unwrap_or(0) / 1000
}

/// Seconds since the epoch.
pub fn unix_seconds() -> i64 {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |now| now.tv_sec())
}

/// A moment as a calendar of this machine's time zone shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    pub year: i32,
    /// 1 to 12
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    /// East of Greenwich.
    pub offset_minutes: i32,
}

/// Reads the time zone, which later conversions use without touching a file; to be called before a role enters its jail.
pub fn load_zone() {
    unsafe extern "C" {
        safe fn tzset();
    }
    tzset();
}

/// Converts seconds since the epoch by the zone that [`load_zone`] read.
pub fn local(unix: i64) -> Local {
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: both pointers are to live values of the right type; localtime_r(3) writes only the second. A zeroed `tm` is a
    // valid value (integers, and a null zone name that is not read here), so it may be read even where the call failed.
    let parts = unsafe {
        libc::localtime_r(&raw const unix, parts.as_mut_ptr());
        parts.assume_init()
    };
    let small = |value: i32| u8::try_from(value).unwrap_or(0);
    Local {
        year: parts.tm_year.saturating_add(1900),
        month: small(parts.tm_mon + 1),
        day: small(parts.tm_mday),
        hour: small(parts.tm_hour),
        minute: small(parts.tm_min),
        second: small(parts.tm_sec),
        offset_minutes: i32::try_from(parts.tm_gmtoff / 60).unwrap_or(0),
    }
}
