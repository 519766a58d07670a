//! `allow`, `deny` and `auth`: every matching rule must permit.

use super::super::facts::Facts;
use super::compiled::Changes;
use std::net::IpAddr;

impl Changes {
    /// `allow` alone: only these; `deny` alone: all but these; both: allowed and not denied.
    pub(super) fn permits(&self, client: IpAddr) -> bool {
        let allowed = self.allow.is_empty() || self.allow.iter().any(|network| network.contains(client));
        allowed && !self.deny.iter().any(|network| network.contains(client))
    }

    pub(super) fn limits_clients(&self) -> bool {
        !(self.allow.is_empty() && self.deny.is_empty())
    }

    /// Whether a user is wanted that the request is not known to be one's.
    pub(super) fn asks_for_user(&self, facts: &Facts<'_>) -> bool {
        self.auth.as_ref().is_some_and(|(realm, _)| !facts.realms.contains(realm))
    }
}
