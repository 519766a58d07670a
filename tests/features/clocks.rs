//! O14: clocks that jump. Deadlines are of the monotonic clock; the wall clock is for dates alone.
//!
//! Nobody sets the clock of the machine here. In a mount namespace of its own the service is loaded together with a shim of
//! clock_gettime(3), which adds what a file in shared memory says: `/etc/ld.so.preload` reaches every process of it, and no
//! filter sees the difference. A time namespace (time_namespaces(7)) stands for a machine that has run for years.

use crate::support::{Configuration, Launch, OwnEtc, Root, Server, needs_root, request};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::time::{Duration, Instant};

const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static volatile long *seconds;
static int (*next)(clockid_t, struct timespec *);
__attribute__((constructor)) static void begin(void) {
    next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = open(OFFSETS, O_RDONLY | O_CLOEXEC);
    void *page = file < 0 ? MAP_FAILED : mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) seconds = page;
    if (file >= 0) close(file);
}
int clock_gettime(clockid_t clock, struct timespec *time) {
    int outcome = next ? next(clock, time) : -1;
    if (seconds && clock == CLOCK_REALTIME) time->tv_sec += seconds[0];
    if (seconds && clock == CLOCK_MONOTONIC) time->tv_sec += seconds[1];
    return outcome;
}
"#;

const DAY: i64 = 86_400;

/// A service whose clocks a test moves.
struct Clocked {
    server: Server,
    offsets: File,
}

impl Clocked {
    fn start(configuration: &Configuration) -> Clocked {
        let launch = Launch::new();
        let etc = OwnEtc::new(&launch);
        let [source, shim, offsets] = ["shim.c", "shim.so", "offsets"].map(|name| launch.home().join(name));
        fs::write(&source, SHIM).unwrap();
        fs::write(&offsets, [0; 4096]).unwrap();
        let output = Command::new("cc")
            .arg(format!("-DOFFSETS={offsets:?}"))
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&shim, &source])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(etc.path().join("ld.so.preload"), format!("{}\n", shim.display())).unwrap();
        let server = launch.shell(&etc.line()).run(configuration);
        Clocked { server, offsets: File::options().write(true).open(offsets).unwrap() }
    }

    /// Moves the wall clock, or the monotonic one, to so many seconds from where it is by itself.
    fn set(&self, wall: i64, monotonic: i64) {
        self.offsets.write_all_at(&[wall.to_ne_bytes(), monotonic.to_ne_bytes()].concat(), 0).unwrap();
    }

    /// The Date of an answer, in seconds since the epoch as date(1) reads it.
    fn date(&self) -> i64 {
        let response = self.server.get("/").must_be(&[200]);
        let output = Command::new("date").args(["-u", "+%s", "-d", response.field("Date").unwrap()]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    /// Ticks (of 10 ms) of CPU time that its processes take in two seconds of rest.
    fn ticks_at_rest(&self) -> u64 {
        let ticks = |pid: i32| -> u64 {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum()
        };
        let mut all: Vec<i32> = self.server.processes().iter().map(|process| process.pid).collect();
        all.push(self.server.parent());
        let sum = || all.iter().map(|pid| ticks(*pid)).sum::<u64>();
        let before = sum();
        std::thread::sleep(Duration::from_secs(2));
        sum() - before
    }
}

fn now() -> i64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs().try_into().unwrap()
}

#[test]
fn o14_a_wall_clock_that_jumps_ends_nothing_and_delays_nothing() {
    needs_root!();
    let root = Root::with_index();
    root.file("big", vec![b'x'; 30_000_000]);
    let limits = "header_timeout = \"3s\"\nkeepalive_timeout = \"1h\"\nwrite_timeout = \"1h\"\ndrain_timeout = \"1h\"";
    let clocked = Clocked::start(&Configuration::of(&root.path()).limits(limits));
    let server = &clocked.server;
    let workers = server.workers();
    assert!((clocked.date() - now()).abs() < 60);
    let mut idle = server.connect();
    idle.send(request("GET", "/", &[]));
    idle.response("GET").must_be(&[200]);
    let mut transfer = server.connect();
    transfer.send(request("GET", "/big", &["Connection: close"]));
    for days in [1, -1, 365, 0] {
        let mut slow = server.connect();
        slow.send("GET / HTTP/1.1\r\nHost: a\r\n");
        let begin = Instant::now();
        std::thread::sleep(Duration::from_millis(500));
        clocked.set(days * DAY, 0);
        assert!((clocked.date() - now() - days * DAY).abs() < 60, "the shim reaches the worker");
        idle.send(request("GET", "/", &[]));
        idle.response("GET").must_be(&[200]);
        slow.response("GET").must_be(&[408]);
        assert!(begin.elapsed() >= Duration::from_millis(2_900), "{days} days cut a head after {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(30), "{days} days delayed a time-out: {:?}", begin.elapsed());
        server.order(&["status"]).must_be_done();
        server.order(&["reopen"]).must_be_done();
    }
    assert_eq!(server.workers(), workers, "nobody was taken for stuck");
    let ticks = clocked.ticks_at_rest();
    assert!(ticks <= 20, "{ticks} ticks of CPU time in two seconds of rest");
    clocked.set(-DAY, 0);
    server.order(&["reload"]).must_be_done();
    clocked.set(DAY, 0);
    assert_eq!(transfer.response("GET").must_be(&[200]).body.len(), 30_000_000, "the old generation may finish");
    server.must_be_well(&server.workers(), "after a reload between jumps");
    // As ever: nothing is rotated or renamed by date.
    let names: Vec<_> = fs::read_dir(server.home()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.contains(".log")).count(), 2, "{names:?}");
}

/// CLOCK_MONOTONIC stands still while a machine is suspended; that of a virtual one that was stopped may jump. What was waited
/// for is over then, at once and without a spin; nothing else is.
#[test]
fn o14_a_monotonic_clock_that_jumps_costs_no_worker() {
    needs_root!();
    let root = Root::with_index();
    // One worker: only the clock jumps, not the wait for events, so it must be woken by the next request.
    let configuration = Configuration::of(&root.path()).server_also("workers = 1").limits("keepalive_timeout = \"30s\"");
    let clocked = Clocked::start(&configuration);
    let server = &clocked.server;
    let (workers, log) = (server.workers(), server.log_process());
    for hours in [1, 24, 24 * 365] {
        let mut idle = server.connect();
        idle.send(request("GET", "/", &[]));
        idle.response("GET").must_be(&[200]);
        // Until the worker has nothing left to do with it: its time is counted from then.
        std::thread::sleep(Duration::from_millis(200));
        clocked.set(0, hours * 3600);
        server.get("/").must_be(&[200]);
        // An idle connection is over.
        idle.expect_end();
        server.order(&["status"]).must_be_done();
        server.must_be_well(&workers, "after the jump");
        let ticks = clocked.ticks_at_rest();
        assert!(ticks <= 20, "{hours} hours: {ticks} ticks of CPU time in two seconds of rest");
    }
    assert_eq!(server.log_process(), log);
    server.order(&["reload"]).must_be_done();
    server.get("/").must_be(&[200]);
}

#[test]
fn o14_a_machine_that_has_run_for_ten_years_is_as_any_other() {
    needs_root!();
    let root = Root::with_index();
    let configuration = Configuration::of(&root.path()).limits("header_timeout = \"2s\"");
    let years = 10 * 365 * DAY;
    let line = format!("exec unshare -T --monotonic {years} --boottime {years} \"$@\"");
    let server = Launch::new().shell(&line).run(&configuration);
    let uptime = Command::new("nsenter").args(["-T", "-t", &server.parent().to_string(), "cat", "/proc/uptime"]).output().unwrap();
    let uptime = String::from_utf8(uptime.stdout).unwrap();
    assert!(uptime.split('.').next().unwrap().parse::<i64>().unwrap() > years, "{uptime}");
    let mut slow = server.connect();
    slow.send("GET / HTTP/1.1\r\nHost: a\r\n");
    let begin = Instant::now();
    slow.response("GET").must_be(&[408]);
    assert!(begin.elapsed() > Duration::from_millis(1_900), "{:?}", begin.elapsed());
    server.order(&["reload"]).must_be_done();
    server.order(&["status"]).must_be_done();
    server.get("/").must_be(&[200]);
}
