//! Whom the confined processes run as. Looked up once, before anything is served.

use super::report::announce;
use crate::config::Config;
use crate::sys::privilege::{self, Identity};
use std::sync::OnceLock;

/// What of `user` and `group` is not done for an ordinary user, who can become nobody else.
pub fn ignored(config: &Config) -> Option<String> {
    let user = config.server.user.as_deref().filter(|_| !privilege::is_root())?;
    let own = privilege::own_ids().0;
    let is_own = privilege::look_up(user, None).is_ok_and(|(uid, _)| uid == own);
    (!is_own).then(|| format!("the user \"{user}\" is not meant by who is not root: everything runs as uid {own}"))
}

/// Whom confined roles run as.
///
/// # Errors
/// Names the user or group that is not known, or may not be it.
pub fn identity(config: &Config) -> Result<Identity, String> {
    let (own_uid, own_gid) = privilege::own_ids();
    if !privilege::is_root() {
        return Ok(Identity { uid: own_uid, gid: own_gid, rootless: true });
    }
    let (uid, gid) = match &config.server.user {
        Some(user) => privilege::look_up(user, config.server.group.as_deref())?,
        None => privilege::look_up(SERVICE_USER, None).ok().filter(|(uid, gid)| *uid != 0 && *gid != 0).map_or_else(unused, Ok)?,
    };
    if uid == 0 || gid == 0 {
        return Err(format!("the service may not run as root (user id {uid}, group id {gid}): name another user and group in [server]"));
    }
    Ok(Identity { uid, gid, rootless: false })
}

/// Whom `keys` runs as, so that not even a worker that gets round its confinement is its user: looked up once, before anything is served.
pub(super) fn of_keys(service: Identity) -> Identity {
    static FOUND: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    let found = FOUND.get_or_init(|| privilege::look_up(KEYS_USER, None).ok().filter(|(uid, gid)| *uid != 0 && *gid != 0));
    match found {
        Some((uid, gid)) if !service.rootless => Identity { uid: *uid, gid: *gid, rootless: false },
        Some(_) | None => service,
    }
}

fn unused() -> Result<(u32, u32), String> {
    let id = privilege::unused_id().ok_or("no unused user id was found, and the user \"anchorite\" does not exist")?;
    announce(&format!("the user \"{SERVICE_USER}\" does not exist: running as the unused id {id}"));
    Ok((id, id))
}

const SERVICE_USER: &str = "anchorite";
const KEYS_USER: &str = "anchorite-keys";
