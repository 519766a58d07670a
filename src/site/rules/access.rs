//! `allow` and `deny`: every matching rule must permit.

use super::compiled::Changes;
use std::net::IpAddr;

impl Changes {
    /// `allow` alone: only these; `deny` alone: all but these; both: allowed and not denied.
    pub(super) fn permits(&self, client: IpAddr) -> bool {
        let allowed = self.allow.is_empty() || self.allow.iter().any(|network| network.contains(client));
        allowed && !self.deny.iter().any(|network| network.contains(client))
    }
}
