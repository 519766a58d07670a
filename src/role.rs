//! The roles: what kinds of process there are. A role is a process, a room or file in `src/`, a stanza in
//! `policy/roles.toml`, a seccomp file and a row in SECURITY.md; all carry the same name.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// A kind of process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    Parent,
    Worker,
    Log,
    Files,
    /// Connects to backends at sockets in the file system.
    Connect,
    /// The same, where any backend has a TCP address.
    ConnectTcp,
    /// Keeps bodies that are too large for memory.
    Spool,
    /// Holds the private keys and signs with them.
    Keys,
    /// Says whether a password is that of a user.
    Auth,
    /// Starts the programs of backends.
    Spawn,
}

impl Role {
    /// Every role, in the order of the tables.
    pub const ALL: [Role; 10] = [
        Role::Parent,
        Role::Worker,
        Role::Log,
        Role::Files,
        Role::Connect,
        Role::ConnectTcp,
        Role::Spool,
        Role::Keys,
        Role::Auth,
        Role::Spawn,
    ];

    /// Whether it connects to backends.
    pub const fn is_connect(self) -> bool {
        matches!(self, Role::Connect | Role::ConnectTcp)
    }

    pub const fn is_spool(self) -> bool {
        matches!(self, Role::Spool)
    }

    pub const fn is_auth(self) -> bool {
        matches!(self, Role::Auth)
    }

    /// Whether it is one of a generation that its workers have channels to, each worker to one of its own where it is `keys`.
    pub const fn is_shared(self) -> bool {
        matches!(self, Role::Files | Role::Spool | Role::Keys | Role::Auth) || self.is_connect()
    }

    /// The role's name as it stands in `policy/`, in process titles and in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Parent => "parent",
            Role::Worker => "worker",
            Role::Log => "log",
            Role::Files => "files",
            Role::Connect => "connect",
            Role::ConnectTcp => "connect-tcp",
            Role::Spool => "spool",
            Role::Keys => "keys",
            Role::Auth => "auth",
            Role::Spawn => "spawn",
        }
    }

    /// Its place in [`Role::ALL`], as it stands in messages.
    pub fn tag(self) -> u8 {
        let place = Role::ALL.iter().position(|role| *role == self);
        place.and_then(|place| u8::try_from(place).ok()).unwrap_or_default()
    }

    /// The role of that tag.
    pub fn from_tag(tag: u8) -> Option<Role> {
        Role::ALL.get(usize::from(tag)).copied()
    }

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A layer of confinement that a kernel may lack and that `jail.allow_missing` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Layer {
    Landlock,
    Seccomp,
    Namespaces,
}

impl Layer {
    pub const ALL: [Layer; 3] = [Layer::Landlock, Layer::Seccomp, Layer::Namespaces];

    /// Its name in `jail.allow_missing` and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Layer::Landlock => "landlock",
            Layer::Seccomp => "seccomp",
            Layer::Namespaces => "namespaces",
        }
    }

    /// That it is missing, and what brings it.
    pub fn is_missing(self) -> String {
        format!(
            "the layer \"{}\" is missing (since {}; a container's filter may keep it away too), and jail.allow_missing does not name it",
            self.name(),
            self.since()
        )
    }

    /// The kernel that brings it.
    pub const fn since(self) -> &'static str {
        match self {
            Layer::Landlock => "Linux 5.13, with CONFIG_SECURITY_LANDLOCK and \"landlock\" among the active LSMs",
            Layer::Seccomp => "Linux 3.17, with CONFIG_SECCOMP_FILTER",
            Layer::Namespaces => "Linux 5.12, with namespaces that this user may make (mount_setattr is the newest part)",
        }
    }
}
