//! `respond`: a status, or a page of the server itself.

use super::super::facts::Facts;
use super::super::template;
use super::compiled::Changes;
use super::run::{Inputs, Next, Run};
use crate::config::{Page, Respond};
use crate::proto::head::Method;
use crate::proto::status::Status;

impl Run {
    pub(super) fn respond(body: &mut Option<Vec<u8>>, respond: &Respond, changes: &Changes, facts: &Facts<'_>, values: Inputs<'_>) -> Next {
        match respond {
            Respond::Status { status, body: template } => {
                let status = Status::of(*status).unwrap_or(Status::INTERNAL_SERVER_ERROR);
                if let Some(template) = template {
                    let mut text = Vec::new();
                    template::text(template, &values.with_status(status), &mut text);
                    *body = Some(text);
                }
                Next::Respond(status)
            }
            Respond::Page(page) => Run::page(*page, changes, facts),
        }
    }

    /// The pages tell of other people's requests: from loopback only, unless the rule says to whom; and whoever stands behind a proxy on this
    /// machine is not this machine.
    fn page(page: Page, changes: &Changes, facts: &Facts<'_>) -> Next {
        let local = !changes.allow.is_empty() || facts.client.to_canonical().is_loopback();
        if facts.forwarded || !local {
            return Next::Status(Status::FORBIDDEN);
        }
        match facts.method {
            Method::Get | Method::Head => Next::Page(page),
            Method::Options
            | Method::Post
            | Method::Put
            | Method::Delete
            | Method::Patch
            | Method::Trace
            | Method::Connect
            | Method::Extension => Next::Methods,
        }
    }
}
