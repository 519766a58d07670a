//! What is known of a request when its answer is decided.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O.

use crate::proto::head::{Method, Request};
use crate::proto::target::Path;
use std::net::IpAddr;

/// How the request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// The facts that rules may look at. The same must be given each time a plan goes on.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    pub method: Method,
    /// As it was sent.
    pub method_name: &'a [u8],
    /// The decoded, normalised path.
    pub path: &'a Path,
    /// The path as it was sent, still encoded.
    pub raw_path: &'a [u8],
    pub query: Option<&'a [u8]>,
    /// Without its port, as it was sent.
    pub host: Option<&'a [u8]>,
    /// The same with its port.
    pub authority: Option<&'a [u8]>,
    pub scheme: Scheme,
    /// Whoever asks: the peer, or the one for whom a trusted proxy says it asks.
    pub client: IpAddr,
    /// Whether a proxy stands between.
    pub forwarded: bool,
    pub fields: &'a dyn Fields,
    pub request_id: &'a [u8],
    /// `30/Nov/2026:10:00:00 +0100`
    pub time: &'a [u8],
    /// Of the client's authentication; empty without.
    pub user: &'a [u8],
    /// The numbers of the `[auth.NAME]` that it is a user of.
    pub realms: &'a [u16],
    /// `None` for plain connections.
    pub tls: Option<&'a Secured>,
}

/// What is known of a connection over TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secured {
    /// `TLSv1.3`.
    pub version: &'static str,
    /// `TLS13_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
    /// The name that the client asked for; empty without the extension.
    pub sni: String,
    /// The site that it was made with.
    pub site: usize,
    /// Whether it goes on with a session of before.
    pub resumed: bool,
    /// `SUCCESS` or, where the client has shown no certificate, `NONE`; empty where it was not asked for one.
    pub verify: &'static str,
    /// Of the client's certificate, which was verified.
    pub holder: Option<Holder>,
}

impl Secured {
    /// Whom the client's certificate names; empty without one.
    pub fn subject(&self) -> &str {
        self.holder.as_ref().map_or("", |holder| &holder.subject)
    }
}

/// Whom a certificate names, and who says so; names as in RFC 4514.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    pub subject: String,
    pub issuer: String,
    /// Hexadecimal.
    pub serial: String,
}

/// The field lines of a request.
pub trait Fields {
    /// Whether the value of any field of that name (in any case) passes a test.
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool;

    /// The value of the first field of that name.
    fn first(&self, name: &str) -> Option<&[u8]>;

    /// Shows every field in order: name, as it was sent, and value.
    fn each<'f>(&'f self, visit: &mut dyn FnMut(&'f str, &'f [u8]));
}

impl Fields for Request<'_, '_> {
    fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.fields(name).any(test)
    }

    fn first(&self, name: &str) -> Option<&[u8]> {
        self.field(name)
    }

    fn each<'f>(&'f self, visit: &mut dyn FnMut(&'f str, &'f [u8])) {
        self.all_fields().for_each(|(name, value)| visit(name, value));
    }
}

impl Scheme {
    /// As it stands in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// Who asks, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The peer, or the one for whom a trusted proxy says it asks.
    pub client: IpAddr,
    /// Whether a proxy stands between.
    pub forwarded: bool,
    pub scheme: Scheme,
}

impl Origin {
    /// A client that asks itself, over a plain connection.
    pub fn direct(client: IpAddr) -> Origin {
        Origin { client, forwarded: false, scheme: Scheme::Http }
    }
}

impl<'a> Facts<'a> {
    /// What a request says of itself; `path` is its target's.
    pub fn of(request: &'a Request<'a, 'a>, path: &'a Path, origin: Origin) -> Facts<'a> {
        let Origin { client, forwarded, scheme } = origin;
        Facts {
            method: request.method,
            method_name: request.method_name,
            path,
            raw_path: request.path,
            query: request.query,
            host: request.host,
            authority: request.authority,
            scheme,
            client,
            forwarded,
            fields: request,
            request_id: b"",
            time: b"",
            user: b"",
            realms: &[],
            tls: None,
        }
    }

    /// The host without the dot that may stand at its end.
    pub(super) fn host_name(&self) -> Option<&'a [u8]> {
        self.host.map(|host| host.strip_suffix(b".").unwrap_or(host))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::proto::target;

    /// A request for the tests of this room, with what it would have been parsed from.
    pub(crate) struct Asked {
        pub(crate) method: Method,
        pub(crate) method_name: &'static str,
        pub(crate) raw: Vec<u8>,
        pub(crate) path: Path,
        pub(crate) host: Option<&'static str>,
        pub(crate) scheme: Scheme,
        pub(crate) client: IpAddr,
        pub(crate) forwarded: bool,
        pub(crate) fields: Vec<(&'static str, Vec<u8>)>,
    }

    impl Fields for Vec<(&'static str, Vec<u8>)> {
        fn any(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
            self.iter().any(|(field, value)| field.eq_ignore_ascii_case(name) && test(value))
        }

        fn first(&self, name: &str) -> Option<&[u8]> {
            self.iter().find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
        }

        fn each<'f>(&'f self, visit: &mut dyn FnMut(&'f str, &'f [u8])) {
            self.iter().for_each(|(name, value)| visit(name, value));
        }
    }

    impl Asked {
        pub(crate) fn get(target: &str) -> Asked {
            let mut path = Path::default();
            let raw = target.split('?').next().unwrap();
            target::parse_into(raw.as_bytes(), &mut path).unwrap();
            Asked {
                method: Method::Get,
                method_name: "GET",
                raw: target.as_bytes().to_vec(),
                path,
                host: Some("a.test"),
                scheme: Scheme::Http,
                client: [192, 0, 2, 1].into(),
                forwarded: false,
                fields: Vec::new(),
            }
        }

        pub(crate) fn facts(&self) -> Facts<'_> {
            let mark = memchr::memchr(b'?', &self.raw);
            Facts {
                method: self.method,
                method_name: self.method_name.as_bytes(),
                path: &self.path,
                raw_path: &self.raw[..mark.unwrap_or(self.raw.len())],
                query: mark.map(|at| &self.raw[at + 1..]),
                host: self.host.map(str::as_bytes),
                authority: self.fields.first("host").or(self.host.map(str::as_bytes)),
                scheme: self.scheme,
                client: self.client,
                forwarded: self.forwarded,
                fields: &self.fields,
                request_id: b"id1",
                time: b"",
                user: b"",
                realms: &[],
                tls: None,
            }
        }
    }
}
