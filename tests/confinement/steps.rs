//! O19: every step of the confinement, made to fail and made to seem to succeed: the service does not start, says at which step,
//! and serves nothing.
//!
//! A failing call stands for a kernel that refuses; one that only seems to succeed takes its layer away, so that these
//! tests fail when the reading back of a layer is taken away. Where nothing comes of a lost call (a later step does its
//! work again, or less is granted than should be) the table says so, and the service must start.

use crate::support::{Configuration, Root, needs_root};
use crate::tamper::{Tampered, Tampering, run};
use nix::libc;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

/// Titles of the processes: what proves the sandbox is tampered with to fail, what serves to seem to succeed, since only
/// the latter escapes the attempts of the former.
const PROOF: &str = "anchorite: worker, proving";
const SERVING: &str = "anchorite: worker 0";
const LOG: &str = "anchorite: log";

/// Of the parent, before it has set its title, and of what it starts, before exec.
const PARENT: &str = env!("CARGO_BIN_EXE_anchorite");

/// One call of the confinement.
struct Step {
    name: &'static str,
    call: i64,
    which: fn(&[u64; 6]) -> bool,
    nth: u32,
    /// What the start says when it fails.
    step: &'static str,
    /// What is said when it only seems to succeed; `None`: nothing comes of it.
    lost: Option<&'static str>,
}

const fn step(name: &'static str, call: i64, step: &'static str, lost: Option<&'static str>) -> Step {
    Step { name, call, which: |_| true, nth: 0, step, lost }
}

impl Step {
    const fn which(mut self, which: fn(&[u64; 6]) -> bool) -> Step {
        self.which = which;
        self
    }

    const fn nth(mut self, nth: u32) -> Step {
        self.nth = nth;
        self
    }

    fn tampering(&self, whom: &'static str, result: i64) -> Tampering {
        Tampering { whom, call: self.call, which: self.which, nth: self.nth, result }
    }
}

/// prctl(2) by its option.
macro_rules! option {
    ($option:expr) => {
        |arguments| arguments[0] == $option as u64
    };
}

fn is_bind(arguments: &[u64; 6]) -> bool {
    arguments[3] & libc::MS_BIND != 0
}

fn is_private(arguments: &[u64; 6]) -> bool {
    arguments[3] & libc::MS_PRIVATE != 0
}

fn is_tmpfs(arguments: &[u64; 6]) -> bool {
    arguments[2] != 0
}

/// Setting a limit, not reading one.
fn sets(arguments: &[u64; 6]) -> bool {
    arguments[2] != 0
}

/// Not the attempt to become root again.
fn gives_up(arguments: &[u64; 6]) -> bool {
    arguments[0] != 0
}

/// Not the attempt to take a group again.
fn gives_up_all(arguments: &[u64; 6]) -> bool {
    arguments[0] == 0
}

/// Not the question for the version.
fn makes_rules(arguments: &[u64; 6]) -> bool {
    arguments[0] != 0
}

const PR_SET_MDWE: i32 = 65;

const BEFORE_THE_JAIL: &[Step] = &[
    // The parent has closed what its caller left open, so there is nothing to lose here; see `parent` for it.
    step("close_range", libc::SYS_close_range, "1 descriptors", None),
    step("setrlimit", libc::SYS_prlimit64, "2 limits", Some("step 2 limits: CORE is not as set")).which(sets),
    step("setrlimit, the second", libc::SYS_prlimit64, "2 limits", Some("step 2 limits: FSIZE is not as set")).which(sets).nth(2),
    step("unshare", libc::SYS_unshare, "3 namespaces", Some("is still the host's")),
];

const JAIL: &[Step] = &[
    step("make / private", libc::SYS_mount, "4 jail: make / private", Some("step 4 jail: / is still shared")).which(is_private),
    step("mount the tree", libc::SYS_mount, "4 jail: mount the tree", Some("step 4 jail")).which(is_tmpfs),
    step("bind", libc::SYS_mount, "4 jail: show ", Some("step 4 jail")).which(is_bind),
    step("mount_setattr of what is shown", libc::SYS_mount_setattr, "4 jail: mount_setattr", Some("step 4 jail: the tree is mounted with"))
        .nth(1),
    step("mount_setattr of the tree", libc::SYS_mount_setattr, "4 jail: mount_setattr", Some("step 4 jail: the tree is mounted with"))
        .nth(2),
    step("enter the tree", libc::SYS_chdir, "4 jail: enter the tree", Some("step 4 jail")).nth(1),
    step("pivot_root", libc::SYS_pivot_root, "4 jail: pivot_root", Some("step 4 jail")),
    step("detach the old root", libc::SYS_umount2, "4 jail: detach the old root", Some("step 4 jail: the old root is still there")),
    // The chdir behind the chroot does the same again.
    step("chdir behind pivot_root", libc::SYS_chdir, "4 jail: chdir", None).nth(2),
    step("chroot", libc::SYS_chroot, "4 jail: chroot", Some("step 4 jail: the root directory is not the jail")),
    step("chdir behind chroot", libc::SYS_chdir, "4 jail: chdir", Some("step 4 jail: the root directory is not the jail")).nth(3),
];

const PRIVILEGES: &[Step] = &[
    step("securebits", libc::SYS_prctl, "5 bounding set", Some("the securebits are not as set")).which(option!(libc::PR_SET_SECUREBITS)),
    step("bounding set", libc::SYS_prctl, "5 bounding set", Some("is left in the bounding set")).which(option!(libc::PR_CAPBSET_DROP)),
    step("one of the bounding set", libc::SYS_prctl, "5 bounding set", Some("capability 21 is left in the bounding set"))
        .which(option!(libc::PR_CAPBSET_DROP))
        .nth(22),
    step("setgroups", libc::SYS_setgroups, "6 ids", Some("supplementary groups are [")).which(gives_up_all),
    step("setresgid", libc::SYS_setresgid, "6 ids", Some("group ids are")),
    step("setresuid", libc::SYS_setresuid, "6 ids", Some("user ids are")).which(gives_up),
];

const FLAGS: &[Step] = &[
    // The change of the user id has reset it already.
    step("dumpable", libc::SYS_prctl, "8 process flags", None).which(option!(libc::PR_SET_DUMPABLE)),
    step("mdwe", libc::SYS_prctl, "8 process flags", Some("mdwe is not as set")).which(option!(PR_SET_MDWE)),
    step("pdeathsig", libc::SYS_prctl, "8 process flags", Some("pdeathsig is not as set")).which(option!(libc::PR_SET_PDEATHSIG)),
    // The handlers of the standard library: a fault under them would never end.
    step("fault handlers", libc::SYS_rt_sigaction, "8 process flags", Some("still has a handler"))
        .which(|arguments| arguments[0] == libc::SIGSEGV as u64 && arguments[2] != 0),
    step("no_new_privs", libc::SYS_prctl, "9 no_new_privs", Some("no_new_privs is not as set")).which(option!(libc::PR_SET_NO_NEW_PRIVS)),
];

const FILTERS: &[Step] = &[
    step("landlock rules", libc::SYS_landlock_create_ruleset, "11 landlock", Some("step 11 landlock")).which(makes_rules),
    // Without its rule a path is refused, not granted.
    step("landlock rule", libc::SYS_landlock_add_rule, "11 landlock", None),
    step("landlock", libc::SYS_landlock_restrict_self, "11 landlock", Some("step 11 landlock: what it refuses is answered with")),
    step("seccomp, what is answered", libc::SYS_seccomp, "12 seccomp", Some("step 12 seccomp: prctl is answered with")).nth(1),
    step("seccomp, the list", libc::SYS_seccomp, "12 seccomp", Some("is not confined: Seccomp is 2 with 2 filters, not 2 with 3")).nth(2),
];

/// An ordinary user's role keeps its user id, and with it every capability of its namespace, until they are dropped.
const OF_AN_ORDINARY_USER: &[Step] = &[
    step("inheritable set", libc::SYS_capset, "7 capabilities", Some("the Inheritable set is not empty")).nth(1),
    // Emptying the permitted set empties it too.
    step("effective set", libc::SYS_capset, "7 capabilities", None).nth(2),
    step("permitted set", libc::SYS_capset, "7 capabilities", Some("the Permitted set is not empty")).nth(3),
    // Emptying the inheritable set empties it too.
    step("ambient set", libc::SYS_prctl, "7 capabilities", None).which(option!(libc::PR_CAP_AMBIENT)).nth(1),
    step("dumpable", libc::SYS_prctl, "8 process flags", Some("dumpable is not as set")).which(option!(libc::PR_SET_DUMPABLE)),
];

/// As root, below a mount namespace of the test's own, so that nothing can reach the host: with groups to give up, with a
/// descriptor to close, and with mounts that would be told on.
fn command(root: &Root, jail: &str) -> (tempfile::TempDir, Vec<String>) {
    const LINE: &str = "mount --make-rshared / && exec 9< / && exec setpriv --groups 4,24 \"$@\"";
    let (home, configuration) = configuration(root, jail);
    let words = ["unshare", "-m", "--propagation", "private", "bash", "-c", LINE, "bash"].map(str::to_owned);
    let program = [env!("CARGO_BIN_EXE_anchorite"), "run", "-c", &configuration].map(str::to_owned);
    (home, [&words[..], &program].concat())
}

fn configuration(root: &Root, jail: &str) -> (tempfile::TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let path = home.path().join("anchorite.toml");
    let text = Configuration::of(&root.path()).server_also("workers = 1").jail(jail).text(home.path());
    fs::write(&path, text).unwrap();
    (home, path.to_str().unwrap().to_owned())
}

#[track_caller]
fn refuses(name: &str, tampered: &Tampered, why: &str) {
    assert!(tampered.times > 0, "{name}: no such call was made: {tampered:?}");
    assert!(!tampered.was_ready, "{name}: it serves: {tampered:?}");
    assert_eq!(tampered.code, Some(1), "{name}: {tampered:?}");
    assert!(tampered.stderr.contains(why), "{name}: expected \"{why}\": {tampered:?}");
}

fn each(steps: &[Step], command: &[String], fails: &'static str, seems: &'static str) {
    const EPERM: i64 = -(libc::EPERM as i64);
    for step in steps {
        let tampered = run(command, &step.tampering(fails, EPERM));
        refuses(&format!("{} fails", step.name), &tampered, &format!("step {}", step.step));
        let name = format!("{} only seems to succeed", step.name);
        let tampered = run(command, &step.tampering(seems, 0));
        match step.lost {
            Some(why) => refuses(&name, &tampered, why),
            None => {
                assert!(tampered.times > 0, "{name}: no such call was made: {tampered:?}");
                assert!(tampered.was_ready && tampered.code == Some(0), "{name}: {tampered:?}");
            }
        }
    }
}

fn each_of_a_worker(steps: &[Step]) {
    needs_root!();
    let root = Root::with_index();
    let (_home, command) = command(&root, "");
    each(steps, &command, PROOF, SERVING);
}

#[test]
fn without_tampering_it_starts() {
    needs_root!();
    let root = Root::with_index();
    let (_home, command) = command(&root, "");
    let nothing = Tampering { whom: "nobody", call: libc::SYS_seccomp, which: |_| true, nth: 0, result: 0 };
    let tampered = run(&command, &nothing);
    assert!(tampered.was_ready && tampered.code == Some(0), "{tampered:?}");
}

#[test]
fn descriptors_limits_and_namespaces() {
    each_of_a_worker(BEFORE_THE_JAIL);
}

#[test]
fn jail() {
    each_of_a_worker(JAIL);
}

#[test]
fn privileges() {
    each_of_a_worker(PRIVILEGES);
}

#[test]
fn flags() {
    each_of_a_worker(FLAGS);
}

#[test]
fn landlock_and_seccomp() {
    each_of_a_worker(FILTERS);
}

#[test]
fn capabilities_of_an_ordinary_user() {
    needs_root!();
    let root = Root::with_index();
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
    let program = home.path().join("anchorite");
    fs::copy(env!("CARGO_BIN_EXE_anchorite"), &program).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let site = root.path();
    let command: Vec<String> = [
        "setpriv",
        "--reuid=4242",
        "--regid=4242",
        "--clear-groups",
        program.to_str().unwrap(),
        "serve",
        site.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ]
    .map(str::to_owned)
    .to_vec();
    each(OF_AN_ORDINARY_USER, &command, PROOF, SERVING);
}

/// The same code confines `log` and `files`; one call of each layer shows that it does.
#[test]
fn log_is_confined_by_the_same_steps() {
    is_confined_by_the_same_steps("log", "anchorite: log, proving", LOG);
}

#[test]
fn files_is_confined_by_the_same_steps() {
    is_confined_by_the_same_steps("files", "anchorite: files, proving", "anchorite: files 0");
}

fn is_confined_by_the_same_steps(role: &str, proof: &'static str, serving: &'static str) {
    needs_root!();
    let root = Root::with_index();
    let (_home, command) = command(&root, "");
    let steps = [&BEFORE_THE_JAIL[3], &JAIL[6], &PRIVILEGES[5], &FLAGS[4], &FILTERS[2], &FILTERS[4]];
    for step in steps {
        let tampered = run(&command, &step.tampering(proof, -i64::from(libc::EPERM)));
        refuses(step.name, &tampered, &format!("confinement of {role}: step {}", step.step));
        if let Some(why) = step.lost {
            // The proof of the worker's sandbox has passed: only what serves is tampered with.
            let tampered = run(&command, &step.tampering(serving, 0));
            assert!(!tampered.was_ready && tampered.code == Some(1), "{}: {tampered:?}", step.name);
            let proved = tampered.stderr.contains("the sandbox does not hold");
            assert!(proved || tampered.stderr.contains(why), "{}: {tampered:?}", step.name);
        }
    }
}

/// `jail.mode = "chroot"`: the other way to build the tree.
#[test]
fn chroot_mode() {
    needs_root!();
    const STEPS: &[Step] = &[
        step("bind", libc::SYS_mount, "4 jail: show ", Some("step 4 jail")).which(is_bind),
        step("mount_setattr", libc::SYS_mount_setattr, "4 jail: mount_setattr", Some("step 4 jail: the tree is mounted with")),
        step("chroot", libc::SYS_chroot, "4 jail: chroot", Some("step 4 jail: the root directory is not the jail")),
        step("chdir", libc::SYS_chdir, "4 jail: chdir", Some("step 4 jail: the root directory is not the jail")),
    ];
    let root = Root::with_index();
    let jail = format!("mode = \"chroot\"\nroot = {:?}", root.base());
    let (_home, command) = command(&root, &jail);
    each(STEPS, &command, PROOF, SERVING);
}

/// The proof: where a filter is lost in what proves the sandbox, that process gets out, and nothing is served.
#[test]
fn a_proof_that_gets_out_stops_the_start() {
    needs_root!();
    let root = Root::with_index();
    let (_home, command) = command(&root, "");
    let lost = FILTERS[4].tampering(PROOF, 0);
    refuses("the list of the proof", &run(&command, &lost), "the sandbox does not hold: it could");
}

/// Steps between fork and exec.
#[test]
fn start_of_a_role() {
    needs_root!();
    let root = Root::with_index();
    let (_home, command) = command(&root, "");
    for (name, call, why) in
        [("setsid", libc::SYS_setsid, "setsid"), ("execveat", libc::SYS_execveat, "exec"), ("dup2", libc::SYS_dup2, "descriptors")]
    {
        let tampering = Tampering { whom: PARENT, call, which: |_| true, nth: 1, result: -i64::from(libc::EPERM) };
        refuses(name, &run(&command, &tampering), why);
    }
}

/// The parent cuts its own privilege down first.
#[test]
fn parent() {
    needs_root!();
    const STEPS: &[Step] = &[
        step("descriptors", libc::SYS_close_range, "inherited descriptors", Some("is still open")),
        step("bounding set", libc::SYS_prctl, "capabilities of the parent", Some("the Bounding set holds more than it should"))
            .which(option!(libc::PR_CAPBSET_DROP)),
        step("permitted set", libc::SYS_capset, "capabilities of the parent", Some("the Permitted set holds more than it should")).nth(3),
        step("filter", libc::SYS_seccomp, "seccomp filter of the parent", Some("seccomp filter of the parent: it is not in force")),
    ];
    let root = Root::with_index();
    let (_home, command) = command(&root, "");
    for step in STEPS {
        let tampered = run(&command, &step.tampering(PARENT, -i64::from(libc::EPERM)));
        refuses(step.name, &tampered, step.step);
        let tampered = run(&command, &step.tampering(PARENT, 0));
        refuses(step.name, &tampered, step.lost.unwrap());
    }
}
