//! Files: of the system, of the service, beside and in the document root, and the logs.

use super::{ABSENT, Attempt, LOG_CHANNEL, NO_CALL, Right, Target, attempt, descriptors, die, dies, here, opens, withstands};
use crate::hijack::{Hijacked, number};
use crate::support::{needs_root, status_field};
use nix::libc;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

#[test]
fn k01_k34_files_of_the_system_are_not_there() {
    let mut attempts: Vec<Attempt> = [
        "/etc/passwd",
        "/etc/shadow",
        "/proc/1/environ",
        "/proc/self/status",
        "/proc",
        "/sys",
        "/dev",
        "/dev/null",
        "/etc",
        "../../../../../../etc/passwd",
        "/proc/self/root/etc/passwd",
        "/",
    ]
    .into_iter()
    .map(|path| opens(here, path, libc::O_RDONLY, ABSENT))
    .collect();
    attempts.push(attempt("openat /etc/passwd", NO_CALL, |worker| {
        let path = worker.text("/etc/passwd");
        worker.call(libc::SYS_openat, [number(libc::AT_FDCWD), path, 0, 0, 0, 0])
    }));
    attempts.push(attempt("readlink /proc/self/exe", NO_CALL, |worker| {
        let path = worker.text("/proc/self/exe");
        let buffer = worker.place(&[0; 256]);
        worker.call(libc::SYS_readlink, [path, buffer, 256, 0, 0, 0])
    }));
    attempts.push(attempt("newfstatat /etc/passwd", ABSENT, |worker| {
        let path = worker.text("/etc/passwd");
        let buffer = worker.place(&[0; 256]);
        worker.call(libc::SYS_newfstatat, [number(libc::AT_FDCWD), path, buffer, 0, 0, 0])
    }));
    attempts.push(attempt("open /etc/passwd", Right::Dies, |worker| {
        let path = worker.text("/etc/passwd");
        worker.call(libc::SYS_open, [path, 0, 0, 0, 0, 0])
    }));
    attempts.extend(die(&[("open_by_handle_at", libc::SYS_open_by_handle_at), ("name_to_handle_at", libc::SYS_name_to_handle_at)]));
    withstands(attempts);
}

#[test]
fn k02_configuration_and_logs_are_not_there() {
    needs_root!();
    let target = Target::new(4);
    let files = ["anchorite.toml", "access.log", "error.log"].map(|name| target.server.home().join(name));
    let attempts = files.map(|path| {
        assert!(path.exists());
        opens(here, path.to_str().unwrap(), libc::O_RDONLY, ABSENT)
    });
    target.withstands(&attempts);
}

#[test]
fn k03_no_way_leads_out_of_a_held_directory() {
    needs_root!();
    let target = Target::new(8);
    fs::write(target.root.base().join("secret"), "secret").unwrap();
    fs::set_permissions(target.root.base().join("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    let secret = target.root.base().join("secret");
    let attempts = [
        opens(document_root, "../secret", libc::O_RDONLY, ABSENT),
        opens(document_root, "../../../../../../etc/passwd", libc::O_RDONLY, ABSENT),
        opens(document_root, "..", libc::O_RDONLY | libc::O_DIRECTORY, ABSENT),
        opens(here, secret.to_str().unwrap(), libc::O_RDONLY, ABSENT),
        opens(here, "/tmp", libc::O_RDONLY | libc::O_DIRECTORY, ABSENT),
        opens(here, "..", libc::O_RDONLY | libc::O_DIRECTORY, ABSENT),
        attempt("fchdir", Right::Dies, |worker| {
            let directory = document_root(worker);
            worker.call(libc::SYS_fchdir, [number(directory), 0, 0, 0, 0, 0])
        }),
    ];
    target.withstands(&attempts);
}

#[test]
fn k04_nothing_of_the_document_root_can_be_changed() {
    needs_root!();
    const READ_ONLY: Right = Right::Fails(&[libc::EROFS, libc::EACCES]);
    let target = Target::new(30);
    let file = target.root.file("own.txt", "unchanged");
    // As badly owned as can be: it and its directory are the worker's own, and writable.
    let uid: u32 = status_field(target.workers[0], "Uid").split_whitespace().next().unwrap().parse().unwrap();
    for path in [file.clone(), target.root.path()] {
        chown(&path, Some(uid), None).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let path = file.to_str().unwrap().to_owned();
    let new = format!("{path}.new");
    let mut attempts = vec![
        opens(here, &path, libc::O_WRONLY, READ_ONLY),
        opens(here, &path, libc::O_RDWR, READ_ONLY),
        opens(here, &path, libc::O_RDONLY | libc::O_TRUNC, READ_ONLY),
        opens(here, &new, libc::O_WRONLY | libc::O_CREAT, READ_ONLY),
        opens(document_root, "new", libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, READ_ONLY),
        opens(document_root, ".", libc::O_TMPFILE | libc::O_RDWR, READ_ONLY),
    ];
    for (name, call) in [
        ("unlink", libc::SYS_unlink),
        ("rename", libc::SYS_rename),
        ("link", libc::SYS_link),
        ("symlink", libc::SYS_symlink),
        ("chmod", libc::SYS_chmod),
        ("chown", libc::SYS_chown),
        ("setxattr", libc::SYS_setxattr),
        ("truncate", libc::SYS_truncate),
        ("mkdir", libc::SYS_mkdir),
        ("mknod", libc::SYS_mknod),
        ("creat", libc::SYS_creat),
    ] {
        let (path, new) = (path.clone(), new.clone());
        attempts.push(attempt(name, Right::Dies, move |worker| {
            let (path, new) = (worker.text(&path), worker.text(&new));
            worker.call(call, [path, new, 0, 0, 0, 0])
        }));
    }
    for (name, call) in [
        ("unlinkat", libc::SYS_unlinkat),
        ("utimensat", libc::SYS_utimensat),
        ("fchmodat", libc::SYS_fchmodat),
        ("mkdirat", libc::SYS_mkdirat),
    ] {
        let path = path.clone();
        attempts.push(attempt(name, Right::Dies, move |worker| {
            let path = worker.text(&path);
            worker.call(call, [number(libc::AT_FDCWD), path, 0, 0, 0, 0])
        }));
    }
    attempts.extend(die(&[
        ("ftruncate", libc::SYS_ftruncate),
        ("fallocate", libc::SYS_fallocate),
        ("pwrite64", libc::SYS_pwrite64),
        ("copy_file_range", libc::SYS_copy_file_range),
        ("renameat2", libc::SYS_renameat2),
    ]));
    target.withstands(&attempts);
    assert_eq!(fs::read_to_string(&file).unwrap(), "unchanged");
    assert_eq!(fs::read_dir(target.root.path()).unwrap().count(), 2);
}

#[test]
fn k14_what_was_logged_stays() {
    needs_root!();
    let target = Target::new(8);
    target.server.get("/").must_be(&[200]);
    let before = target.server.wait_for_lines("access.log", 1);
    let attempts = [
        dies("ftruncate", libc::SYS_ftruncate, [LOG_CHANNEL, 0, 0, 0, 0, 0]),
        dies("pwrite64", libc::SYS_pwrite64, [LOG_CHANNEL, 0, 0, 0, 0, 0]),
        dies("pwritev2", libc::SYS_pwritev2, [LOG_CHANNEL, 0, 0, 0, 0, 0]),
        dies("fallocate", libc::SYS_fallocate, [LOG_CHANNEL, 0, 0, 4096, 0, 0]),
        dies("F_SETFL", libc::SYS_fcntl, [LOG_CHANNEL, number(libc::F_SETFL), 0, 0, 0, 0]),
        dies("lseek", libc::SYS_lseek, [LOG_CHANNEL, 0, 0, 0, 0, 0]),
        attempt("pread64", Right::Fails(&[libc::ESPIPE]), |worker| {
            let buffer = worker.place(&[0; 64]);
            worker.call(libc::SYS_pread64, [LOG_CHANNEL, buffer, 64, 0, 0, 0])
        }),
    ];
    target.withstands(&attempts);
    let after = target.server.wait_for_lines("access.log", 2);
    assert_eq!(after[..before.len()], before);
}

/// The directory that a worker holds open: its document root.
fn document_root(worker: &Hijacked) -> i32 {
    let found = descriptors(worker.pid()).into_iter().find(|(_, target)| target.starts_with("/"));
    let held = found.filter(|(number, _)| *number > 2);
    held.unwrap_or_else(|| panic!("no directory among {:?}", descriptors(worker.pid()))).0
}
