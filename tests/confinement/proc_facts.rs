//! What the kernel says of every process of a service, compared with its policy: as root and as an ordinary user, with
//! `jail.mode = "mount"` and `"chroot"`.

use crate::support::{Configuration, Launch, PATIENCE, Process, Root, Server, needs_root, status_field, wait_until};
use anchorite::role::Role;
use anchorite::sys::policy::Policy;
use nix::libc;
use nix::sys::statvfs::{FsFlags, statvfs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An id that no account of the machine has.
const USER: u32 = 4242;

/// One way to run the service.
#[derive(Clone, Copy, Debug)]
struct Way {
    as_root: bool,
    chroot: bool,
}

const WAYS: [Way; 4] = [
    Way { as_root: true, chroot: false },
    Way { as_root: true, chroot: true },
    Way { as_root: false, chroot: false },
    Way { as_root: false, chroot: true },
];

/// A service, and each of its processes with its role.
struct Service {
    way: Way,
    root: Root,
    server: Server,
    confined: Vec<(Role, Process)>,
}

impl Service {
    fn start(way: Way) -> Service {
        let root = Root::with_index();
        root.file("dir/a.txt", "a");
        // With a descriptor that it did not ask for, as a careless supervisor leaves one open.
        let mut launch =
            Launch::new().shell("exec 9< /etc && exec \"$@\"").environment("TZ", "Europe/Berlin").environment("ANCHORITE_SECRET", "s3cret");
        let mut configuration = Configuration::of(&root.path());
        if !way.as_root {
            launch = launch.user(USER);
            configuration = configuration.server("listen = [\"127.0.0.1:0\"]");
        }
        if way.chroot {
            configuration = configuration.jail(&format!("mode = \"chroot\"\nroot = {:?}", root.base()));
        }
        let server = launch.run(&configuration);
        crate::wait_for_listeners(&server);
        // What proved the sandbox may not have ended quite yet.
        wait_until(PATIENCE, || server.processes().len() == 5);
        let confined: Vec<(Role, Process)> = server.processes().into_iter().map(|process| (role(&process.title), process)).collect();
        assert_eq!(confined.len(), 5, "{confined:?}");
        Service { way, root, server, confined }
    }

    /// Whom its confined processes run as.
    fn uid(&self) -> u32 {
        // The user of the configuration is nobody.
        if self.way.as_root { 65534 } else { USER }
    }
}

fn role(title: &str) -> Role {
    match title {
        "anchorite: worker 0" | "anchorite: worker 1" => Role::Worker,
        "anchorite: log" => Role::Log,
        "anchorite: files 0" | "anchorite: files 1" => Role::Files,
        other => panic!("an unknown title: {other:?}"),
    }
}

/// Every confined process of every way.
fn each_confined(check: impl Fn(&Service, Role, i32)) {
    needs_root!();
    for way in WAYS {
        let service = Service::start(way);
        for (role, process) in &service.confined {
            eprintln!("{way:?}: {}", process.title);
            check(&service, *role, process.pid);
        }
    }
}

#[test]
fn ids_and_groups_are_those_of_the_service() {
    each_confined(|service, _, pid| {
        let four = [service.uid().to_string(), service.uid().to_string(), service.uid().to_string(), service.uid().to_string()].join("\t");
        assert_eq!(status_field(pid, "Uid"), four);
        assert_eq!(status_field(pid, "Gid"), four);
        assert_eq!(status_field(pid, "Groups"), "");
    });
}

#[test]
fn capability_sets_are_those_of_the_policy() {
    each_confined(|_, role, pid| {
        assert!(Policy::of(role).capabilities.is_empty());
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status_field(pid, set), "0000000000000000", "{set}");
        }
    });
}

#[test]
fn no_new_privileges_and_filters_are_in_force() {
    each_confined(|service, _, pid| {
        assert_eq!(status_field(pid, "NoNewPrivs"), "1");
        assert_eq!(status_field(pid, "Seccomp"), "2");
        let inherited: u32 = status_field(service.server.parent(), "Seccomp_filters").parse().unwrap();
        assert_eq!(status_field(pid, "Seccomp_filters"), (inherited + 2).to_string());
    });
}

#[test]
fn namespaces_are_those_of_the_policy() {
    each_confined(|service, role, pid| {
        let own = |pid: i32| -> BTreeMap<String, PathBuf> {
            let links = fs::read_dir(format!("/proc/{pid}/ns")).unwrap().flatten();
            let links = links.filter(|link| !link.file_name().to_str().unwrap().ends_with("_for_children"));
            links.map(|link| (link.file_name().into_string().unwrap(), fs::read_link(link.path()).unwrap())).collect()
        };
        let parents = own(service.server.parent());
        let differing: BTreeSet<String> =
            own(pid).into_iter().filter(|(name, link)| parents[name] != *link).map(|(name, _)| name).collect();
        let grants = Policy::of(role).namespaces.iter().map(|grant| match grant.name {
            "mount" => "mnt",
            "network" => "net",
            name => name,
        });
        // An ordinary user makes the others from within a user namespace.
        let user = (!service.way.as_root).then_some("user");
        let expected: BTreeSet<String> = grants.chain(user).map(str::to_owned).collect();
        assert_eq!(differing, expected);
    });
}

#[test]
fn no_network_interface_is_up() {
    each_confined(|_, _, pid| {
        let routes = fs::read_to_string(format!("/proc/{pid}/net/route")).unwrap();
        assert!(routes.lines().count() <= 1, "more than its head: {routes}");
        let interfaces = fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
        assert!(interfaces.lines().skip(2).all(|line| line.trim_start().starts_with("lo:")), "{interfaces}");
    });
}

/// K34: neither /proc, /sys, /dev nor /etc: exactly the tree that is served, for workers and `files`, and for `log` nothing.
#[test]
fn root_is_the_jail_and_holds_exactly_what_is_served() {
    each_confined(|service, role, pid| {
        let inside = PathBuf::from(format!("/proc/{pid}/root/"));
        let found = tree(&inside);
        let served = service.root.path();
        let expected: BTreeSet<PathBuf> = match role {
            Role::Worker | Role::Files if service.way.chroot => tree(service.root.base()),
            Role::Worker | Role::Files => {
                // The directories on the way to it, and what is in it.
                let way = served.strip_prefix("/").unwrap();
                let above = way.ancestors().filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
                above.chain(tree(&served).into_iter().map(|path| way.join(path))).collect()
            }
            Role::Log | Role::Connect | Role::ConnectTcp | Role::Spool | Role::Keys | Role::Auth | Role::Spawn | Role::Parent => {
                BTreeSet::new()
            }
        };
        assert_eq!(found, expected);
        let is = |path: &Path| fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino())).unwrap();
        assert_ne!(is(&inside), is(Path::new("/")));
        assert_eq!(is(&PathBuf::from(format!("/proc/{pid}/cwd/"))), is(&inside), "the working directory is the root");
    });
}

#[test]
fn tree_is_read_only_without_devices_set_id_and_executables() {
    each_confined(|service, role, pid| {
        let inside = PathBuf::from(format!("/proc/{pid}/root/"));
        let mut directories = vec![inside.clone()];
        if role != Role::Log {
            let served = service.root.path();
            let stripped = if service.way.chroot { service.root.base() } else { Path::new("/") };
            directories.push(inside.join(served.strip_prefix(stripped).unwrap()));
        }
        for directory in directories {
            let flags = statvfs(&directory).unwrap().flags();
            let wanted = FsFlags::ST_RDONLY | FsFlags::ST_NOSUID | FsFlags::ST_NODEV | FsFlags::ST_NOEXEC;
            assert!(flags.contains(wanted), "{directory:?}: {flags:?}");
        }
        all_mounts_are_restricted(pid);
    });
}

/// What is mounted beneath a document root is shown, and restricted as the root is.
#[test]
fn mounts_beneath_a_document_root_are_restricted_too() {
    needs_root!();
    const LINE: &str = "exec unshare -m --propagation private bash -c 'mount -t tmpfs none \"$0\" && mkdir \"$0/deeper\" && \
                        mount -t tmpfs none \"$0/deeper\" && echo there > \"$0/deeper/file\" && exec \"$@\"'";
    let root = Root::with_index();
    let beneath = root.directory("beneath");
    let line = format!("{LINE} '{}' \"$@\"", beneath.display());
    let server = Launch::new().shell(&line).run(&Configuration::of(&root.path()));
    server.get("/beneath/deeper/file").must_be(&[200]);
    for pid in server.workers() {
        assert_eq!(all_mounts_are_restricted(pid), 3);
    }
}

/// How many mounts a process sees; each of them must be restricted.
#[track_caller]
fn all_mounts_are_restricted(pid: i32) -> usize {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    for mount in mounts.lines() {
        let fields: Vec<&str> = mount.split(' ').collect();
        let flags: BTreeSet<&str> = fields[5].split(',').collect();
        assert!(["ro", "nosuid", "nodev", "noexec"].iter().all(|flag| flags.contains(flag)), "{mount}");
        assert!(!mount.contains(" shared:"), "{mount}");
    }
    mounts.lines().count()
}

#[test]
fn limits_are_those_of_the_policy() {
    each_confined(|_, role, pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        for limit in Policy::of(role).limits {
            let name = match limit.name {
                "CORE" => "Max core file size",
                "FSIZE" => "Max file size",
                "NPROC" => "Max processes",
                "MEMLOCK" => "Max locked memory",
                "MSGQUEUE" => "Max msgqueue size",
                other => panic!("add the limit {other}"),
            };
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            let values: Vec<&str> = line.split_ascii_whitespace().take(2).collect();
            assert_eq!(values, [limit.value.to_string(), limit.value.to_string()], "{name}");
        }
    });
}

#[test]
fn environment_holds_nothing_but_the_time_zone() {
    each_confined(|service, _, pid| {
        for pid in [pid, service.server.parent()] {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
            let left: Vec<&[u8]> = environment.split(|byte| *byte == 0).filter(|variable| !variable.is_empty()).collect();
            assert!(
                left.iter().all(|variable| variable.starts_with(b"TZ=") || pid == service.server.parent()),
                "{}",
                environment.escape_ascii()
            );
            assert!(!environment.windows(6).any(|bytes| bytes == b"s3cret"), "{}", environment.escape_ascii());
        }
    });
}

#[test]
fn descriptors_are_of_the_kinds_of_the_policy() {
    each_confined(|service, role, pid| {
        let parents = listeners(service, role);
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for (number, target) in descriptors(pid) {
            let kind = kind(number, &target, &parents, service);
            let kind = kind.unwrap_or_else(|| panic!("descriptor {number} is open on {target:?}"));
            let granted = Policy::of(role).descriptors.iter().any(|grant| grant.name == kind);
            assert!(granted, "descriptor {number} ({target:?}) is a {kind}");
            *kinds.entry(kind).or_default() += 1;
        }
        let expected: &[(&str, usize)] = match role {
            Role::Worker => &[("channel", 8), ("directory", 1), ("event", 2), ("listener", 1), ("null", 3)],
            Role::Log => &[("channel", 3), ("event", 1), ("log", 2), ("null", 3)],
            Role::Files => &[("channel", 3), ("directory", 1), ("event", 1), ("null", 3)],
            Role::Connect | Role::ConnectTcp | Role::Spool | Role::Keys | Role::Auth | Role::Spawn | Role::Parent => {
                panic!("not confined, or not started")
            }
        };
        let mut expected: BTreeMap<&str, usize> = expected.iter().copied().collect();
        // Not everybody may open it.
        if role == Role::Log && parents.contains(Path::new("/dev/kmsg")) {
            expected.insert("kernel_log", 1);
        }
        assert_eq!(kinds, expected);
    });
}

#[test]
fn descriptors_of_the_parent_are_of_the_kinds_of_the_policy() {
    needs_root!();
    for way in WAYS {
        let service = Service::start(way);
        for (number, target) in descriptors(service.server.parent()) {
            let text = target.to_str().unwrap();
            let kind = match text {
                _ if number <= 2 => "inherited",
                "anon_inode:[eventpoll]" => "event",
                "anon_inode:[signalfd]" => "signal",
                "/dev/null" => "null",
                "/dev/kmsg" => "kernel_log",
                _ if text.starts_with("socket:") => "channel",
                _ if text.starts_with("/memfd:anchorite counters") => "counters",
                _ if text.ends_with("/access.log") || text.ends_with("/error.log") => "log",
                _ if text.ends_with("/anchorite") => "executable",
                _ => panic!("{way:?}: descriptor {number} is open on {text}"),
            };
            assert!(Policy::of(Role::Parent).descriptors.iter().any(|grant| grant.name == kind), "{kind}");
        }
    }
}

/// What the parent holds and hands out as listeners; `files` gets none, but ends of channels that the parent keeps.
fn listeners(service: &Service, role: Role) -> BTreeSet<PathBuf> {
    let all = descriptors(service.server.parent()).into_values();
    all.filter(|_| role != Role::Files).collect()
}

/// What a descriptor is, in the words of the policy.
fn kind(number: i32, target: &Path, parents: &BTreeSet<PathBuf>, service: &Service) -> Option<&'static str> {
    let text = target.to_str().unwrap();
    let site = service.root.path();
    if number <= 2 {
        return (text == "/dev/null").then_some("null");
    }
    match text {
        "anon_inode:[eventpoll]" => Some("event"),
        "/dev/kmsg" => Some("kernel_log"),
        _ if text.starts_with("socket:") && parents.contains(target) => Some("listener"),
        _ if text.starts_with("socket:") => Some("channel"),
        // As seen from within the jail.
        _ if text.ends_with("/access.log") || text.ends_with("/error.log") => Some("log"),
        _ if text.ends_with(site.file_name().unwrap().to_str().unwrap()) => Some("directory"),
        _ => None,
    }
}

/// A log can be appended to and nothing else; a document root can be looked up beneath and nothing else.
#[test]
fn descriptors_are_opened_for_no_more_than_their_use() {
    each_confined(|service, role, pid| {
        let parents = listeners(service, role);
        for (number, target) in descriptors(pid) {
            let flags = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap();
            let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim().to_owned();
            let flags = i32::from_str_radix(&flags, 8).unwrap();
            match kind(number, &target, &parents, service) {
                Some("log") => {
                    assert_eq!(flags & libc::O_ACCMODE, libc::O_WRONLY, "{role:?}: {target:?}");
                    assert!(flags & libc::O_APPEND != 0, "{role:?}: {target:?}");
                }
                Some("directory") => assert!(flags & libc::O_PATH != 0, "{role:?}: {target:?}"),
                _ => {}
            }
        }
    });
}

#[test]
fn no_memory_is_executable_but_the_program_and_its_libraries() {
    each_confined(|_, _, pid| {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        for line in maps.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (permissions, path) = (words[1], words.get(5).copied().unwrap_or(""));
            let is_code = permissions.contains('x');
            assert!(!(is_code && permissions.contains('w')), "{line}");
            assert!(!is_code || path.starts_with('/') || ["[vdso]", "[vsyscall]"].contains(&path), "{line}");
        }
    });
}

#[test]
fn each_has_one_thread_a_session_of_its_own_and_its_title() {
    each_confined(|service, role, pid| {
        assert_eq!(status_field(pid, "Threads"), "1");
        assert_eq!(status_field(pid, "Name"), format!("anchorite-{}", role.name()).chars().take(15).collect::<String>());
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
        assert_eq!(session, pid.to_string());
        assert_eq!(fs::read_link(format!("/proc/{pid}/exe")).unwrap().file_name(), Some("anchorite".as_ref()));
        let parent = fs::read(format!("/proc/{}/cmdline", service.server.parent())).unwrap();
        let title = format!("anchorite: parent {}", service.server.address());
        assert!(parent.starts_with(title.as_bytes()), "{}", parent.escape_ascii());
        // The signals that end a faulting process are handled by nobody.
        let caught = u64::from_str_radix(&status_field(pid, "SigCgt"), 16).unwrap();
        assert_eq!(caught, 0);
    });
}

#[test]
fn parent_has_the_capabilities_and_the_filter_of_its_policy() {
    needs_root!();
    for way in WAYS {
        let service = Service::start(way);
        let pid = service.server.parent();
        let names: Vec<&str> = Policy::of(Role::Parent).capabilities.iter().map(|grant| grant.name).collect();
        let granted = format!("{:016x}", names.iter().map(|name| 1u64 << capability(name)).sum::<u64>());
        let none = "0000000000000000".to_owned();
        let held = if way.as_root { &granted } else { &none };
        assert_eq!(&status_field(pid, "CapEff"), held, "{way:?}");
        assert_eq!(&status_field(pid, "CapPrm"), held, "{way:?}");
        assert_eq!(status_field(pid, "CapInh"), none, "{way:?}");
        assert_eq!(status_field(pid, "CapAmb"), none, "{way:?}");
        if way.as_root {
            assert_eq!(status_field(pid, "CapBnd"), granted);
        }
        assert_eq!(status_field(pid, "NoNewPrivs"), if way.as_root { "0" } else { "1" });
        assert_eq!(status_field(pid, "Seccomp"), "2");
        let own: u32 = status_field(i32::try_from(std::process::id()).unwrap(), "Seccomp_filters").parse().unwrap();
        assert_eq!(status_field(pid, "Seccomp_filters"), (own + 1).to_string());
        assert_eq!(status_field(pid, "Threads"), "1");
    }
}

/// Number of a capability (linux/capability.h).
fn capability(name: &str) -> u32 {
    match name {
        "CAP_DAC_READ_SEARCH" => 2,
        "CAP_KILL" => 5,
        "CAP_SETGID" => 6,
        "CAP_SETUID" => 7,
        "CAP_SETPCAP" => 8,
        "CAP_NET_BIND_SERVICE" => 10,
        "CAP_SYS_CHROOT" => 18,
        "CAP_SYS_ADMIN" => 21,
        other => panic!("add the capability {other}"),
    }
}

/// All that is beneath a directory, by paths relative to it.
fn tree(directory: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(directory.join(&path)).unwrap() {
            let entry = entry.unwrap();
            let name = path.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                waiting.push(name.clone());
            }
            found.insert(name);
        }
    }
    found
}

fn descriptors(pid: i32) -> BTreeMap<i32, PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, fs::read_link(entry.path()).ok()?))).collect()
}
