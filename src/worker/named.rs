//! Files that backends name by `X-Sendfile`, to be sent in place of their answers: only beneath the directory that `sendfile` of the backend
//! names, and by the site's policy for links.
//!
//! Runs in the worker, as a part of [`Service`]. A backend that is taken over can name any file beneath that directory, and no other: the path
//! is taken apart here, and looked up as that of a request is.

use super::answer::{Answered, Incoming, Service};
use super::backend::Shared;
use super::fetched::Fetched;
use super::pending::Paused;
use crate::config::Act;
use crate::proto::status::Status;
use crate::site::lookup::RootRef;
use crate::site::plan::{Outcome, Plan, Step};
use percent_encoding::percent_decode;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A field of a backend's answer.
pub(super) type Said = (Arc<str>, Arc<[u8]>);

/// A directory beneath which a backend may name files.
pub(super) struct Place<'p> {
    root: RootRef,
    /// As the configuration has it, and as it is without links: a program may say either.
    names: [&'p Path; 2],
}

impl Service {
    /// Where the backend of this plan may name files; `None`: it may not.
    pub(super) fn place_of_named(&self, site: usize, plan: &Plan) -> Option<Place<'_>> {
        let number = plan.script()?.backend;
        let written = self.backends.all.get(usize::from(number))?.sendfile.as_deref()?;
        let site = self.sites.get(site);
        let acts = site.rules.iter().filter_map(|rule| rule.act.as_ref());
        let found = acts.filter(|act| matches!(act, Act::Backend(to) if to.backend == number)).find_map(Act::sendfile)?;
        let fits = |base: &crate::config::Base| base.path == *found && base.symlinks == site.symlinks && !base.may_be_file;
        let root = RootRef(self.sites.directories().iter().position(fits)?);
        Some(Place { root, names: [written, found] })
    }

    /// Sends the file that was named, with the fields that were said of it.
    pub(super) fn begin_named(
        &mut self,
        incoming: &Incoming<'_>,
        site: usize,
        mut plan: Plan,
        exchange: &Shared,
        (named, fields): (&[u8], Vec<Said>),
    ) -> Answered {
        // Its own content is not wanted; it may come to its end all the same.
        self.backends.discard(exchange, self.clock.now);
        let place = self.place_of_named(site, &plan);
        let Some((root, path)) = place.and_then(|place| Some((place.root, beneath(named, &place.names)?))) else {
            self.refuse_named(incoming, site, &plan, named, "is not beneath \"sendfile\"", Status::BAD_GATEWAY);
            return self.decided(incoming, site, plan, Outcome::Status(Status::BAD_GATEWAY));
        };
        let fields = fields.into_iter().filter(|(name, _)| !OF_THE_FILE.iter().any(|own| name.eq_ignore_ascii_case(own)));
        let step = plan.begin_named(root, &path, fields);
        match self.recall(incoming, site, &mut plan, step) {
            Step::Ask => Answered::Asks(Paused::at_lookup(plan, incoming.persistence)),
            Step::Done(outcome) => self.send_named(incoming, site, plan, outcome),
        }
    }

    /// What the look-up of such a file gave.
    pub(super) fn send_named(&mut self, incoming: &Incoming<'_>, site: usize, plan: Plan, outcome: Outcome<Fetched>) -> Answered {
        self.changes = plan.changes().clone();
        if let Outcome::Status(status) = outcome {
            let path = plan.lookup().path.to_vec();
            self.refuse_named(incoming, site, &plan, &path, "cannot be sent", status);
            return self.decided(incoming, site, plan, Outcome::Status(status));
        }
        self.carry_out(incoming, site, plan, outcome)
    }

    fn refuse_named(&mut self, incoming: &Incoming<'_>, site: usize, plan: &Plan, path: &[u8], why: &str, status: Status) {
        let backend = plan.script().and_then(|script| self.backends.all.get(usize::from(script.backend)));
        let name = backend.map_or_else(String::new, |backend| backend.name.clone());
        let path = crate::ipc::lines::escaped(path);
        self.complain(incoming, site, &format!("backend \"{name}\": X-Sendfile \"{path}\" {why}; {status}"));
    }
}

/// The path beneath one of these directories, without empty segments; `None`: it is not beneath one of them, or could lead out again. A
/// relative path is beneath them. As at lighttpd and Apache, it may be percent-encoded.
fn beneath(named: &[u8], directories: &[&Path]) -> Option<Vec<u8>> {
    let decoded: Vec<u8> = percent_decode(named).collect();
    let rest = if decoded.starts_with(b"/") {
        directories.iter().find_map(|directory| decoded.strip_prefix(directory.as_os_str().as_bytes())?.strip_prefix(b"/"))?
    } else {
        &decoded
    };
    let segments: Vec<&[u8]> = rest.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty()).collect();
    let is_safe = |segment: &&[u8]| **segment != *b"." && **segment != *b".." && !segment.contains(&0);
    (!segments.is_empty() && !rest.ends_with(b"/") && segments.iter().all(is_safe)).then(|| segments.join(&b'/'))
}

/// Said of a file by what is known of it, whatever the backend says.
const OF_THE_FILE: [&str; 7] =
    ["content-length", "content-encoding", "content-range", "accept-ranges", "etag", "last-modified", "x-content-type-options"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_beneath_the_directory_are_taken() {
        let directories = [Path::new("/srv/private"), Path::new("/data/p")];
        let told = |named: &str| beneath(named.as_bytes(), &directories).map(|path| String::from_utf8(path).unwrap());
        for (named, path) in [
            ("/srv/private/a.pdf", "a.pdf"),
            ("/data/p/a/b", "a/b"),
            ("/srv/private//a///b", "a/b"),
            ("a/b", "a/b"),
            ("/srv/private/a%20b", "a b"),
            ("/srv/private/100%.pdf", "100%.pdf"),
            ("/srv/private/...", "..."),
        ] {
            assert_eq!(told(named).as_deref(), Some(path), "{named}");
        }
        for named in [
            "",
            "/",
            "/srv/private",
            "/srv/private/",
            "/srv/privateer/a",
            "/srv/private/../b",
            "/srv/private/%2e%2e/b",
            "/srv/private/a/%2e%2e%2fb",
            "/srv/private/./b",
            "../b",
            "a/../../b",
            "/etc/passwd",
            "/srv/private/a%00",
            "/srv/private/a/",
            "//srv/private/a",
        ] {
            assert_eq!(told(named), None, "{named}");
        }
    }
}
