//! What a plan asks and is answered, and how it ends.

use super::super::lookup::Stands;
use super::super::trace::Answered;
use crate::config::Page;
use crate::proto::status::Status;

/// What the disk said. `F` is whatever stands for an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<F> {
    /// A regular file.
    File(F),
    Directory,
    /// Nothing of that name (`ENOENT`, `ENOTDIR`, `ENAMETOOLONG`), or nothing that `symlinks` lets be reached (`ELOOP`, `EXDEV`).
    Missing,
    /// It may not be read (`EACCES`, `EPERM`).
    Denied,
    /// A FIFO, a device or a socket.
    NotRegular,
    /// It cannot be said now, for want of descriptors or memory, or because the tree kept changing (`EMFILE`, `ENFILE`, `ENOMEM`, `EAGAIN`).
    Busy,
    /// Any other error.
    Failed,
}

impl<F> Answer<F> {
    /// The same with something else standing for the file.
    pub fn map<G>(self, file: impl FnOnce(F) -> G) -> Answer<G> {
        match self {
            Answer::File(opened) => Answer::File(file(opened)),
            Answer::Directory => Answer::Directory,
            Answer::Missing => Answer::Missing,
            Answer::Denied => Answer::Denied,
            Answer::NotRegular => Answer::NotRegular,
            Answer::Busy => Answer::Busy,
            Answer::Failed => Answer::Failed,
        }
    }

    /// The answer without its file.
    pub(super) fn kind(&self) -> Answered {
        match self {
            Answer::File(_) => Answered::Stands(Stands::File),
            Answer::Directory => Answered::Stands(Stands::Directory),
            Answer::Missing => Answered::Stands(Stands::Nothing),
            Answer::NotRegular => Answered::Stands(Stands::Other),
            Answer::Denied => Answered::Denied,
            Answer::Busy => Answered::Busy,
            Answer::Failed => Answered::Failed,
        }
    }
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<F> {
    /// [`lookup`](super::Plan::lookup) is to be answered with [`resume`](super::Plan::resume).
    Ask,
    Done(Outcome<F>),
}

/// What the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<F> {
    /// This file; [`lookup`](super::Plan::lookup) is its path.
    File(F),
    /// The listing of the directory that [`lookup`](super::Plan::lookup) names, without the names that [`shows`](super::Plan::shows) denies.
    Listing,
    /// This status, 301 to 308, with [`location`](super::Plan::location).
    Redirect(Status),
    /// This status and its page: see [`begin_error_page`](super::Plan::begin_error_page).
    Status(Status),
    /// This status with this file as its page.
    ErrorPage(Status, F),
    /// This status with [`body`](super::Plan::body), or where there is none with its page.
    Respond(Status),
    /// A page of the server itself.
    Page(Page),
    /// The backend of [`script`](super::Plan::script) answers.
    Backend,
    /// 401, or whatever follows once the request is known to be of a user of the `[auth.NAME]` of that number: then
    /// [`begin_again`](super::Plan::begin_again).
    Login(u16),
    /// 403: the file that would be sent is the source of a script.
    Source,
    /// 204 with [`ALLOW`](super::ALLOW).
    Allow,
    /// 405 with [`ALLOW`](super::ALLOW).
    MethodNotAllowed,
}

/// Why a plan ended with 403 of its own accord: what an administrator would look for in the error log. What the disk denied, or had
/// no regular file for, is told by whoever asked the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    /// `allow`, `deny`, or a page of the server for somebody else.
    ByRule,
    /// [`lookup`](super::Plan::lookup) is a directory without an index file, and `listing` is off.
    NoIndex,
}
