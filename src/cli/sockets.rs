//! Sockets of backends that `connect` could not use: told by `anchorite check` as warnings, since a backend may start later.

use crate::config::{Backend, BackendAddress, Config, Protocol};
use crate::sys::privilege::{self, Identity};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A text for each.
pub(super) fn find(config: &Config, identity: Identity) -> Vec<String> {
    // CGI programs have no socket, and that of a program which is started by the service is made when it starts.
    let waits = |backend: &&Backend| backend.protocol != Protocol::Cgi && backend.spawn.is_none();
    let backends = config.backends.iter().filter(waits);
    let addresses = backends.flat_map(|backend| backend.addresses.iter().map(move |address| (backend, address)));
    let told = addresses.filter_map(|(backend, address)| match address {
        BackendAddress::Unix(path) => {
            Some(format!("backend \"{}\": \"{}\" {}", backend.name, path.display(), why(backend, path, identity)?))
        }
        BackendAddress::Tcp { .. } | BackendAddress::Name { .. } => None,
    });
    told.collect()
}

/// Why requests would be answered with 503.
fn why(backend: &Backend, path: &Path, identity: Identity) -> Option<String> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(fault) => return Some(format!("cannot be reached: {fault}")),
    };
    if !metadata.file_type().is_socket() {
        return Some("is no socket".to_owned());
    }
    let own = backend.group.as_deref().and_then(|group| privilege::look_up_group(group).ok());
    // Who connects needs to be permitted to write (unix(7)); the first class that fits decides.
    let permission = if metadata.uid() == identity.uid {
        0o200
    } else if metadata.gid() == identity.gid || own == Some(metadata.gid()) {
        0o020
    } else {
        0o002
    };
    if metadata.mode() & permission != 0 {
        return None;
    }
    let (owner, group) = privilege::names(metadata.uid(), metadata.gid());
    let mode = metadata.mode() & 0o7777;
    let help = if permission == 0o002 && mode & 0o020 != 0 { format!("; group = \"{group}\" lets it") } else { String::new() };
    Some(format!("belongs to {owner}:{group} with mode {mode:04o}, and user id {} may not connect to it{help}", identity.uid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_told_of_sockets_that_are_made_at_the_start_or_never() {
        let spawned = "[backend.own]\ntype = \"fastcgi\"\naddress = \"unix:/run/none/s\"\n[backend.own.spawn]\ncommand = [\"/bin/true\"]\n\
                       user = \"nobody\"\ngroup = \"nogroup\"\n";
        let text = format!("{spawned}[[site]]\nroot = \"/srv\"\n[[site.rule]]\npath = \"/cgi/*\"\ncgi = \"/usr/lib/cgi-bin\"\n");
        let config = crate::config::parse(&text, Path::new("/f.toml")).unwrap();
        assert_eq!(config.backends.len(), 2);
        assert_eq!(find(&config, Identity { uid: 1, gid: 1, rootless: false }), [""; 0]);
    }

    #[test]
    fn owner_group_and_mode_of_a_socket_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let text = format!(
            "[backend.php]\ntype = \"fastcgi\"\naddress = [\"unix:{}\", \"unix:/nonexistent/s\"]\n[[site]]\nroot = \"/srv\"\n",
            path.display()
        );
        let config = crate::config::parse(&text, Path::new("/f.toml")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let (uid, gid) = privilege::own_ids();
        let other = Identity { uid: uid + 1, gid: gid + 1, rootless: false };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660)).unwrap();
        let told = find(&config, other);
        let (owner, group) = privilege::names(uid, gid);
        assert!(told[0].contains(&format!("belongs to {owner}:{group} with mode 0660")), "{told:?}");
        assert!(told[0].ends_with(&format!("; group = \"{group}\" lets it")), "{told:?}");
        assert!(told[1].contains("\"/nonexistent/s\" cannot be reached"), "{told:?}");
        assert_eq!(find(&config, Identity { uid, gid, rootless: false }).len(), 1);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(find(&config, other).len(), 1);
    }
}
