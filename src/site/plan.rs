//! How a request is answered: a resumable decision.
//!
//! Runs in the `worker`. Does no I/O: where it must know something of the disk it stops with [`Step::Ask`], and goes on with the
//! [`Answer`], whether that came from a cache at once or from another process later.

use super::listing::is_hidden;
use crate::config::Site;
use crate::proto::head::Method;
use crate::proto::status::Status;
use crate::proto::target::{self, Path};

/// The methods of a file, for the `Allow` field.
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// A question about the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup<'p> {
    /// Beneath the site's root: no slash at either end, no empty, `.` or `..` segment, no NUL; empty for the root itself. Which symbolic
    /// links may be followed is the site's to say.
    pub path: &'p [u8],
}

/// What the disk said. `F` is whatever stands for an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<F> {
    /// A regular file.
    File(F),
    Directory,
    /// Nothing of that name (`ENOENT`, `ENOTDIR`, `ENAMETOOLONG`), or nothing that the policy for symbolic links lets be reached
    /// (`ELOOP`, `EXDEV`).
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

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<F> {
    /// [`Plan::lookup`] is to be answered with [`Plan::resume`].
    Ask,
    Done(Outcome<F>),
}

/// What the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<F> {
    /// This file; [`Plan::lookup`] is its path.
    File(F),
    /// The listing of the directory that [`Plan::lookup`] names.
    Listing,
    /// 301 to [`Plan::location`].
    Redirect,
    /// This status and its page.
    Status(Status),
    /// 204 with [`ALLOW`].
    Allow,
    /// 405 with [`ALLOW`].
    MethodNotAllowed,
}

/// The state of one request's decision. Made to be used again: [`Plan::begin`] forgets the request before but keeps the memory.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The present question; its first `target` bytes are the request's path.
    path: Vec<u8>,
    target: usize,
    directory: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    /// What the request names was asked for.
    Target,
    /// The index file of that number was asked for.
    Index(usize),
}

impl Plan {
    /// Starts on a request for `path`.
    pub fn begin<F>(&mut self, site: &Site, method: Method, path: &Path) -> Step<F> {
        self.state = State::Idle;
        self.take_path(path);
        match method {
            Method::Get | Method::Head => {}
            Method::Options => return Step::Done(Outcome::Allow),
            Method::Extension => return status(Status::NOT_IMPLEMENTED),
            // TRACE would echo the request, cookies and all; CONNECT is for proxies.
            Method::Post | Method::Put | Method::Delete | Method::Patch | Method::Trace | Method::Connect => {
                return Step::Done(Outcome::MethodNotAllowed);
            }
        }
        if !path.names_file() || hides(site, path) {
            return status(Status::NOT_FOUND);
        }
        self.state = State::Target;
        Step::Ask
    }

    /// Goes on with the answer to [`Plan::lookup`]; the site must be that of [`Plan::begin`].
    pub fn resume<F>(&mut self, site: &Site, answer: Answer<F>) -> Step<F> {
        match (self.state, answer) {
            // Not reachable by a request: there was no question.
            (State::Idle, _) => status(Status::INTERNAL_SERVER_ERROR),
            // `/file.txt/` is not `/file.txt`: relative links in it would lead elsewhere.
            (State::Target, Answer::File(_)) if self.directory => self.end(Status::NOT_FOUND),
            (State::Target | State::Index(_), Answer::File(file)) => self.done(Outcome::File(file)),
            (State::Target, Answer::Directory) if !self.directory => self.done(Outcome::Redirect),
            (State::Target, Answer::Directory) => self.ask_index(site, 0),
            (State::Target, Answer::Missing) => self.end(Status::NOT_FOUND),
            (State::Target, Answer::NotRegular) => self.end(Status::FORBIDDEN),
            (State::Index(index), Answer::Directory | Answer::Missing | Answer::NotRegular) => self.ask_index(site, index + 1),
            // An index that may not be read is not passed over: what a listing shows then was not meant to be shown.
            (State::Target | State::Index(_), Answer::Denied) => self.end(Status::FORBIDDEN),
            (State::Target | State::Index(_), Answer::Busy) => self.end(Status::SERVICE_UNAVAILABLE),
            (State::Target | State::Index(_), Answer::Failed) => self.end(Status::INTERNAL_SERVER_ERROR),
        }
    }

    /// The present question; when done, the path of what was found.
    pub fn lookup(&self) -> Lookup<'_> {
        Lookup { path: &self.path }
    }

    /// Appends the target of [`Outcome::Redirect`]: the path with a slash at its end, and the query as it was sent. It is path-only, so
    /// that the scheme and the host before a proxy stay, and begins with exactly one slash, so that it never names another host.
    pub fn location(&self, query: Option<&[u8]>, out: &mut Vec<u8>) {
        out.push(b'/');
        if self.target > 0 {
            target::encode(&self.path[..self.target], out);
            out.push(b'/');
        }
        if let Some(query) = query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    }

    fn take_path(&mut self, path: &Path) {
        self.directory = path.is_directory();
        self.path.clear();
        for segment in path.segments() {
            if !self.path.is_empty() {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(segment);
        }
        self.target = self.path.len();
    }

    fn ask_index<F>(&mut self, site: &Site, index: usize) -> Step<F> {
        self.path.truncate(self.target);
        match site.index.get(index) {
            Some(name) => {
                if self.target > 0 {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(name.as_bytes());
                self.state = State::Index(index);
                Step::Ask
            }
            None if site.listing => self.done(Outcome::Listing),
            None => self.end(Status::FORBIDDEN),
        }
    }

    fn done<F>(&mut self, outcome: Outcome<F>) -> Step<F> {
        self.state = State::Idle;
        Step::Done(outcome)
    }

    fn end<F>(&mut self, code: Status) -> Step<F> {
        self.done(Outcome::Status(code))
    }
}

fn status<F>(code: Status) -> Step<F> {
    Step::Done(Outcome::Status(code))
}

/// Whether any segment is hidden; `.well-known` at the root is not (RFC 8615), but what lies beneath it may be.
fn hides(site: &Site, path: &Path) -> bool {
    !site.hidden.is_empty()
        && path
            .segments()
            .enumerate()
            .any(|(at, name)| !(at == 0 && name == b".well-known") && is_hidden(site, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::tests::site;

    const FILES: &[&str] = &[
        "a.txt",
        "dir/index.html",
        ".well-known/acme-challenge/tok",
        ".git/config",
        "both/index.htm",
        "\\evil/x/y",
    ];
    const DIRECTORIES: &[&str] = &[
        "",
        "dir",
        "bare",
        "both",
        "both/index.html",
        "a b?",
        "cr\r\nlf",
        "\\evil",
        ".well-known",
        "baz.",
        "denied",
        "odd",
    ];

    fn look(path: &str) -> Answer<String> {
        match path {
            "secret" | "denied/index.html" => Answer::Denied,
            "fifo" | "odd/index.html" => Answer::NotRegular,
            "busy" => Answer::Busy,
            "broken" => Answer::Failed,
            _ if FILES.contains(&path) => Answer::File(path.to_string()),
            _ if DIRECTORIES.contains(&path) => Answer::Directory,
            _ => Answer::Missing,
        }
    }

    fn run(site: &Site, method: Method, raw: &str) -> (Outcome<String>, Plan, usize) {
        let mut path = Path::default();
        target::parse_into(raw.as_bytes(), &mut path).unwrap();
        let mut plan = Plan::default();
        let mut step = plan.begin(site, method, &path);
        let mut asked = 0;
        loop {
            match step {
                Step::Done(outcome) => return (outcome, plan, asked),
                Step::Ask => {
                    asked += 1;
                    let answer = look(std::str::from_utf8(plan.lookup().path).unwrap());
                    step = plan.resume(site, answer);
                }
            }
        }
    }

    fn get(raw: &str) -> Outcome<String> {
        run(&site(&[""]), Method::Get, raw).0
    }

    #[test]
    fn files_and_indexes_are_found() {
        assert_eq!(get("/a.txt"), Outcome::File("a.txt".into()));
        assert_eq!(get("/dir/"), Outcome::File("dir/index.html".into()));
        assert_eq!(get("/./dir/x/../"), Outcome::File("dir/index.html".into()));
        assert_eq!(get("/nope"), Outcome::Status(Status::NOT_FOUND));
        assert_eq!(get("/nope/"), Outcome::Status(Status::NOT_FOUND));
    }

    #[test]
    fn p17_a_file_is_not_a_directory() {
        for raw in ["/a.txt/", "/a.txt/.", "/a.txt/x/..", "/a.txt/x"] {
            assert_eq!(get(raw), Outcome::Status(Status::NOT_FOUND), "{raw}");
        }
    }

    #[test]
    fn answers_decide_the_status() {
        assert_eq!(get("/secret"), Outcome::Status(Status::FORBIDDEN));
        assert_eq!(get("/fifo"), Outcome::Status(Status::FORBIDDEN));
        assert_eq!(get("/busy"), Outcome::Status(Status::SERVICE_UNAVAILABLE));
        assert_eq!(get("/broken"), Outcome::Status(Status::INTERNAL_SERVER_ERROR));
    }

    #[test]
    fn indexes_are_tried_in_order() {
        let mut several = site(&[""]);
        several.listing = true;
        several.index = vec!["index.html".into(), "index.htm".into()];
        let (outcome, plan, asked) = run(&several, Method::Get, "/both/");
        assert_eq!((outcome, asked), (Outcome::File("both/index.htm".into()), 3));
        assert_eq!(plan.lookup().path, b"both/index.htm");
        assert_eq!(run(&several, Method::Get, "/denied/").0, Outcome::Status(Status::FORBIDDEN));
        assert_eq!(run(&several, Method::Get, "/odd/").0, Outcome::Listing);
    }

    #[test]
    fn a_directory_without_index_is_listed_or_forbidden() {
        let mut open = site(&[""]);
        assert_eq!(run(&open, Method::Get, "/bare/").0, Outcome::Status(Status::FORBIDDEN));
        assert_eq!(run(&open, Method::Get, "/").0, Outcome::Status(Status::FORBIDDEN));
        open.listing = true;
        let (outcome, plan, _) = run(&open, Method::Head, "/bare/");
        assert_eq!((outcome, plan.lookup().path), (Outcome::Listing, &b"bare"[..]));
        let (outcome, plan, _) = run(&open, Method::Get, "/");
        assert_eq!((outcome, plan.lookup().path), (Outcome::Listing, &b""[..]));
        open.index.clear();
        assert_eq!(run(&open, Method::Get, "/dir/").0, Outcome::Listing);
    }

    #[test]
    fn p09_p11_p12_redirects_stay_here() {
        let table: &[(&str, Option<&str>, &str)] = &[
            ("/dir", None, "/dir/"),
            ("/dir", Some("a=1&b=%2F;c"), "/dir/?a=1&b=%2F;c"),
            ("/dir", Some(""), "/dir/?"),
            ("//dir", None, "/dir/"),
            ("/%5Cevil", None, "/%5Cevil/"),
            ("/x/..//%5Cevil", None, "/%5Cevil/"),
            ("/cr%0d%0alf", None, "/cr%0D%0Alf/"),
            ("/a%20b%3F", None, "/a%20b%3F/"),
            ("/baz.", None, "/baz./"),
        ];
        for (raw, query, expected) in table {
            let (outcome, plan, _) = run(&site(&[""]), Method::Get, raw);
            assert_eq!(outcome, Outcome::Redirect, "{raw}");
            let mut out = Vec::new();
            plan.location(query.map(str::as_bytes), &mut out);
            assert_eq!(out, expected.as_bytes(), "{raw}");
        }
        assert_eq!(get("//evil.example/.."), Outcome::Status(Status::FORBIDDEN));
        assert_eq!(get("////"), Outcome::Status(Status::FORBIDDEN));
    }

    #[test]
    fn p18_hidden_names_are_never_looked_up() {
        for raw in [
            "/.git/config",
            "/.git",
            "/.htaccess",
            "/%2egit/config",
            "/dir/.env",
            "/x~",
            "/x.bak",
            "/%23x%23",
            "/.well-known/../.env",
            "/.well-known/.env",
            "/dir/.well-known/x",
            "/.bak/x",
        ] {
            let (outcome, _, asked) = run(&site(&[""]), Method::Get, raw);
            assert_eq!((outcome, asked), (Outcome::Status(Status::NOT_FOUND), 0), "{raw}");
        }
        assert_eq!(
            get("/.well-known/acme-challenge/tok"),
            Outcome::File(".well-known/acme-challenge/tok".into())
        );
        let mut open = site(&[""]);
        open.hidden.clear();
        assert_eq!(run(&open, Method::Get, "/.git/config").0, Outcome::File(".git/config".into()));
    }

    #[test]
    fn p05_an_encoded_slash_names_nothing() {
        let (outcome, _, asked) = run(&site(&[""]), Method::Get, "/dir%2Findex.html");
        assert_eq!((outcome, asked), (Outcome::Status(Status::NOT_FOUND), 0));
    }

    #[test]
    fn p22_f23_methods() {
        for (method, raw, expected) in [
            (Method::Options, "*", Outcome::Allow),
            (Method::Options, "/a.txt", Outcome::Allow),
            (Method::Options, "/dir/", Outcome::Allow),
            (Method::Connect, "", Outcome::MethodNotAllowed),
            (Method::Trace, "/", Outcome::MethodNotAllowed),
            (Method::Post, "/a.txt", Outcome::MethodNotAllowed),
            (Method::Put, "/a.txt", Outcome::MethodNotAllowed),
            (Method::Delete, "/a.txt", Outcome::MethodNotAllowed),
            (Method::Patch, "/a.txt", Outcome::MethodNotAllowed),
            (Method::Extension, "/a.txt", Outcome::Status(Status::NOT_IMPLEMENTED)),
            (Method::Head, "/a.txt", Outcome::File("a.txt".into())),
        ] {
            let (outcome, _, asked) = run(&site(&[""]), method, raw);
            assert_eq!(outcome, expected, "{method:?} {raw}");
            assert_eq!(asked, usize::from(method == Method::Head), "{method:?} {raw}");
        }
    }

    #[test]
    fn a_plan_can_be_used_again() {
        let site = site(&[""]);
        let (mut plan, mut path) = (Plan::default(), Path::default());
        target::parse_into(b"/dir/", &mut path).unwrap();
        assert_eq!(plan.begin::<u8>(&site, Method::Get, &path), Step::Ask);
        assert_eq!(plan.resume::<u8>(&site, Answer::Directory), Step::Ask);
        target::parse_into(b"/a.txt", &mut path).unwrap();
        assert_eq!(plan.begin::<u8>(&site, Method::Get, &path), Step::Ask);
        assert_eq!(plan.lookup().path, b"a.txt");
        assert_eq!(plan.resume(&site, Answer::File(7)), Step::Done(Outcome::File(7)));
        // An answer that nobody asked for.
        assert_eq!(
            plan.resume(&site, Answer::File(7)),
            Step::Done(Outcome::Status(Status::INTERNAL_SERVER_ERROR))
        );
    }
}
