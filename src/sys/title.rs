//! The process title: what ps(1) shows, written over arguments and environment (proc_pid_cmdline(5)).

use nix::libc;

/// Clears the environment but for `TZ`, which the clock needs: nothing else of it is ever used, and much of it is asked
/// by libraries (`LD_*`, `MALLOC_*`, `GLIBC_TUNABLES`, `RUST_*`).
pub fn clear_environment() {
    let zone = std::env::var_os("TZ");
    // SAFETY: this program has one thread, and no reference into the environment is held: `zone` is a copy.
    unsafe {
        libc::clearenv();
        if let Some(zone) = zone {
            std::env::set_var("TZ", zone);
        }
    }
}

/// Sets the title of a process that was not started with it (the parent), as much of it as fits over the arguments and the
/// environment. To be called after [`clear_environment`], which leaves the memory of the latter unused.
pub fn set(title: &str) {
    let Some((start, end)) = region() else { return };
    let room = end - start;
    let length = title.len().min(room - 1);
    // SAFETY: the kernel says that these `room` bytes of our own stack held arguments and environment; they stay mapped and
    // writable for the life of the process. The standard library hands out copies of the arguments, never references, and
    // the environment was cleared.
    unsafe {
        let bytes = start as *mut u8;
        std::ptr::write_bytes(bytes, 0, room);
        std::ptr::copy_nonoverlapping(title.as_ptr(), bytes, length);
    }
}

/// Names the process where only fifteen bytes are shown, as in `/proc/PID/comm` and top(1).
pub fn set_short(name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        let _ = nix::sys::prctl::set_name(&name);
    }
}

/// Where the arguments begin, and where the environment behind them ends: fields 48 to 51 of proc_pid_stat(5).
fn region() -> Option<(usize, usize)> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<usize> = fields.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let (start, end, environment, environment_end) = (field(48)?, field(49)?, field(50)?, field(51)?);
    let contiguous = environment == end && environment_end >= environment;
    (start != 0 && end > start).then_some((start, if contiguous { environment_end } else { end }))
}
