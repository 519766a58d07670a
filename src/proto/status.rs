//! Status codes, and the refusal that ends a connection.
//!
//! Used by the `worker`; pure data.

use std::fmt;

/// A status code that this server sends (RFC 9110, 15; RFC 6585, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(u16);

impl Status {
    /// Never of an answer that ends.
    pub const SWITCHING_PROTOCOLS: Status = Status(101);
    pub const OK: Status = Status(200);
    pub const NO_CONTENT: Status = Status(204);
    pub const RESET_CONTENT: Status = Status(205);
    pub const PARTIAL_CONTENT: Status = Status(206);
    pub const MOVED_PERMANENTLY: Status = Status(301);
    pub const FOUND: Status = Status(302);
    pub const NOT_MODIFIED: Status = Status(304);
    pub const PERMANENT_REDIRECT: Status = Status(308);
    pub const BAD_REQUEST: Status = Status(400);
    pub const UNAUTHORIZED: Status = Status(401);
    pub const FORBIDDEN: Status = Status(403);
    pub const NOT_FOUND: Status = Status(404);
    pub const METHOD_NOT_ALLOWED: Status = Status(405);
    pub const REQUEST_TIMEOUT: Status = Status(408);
    pub const LENGTH_REQUIRED: Status = Status(411);
    pub const PRECONDITION_FAILED: Status = Status(412);
    pub const CONTENT_TOO_LARGE: Status = Status(413);
    pub const URI_TOO_LONG: Status = Status(414);
    pub const RANGE_NOT_SATISFIABLE: Status = Status(416);
    pub const EXPECTATION_FAILED: Status = Status(417);
    pub const MISDIRECTED_REQUEST: Status = Status(421);
    pub const TOO_MANY_REQUESTS: Status = Status(429);
    pub const REQUEST_HEADER_FIELDS_TOO_LARGE: Status = Status(431);
    pub const INTERNAL_SERVER_ERROR: Status = Status(500);
    pub const NOT_IMPLEMENTED: Status = Status(501);
    pub const BAD_GATEWAY: Status = Status(502);
    pub const SERVICE_UNAVAILABLE: Status = Status(503);
    pub const GATEWAY_TIMEOUT: Status = Status(504);
    pub const INSUFFICIENT_STORAGE: Status = Status(507);
    pub const HTTP_VERSION_NOT_SUPPORTED: Status = Status(505);

    /// A status that a configuration names: a final one, 200 to 599.
    pub const fn of(code: u16) -> Option<Status> {
        match code {
            200..=599 => Some(Status(code)),
            _ => None,
        }
    }

    /// The three digits.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The phrase that stands behind the code in the status line.
    pub const fn reason(self) -> &'static str {
        match self.0 {
            101 => "Switching Protocols",
            200 => "OK",
            201 => "Created",
            202 => "Accepted",
            203 => "Non-Authoritative Information",
            204 => "No Content",
            205 => "Reset Content",
            206 => "Partial Content",
            300 => "Multiple Choices",
            301 => "Moved Permanently",
            302 => "Found",
            303 => "See Other",
            304 => "Not Modified",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            401 => "Unauthorized",
            402 => "Payment Required",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            408 => "Request Timeout",
            409 => "Conflict",
            410 => "Gone",
            411 => "Length Required",
            412 => "Precondition Failed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            416 => "Range Not Satisfiable",
            417 => "Expectation Failed",
            421 => "Misdirected Request",
            422 => "Unprocessable Content",
            423 => "Locked",
            425 => "Too Early",
            426 => "Upgrade Required",
            428 => "Precondition Required",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            451 => "Unavailable For Legal Reasons",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            507 => "Insufficient Storage",
            511 => "Network Authentication Required",
            // A configuration may name a code that nobody has registered; every constant has its arm.
            _ => "Unknown",
        }
    }
}

/// The code and its phrase, as in a status line.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.reason())
    }
}

/// A request that is refused for its form: it is answered with `status`, and the connection always closes afterwards, since where
/// the next request would begin can no longer be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject {
    pub status: Status,
    /// What was wrong, for the log; never holds bytes of the request.
    pub why: &'static str,
}

impl Reject {
    /// A refusal with 400.
    pub const fn bad(why: &'static str) -> Reject {
        Reject { status: Status::BAD_REQUEST, why }
    }

    /// A refusal with any status.
    pub const fn new(status: Status, why: &'static str) -> Reject {
        Reject { status, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_its_phrase() {
        let all = [
            Status::OK,
            Status::NO_CONTENT,
            Status::PARTIAL_CONTENT,
            Status::MOVED_PERMANENTLY,
            Status::NOT_MODIFIED,
            Status::PERMANENT_REDIRECT,
            Status::BAD_REQUEST,
            Status::UNAUTHORIZED,
            Status::FORBIDDEN,
            Status::NOT_FOUND,
            Status::METHOD_NOT_ALLOWED,
            Status::REQUEST_TIMEOUT,
            Status::PRECONDITION_FAILED,
            Status::CONTENT_TOO_LARGE,
            Status::URI_TOO_LONG,
            Status::RANGE_NOT_SATISFIABLE,
            Status::EXPECTATION_FAILED,
            Status::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Status::INTERNAL_SERVER_ERROR,
            Status::NOT_IMPLEMENTED,
            Status::SERVICE_UNAVAILABLE,
            Status::HTTP_VERSION_NOT_SUPPORTED,
            Status::INSUFFICIENT_STORAGE,
        ];
        for status in all {
            assert_ne!(status.reason(), "Unknown", "{status}");
        }
        assert_eq!(Status::NOT_FOUND.to_string(), "404 Not Found");
        assert_eq!(Status::of(410).map(Status::reason), Some("Gone"));
        assert_eq!((Status::of(199), Status::of(600)), (None, None));
    }
}
