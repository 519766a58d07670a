//! `[cgi]`: how the programs of rules with `cgi` are run, read and checked, and as role `spawn` is told of it. Does no I/O.

use super::backend::{Address, Backend, Protocol};
use super::diagnostic::Faults;
use super::document::Table;
use super::{RunRoot, backends, names, server};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// How programs are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgi {
    /// Whom programs of root, or of this user, run as; `None`: those of root are refused.
    pub user: Option<String>,
    /// `None`: the user's own.
    pub group: Option<String>,
    /// Programs of owners below are refused.
    pub min_uid: u32,
    /// That run at the same time, over all workers.
    pub max_programs: u32,
    pub queue: u32,
    /// Time in which a program says nothing: 504.
    pub read_timeout: Duration,
    /// After which a program is ended, and whatever is left of its group.
    pub run_timeout: Duration,
    pub buffer: u32,
    /// For every program, beside the variables of CGI.
    pub env: Vec<(String, String)>,
    pub limits: RunLimits,
}

/// What one program may use up, as setrlimit(2) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLimits {
    /// Seconds of processor time: `RLIMIT_CPU`.
    pub cpu: u64,
    /// Bytes of address space: `RLIMIT_AS`.
    pub memory: u64,
    /// Bytes of a file that it writes: `RLIMIT_FSIZE`.
    pub file_size: u64,
    /// Processes of its user: `RLIMIT_NPROC`.
    pub processes: u64,
}

/// What `spawn` needs to know for the workers of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSlice {
    /// The directories by the numbers that workers know them by.
    pub roots: Vec<RunRoot>,
    /// Whom programs of root run as: user and group.
    pub user: Option<(u32, u32)>,
    pub min_uid: u32,
    /// The user of the service, as whom none runs.
    pub service: u32,
    /// The service runs as an ordinary user, and so do programs.
    pub rootless: bool,
    pub max_programs: u32,
    pub run_timeout_ms: u64,
    pub env: Vec<(String, String)>,
    pub limits: RunLimits,
}

pub(super) fn default() -> Cgi {
    Cgi {
        user: None,
        group: None,
        min_uid: 1000,
        max_programs: 64,
        queue: 256,
        read_timeout: Duration::from_secs(60),
        run_timeout: Duration::from_secs(3_600),
        buffer: 1 << 20,
        env: Vec::new(),
        limits: RunLimits { cpu: 60, memory: 1 << 30, file_size: 1 << 30, processes: 512 },
    }
}

/// Reads the table.
pub(super) fn read(top: &Table<'_>, faults: &mut Faults<'_>) -> Cgi {
    let mut cgi = default();
    let Some(table) = top.table(&names::CGI, faults) else { return cgi };
    let user = table.item("user", faults).filter(|item| item.as_text().is_none_or(|text| !text.value.is_empty()));
    cgi.user = user.and_then(|item| server::read_account(&item, "user", faults));
    if let Some(item) = table.item("group", faults) {
        cgi.group = backends::read_group(&item, faults);
        if cgi.group.is_some() && cgi.user.is_none() {
            item.report("\"group\" says nothing without \"user\"", "expected user = \"www-data\" beside it", faults);
        }
    }
    let mut number = |key, range, field: &mut u32| {
        if let Some(value) = table.item(key, faults).and_then(|item| item.number(range, faults)) {
            *field = value;
        }
    };
    let mut processes = 512;
    number("min_uid", MIN_UID, &mut cgi.min_uid);
    number("max_programs", PROGRAMS, &mut cgi.max_programs);
    number("queue", backends::QUEUE, &mut cgi.queue);
    number("max_processes", PROCESSES, &mut processes);
    cgi.limits.processes = u64::from(processes);
    let mut duration = |key, range, field: &mut Duration| {
        if let Some(value) = table.item(key, faults).and_then(|item| item.duration(range, faults)) {
            *field = value;
        }
    };
    let mut cpu = Duration::from_secs(cgi.limits.cpu);
    duration("read_timeout", backends::READ_TIMEOUT, &mut cgi.read_timeout);
    duration("run_timeout", RUN_TIMEOUT, &mut cgi.run_timeout);
    duration("cpu_time", CPU_TIME, &mut cpu);
    cgi.limits.cpu = cpu.as_secs();
    let mut size = |key, field: &mut u64| {
        if let Some(value) = table.item(key, faults).and_then(|item| item.large_size(SIZE, faults)) {
            *field = value;
        }
    };
    size("memory", &mut cgi.limits.memory);
    size("file_size", &mut cgi.limits.file_size);
    if let Some(item) = table.item("buffer", faults) {
        cgi.buffer = backends::read_buffer(&item, faults).unwrap_or(cgi.buffer);
    }
    if let Some(item) = table.item("env", faults) {
        cgi.env = backends::read_env(&item, faults);
    }
    cgi
}

/// The programs as a backend, which they are for all that comes before them: it stands behind those that have a name.
pub(super) fn as_backend(cgi: &Cgi) -> Backend {
    Backend {
        protocol: Protocol::Cgi,
        // Nobody listens there: it stands for one place to connect to, whose connections are counted.
        addresses: vec![Address::Unix(PathBuf::new())],
        // What `spawn` is asked for comes at once, or when one of its programs has come to its end.
        connect_timeout: cgi.read_timeout,
        read_timeout: cgi.read_timeout,
        max_connections: cgi.max_programs,
        keep: 0,
        queue: cgi.queue,
        buffer: cgi.buffer,
        ..backends::with_defaults(NAME.to_owned())
    }
}

/// No table can have it, see `backends`.
const NAME: &str = "[cgi]";

/// 0 is root.
const MIN_UID: RangeInclusive<u32> = 1..=u32::MAX - 1;
const PROGRAMS: RangeInclusive<u32> = 1..=4_096;
const PROCESSES: RangeInclusive<u32> = 1..=1 << 20;
const RUN_TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(604_800);
const CPU_TIME: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
const SIZE: RangeInclusive<u64> = 1 << 20..=1 << 50;

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::*;

    #[test]
    fn every_key_is_read_and_has_its_default() {
        assert_eq!(with_a_site("[cgi]").cgi, default());
        assert_eq!(with_a_site("").cgi, default());
        let text = "[cgi]\nuser = \"www-data\"\ngroup = \"cgi\"\nmin_uid = 500\nmax_programs = 2\nqueue = 3\nread_timeout = \"4s\"\nrun_timeout = \"5m\"\n\
                    buffer = \"6KiB\"\nenv = { TZ = \"UTC\" }\ncpu_time = \"7s\"\nmemory = \"8MiB\"\nfile_size = \"9MiB\"\nmax_processes = 10\n";
        let expected = Cgi {
            user: Some("www-data".to_owned()),
            group: Some("cgi".to_owned()),
            min_uid: 500,
            max_programs: 2,
            queue: 3,
            read_timeout: Duration::from_secs(4),
            run_timeout: Duration::from_secs(300),
            buffer: 6 << 10,
            env: vec![("TZ".to_owned(), "UTC".to_owned())],
            limits: RunLimits { cpu: 7, memory: 8 << 20, file_size: 9 << 20, processes: 10 },
        };
        assert_eq!(with_a_site(text).cgi, expected);
    }

    #[test]
    fn what_would_run_programs_as_root_or_never_is_refused() {
        for (line, why) in [
            ("user = \"root\"", "4:8: \"root\" as \"user\" would leave"),
            ("group = \"cgi\"", "4:9: \"group\" says nothing without \"user\", expected user = \"www-data\" beside it"),
            ("min_uid = 0", "4:11: \"min_uid\" in [cgi] is 0, expected an integer from 1 to 4294967294"),
            ("max_programs = 0", "4:16: \"max_programs\" in [cgi] is 0"),
            ("max_programs = 4097", "4:16: \"max_programs\" in [cgi] is 4097"),
            ("cpu_time = \"999ms\"", "4:12: \"cpu_time\" in [cgi] is"),
            ("run_timeout = \"8d\"", "4:15: \"run_timeout\" in [cgi] is"),
            ("memory = \"1KiB\"", "4:10: \"memory\" in [cgi] is"),
            ("env = { HTTP_PROXY = \"http://a\" }", "4:9: "),
            ("userr = \"a\"", "4:1: unknown key \"userr\" in [cgi], did you mean \"user\"?"),
        ] {
            let said = told(&format!("[[site]]\nroot = \"/srv\"\n[cgi]\n{line}\n"));
            assert!(said.iter().any(|fault| fault.contains(why)), "{line}: {said:#?}");
        }
    }

    #[test]
    fn a_rule_makes_the_backend_and_without_one_there_is_none() {
        let site = "[[site]]\nname = \"a\"\nroot = \"/srv\"\n[[site.rule]]\npath = \"/x/*\"\n";
        let with = with_a_site(&format!("[backend.a]\ntype = \"fastcgi\"\naddress = \"unix:/s\"\n{site}cgi = true\n"));
        assert_eq!(with.backends.last(), Some(&as_backend(&default())));
        assert_eq!(with.backends.len(), 2);
        assert!(with_a_site(&format!("{site}respond = 204\n")).backends.is_empty());
        let said = told(&format!("{site}backend = \"[cgi]\"\n"));
        assert!(said[0].contains("there is no backend \"[cgi]\""), "{said:?}");
    }
}
