//! `redirect`: another place for the client to ask.

use super::super::template::{self, Values};
use super::run::{Next, Run};
use crate::config::Template;
use crate::proto::status::Status;

impl Run {
    /// 400 where the client would choose the host that it is sent to.
    pub(super) fn redirect(location: &mut Vec<u8>, to: &Template, status: u16, values: &dyn Values) -> Next {
        location.clear();
        match template::location(to, values, location) {
            Ok(()) if location.is_empty() => Next::Status(Status::INTERNAL_SERVER_ERROR),
            Ok(()) => Next::Redirect(Status::of(status).unwrap_or(Status::FOUND)),
            Err(template::OpenRedirect) => Next::Status(Status::BAD_REQUEST),
        }
    }
}
