//! What a program is told of a request: the meta-variables of CGI (RFC 3875, 4.1) and those that applications look for beside them.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O. What a client sends becomes the value of a parameter whose name the server
//! has chosen, or an `HTTP_` name of its own: never the name of any other, and never an `HTTP_` name that a second field could pass for.

use super::facts::{Facts, Scheme};
use crate::config;
use std::borrow::Cow;
use std::fmt::Write;
use std::net::IpAddr;

/// Parameters in order: no name is there twice. Made to be used again: [`Parameters::collect`] empties it but keeps its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    bytes: Vec<u8>,
    /// Where the name and the value of each end in `bytes`.
    ends: Vec<(usize, usize)>,
}

/// The program, as a plan has found it.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// SCRIPT_NAME: begins with a slash, or is empty for what is mounted on the root.
    pub name: &'a [u8],
    /// PATH_INFO: what of the decoded path is left to the program; begins with a slash, or is empty.
    pub path_info: &'a [u8],
    /// SCRIPT_FILENAME, as the program's own file system has it.
    pub file: &'a [u8],
    /// DOCUMENT_ROOT, as the program's own file system has it, without a slash at its end.
    pub document_root: &'a [u8],
}

/// What is known of the request beside its [`Facts`].
#[derive(Clone, Copy, Debug)]
pub struct Conveyed<'a> {
    /// `HTTP/1.1`.
    pub protocol: &'a str,
    /// As rules have rewritten it.
    pub query: &'a [u8],
    /// Bytes of the body; `None` without one.
    pub content_length: Option<u64>,
    /// For a request that names no host.
    pub server_name: &'a [u8],
    /// The address that the connection was made to; `None` for a socket of the unix domain.
    pub server: Option<(IpAddr, u16)>,
    /// The client's port, where the client is the peer.
    pub client_port: Option<u16>,
    /// Empty: the server does not say what it is.
    pub software: &'a [u8],
    /// `env` of the backend.
    pub env: &'a [(String, String)],
}

/// What a site is called where a request names no host: its first name, else the address that it was made to.
pub fn server_name(names: &[String], local: Option<IpAddr>) -> Cow<'_, [u8]> {
    match (names.iter().find(|name| !name.is_empty() && !name.starts_with('*')), local) {
        (Some(name), _) => Cow::Borrowed(name.as_bytes()),
        (None, Some(IpAddr::V6(address))) => Cow::Owned(format!("[{address}]").into_bytes()),
        (None, Some(address)) => Cow::Owned(address.to_string().into_bytes()),
        (None, None) => Cow::Borrowed(b"localhost"),
    }
}

impl Parameters {
    /// Puts together the parameters of one request.
    pub fn collect(&mut self, facts: &Facts<'_>, program: &Program<'_>, conveyed: &Conveyed<'_>) {
        self.bytes.clear();
        self.ends.clear();
        self.program(program);
        self.request(facts, conveyed);
        self.server(facts, conveyed);
        self.client(facts, conveyed);
        self.secured(facts);
        self.fields(facts, conveyed.env);
        self.configured(conveyed.env);
    }

    /// Name and value of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, &(name, value))| (&self.bytes[start..name], &self.bytes[name..value]))
    }

    /// The value of one.
    pub fn value(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(have, _)| *have == name.as_bytes()).map(|(_, value)| value)
    }

    fn program(&mut self, program: &Program<'_>) {
        self.add("SCRIPT_NAME", &[program.name]);
        self.add("SCRIPT_FILENAME", &[program.file]);
        self.add("DOCUMENT_ROOT", &[program.document_root]);
        if program.path_info.is_empty() {
            return;
        }
        self.add("PATH_INFO", &[program.path_info]);
        // An encoded slash may have put dot segments there: as a path they would lead out of the root.
        if !program.path_info.split(|&byte| byte == b'/').any(|segment| matches!(segment, b"." | b"..")) {
            self.add("PATH_TRANSLATED", &[program.document_root, program.path_info]);
        }
    }

    fn request(&mut self, facts: &Facts<'_>, conveyed: &Conveyed<'_>) {
        self.add("GATEWAY_INTERFACE", &[b"CGI/1.1"]);
        self.add("REQUEST_METHOD", &[facts.method_name]);
        // As it was sent, whatever rules have made of it: applications route by it.
        match facts.query {
            Some(query) => self.add("REQUEST_URI", &[facts.raw_path, b"?", query]),
            None => self.add("REQUEST_URI", &[facts.raw_path]),
        }
        self.add("QUERY_STRING", &[conveyed.query]);
        self.add("SERVER_PROTOCOL", &[conveyed.protocol.as_bytes()]);
        self.add("REQUEST_SCHEME", &[facts.scheme.name().as_bytes()]);
        // Programs look whether it is there, not what it says.
        if facts.scheme == Scheme::Https {
            self.add("HTTPS", &[b"on"]);
        }
        // php-cgi runs nothing without it, so that it cannot be called directly (cgi.force_redirect).
        self.add("REDIRECT_STATUS", &[b"200"]);
        if let Some(content_type) = facts.fields.first("content-type") {
            self.add("CONTENT_TYPE", &[content_type]);
        }
        if let Some(length) = conveyed.content_length {
            self.add_display("CONTENT_LENGTH", length);
        }
    }

    fn server(&mut self, facts: &Facts<'_>, conveyed: &Conveyed<'_>) {
        self.add("SERVER_NAME", &[facts.host_name().unwrap_or(conveyed.server_name)]);
        match (conveyed.server, facts.scheme) {
            (Some((address, port)), _) => {
                self.add_display("SERVER_PORT", port);
                self.add_display("SERVER_ADDR", address);
            }
            // Never empty, and a socket has no number: that of the scheme.
            (None, Scheme::Http) => self.add("SERVER_PORT", &[b"80"]),
            (None, Scheme::Https) => self.add("SERVER_PORT", &[b"443"]),
        }
        if !conveyed.software.is_empty() {
            self.add("SERVER_SOFTWARE", &[conveyed.software]);
        }
    }

    fn client(&mut self, facts: &Facts<'_>, conveyed: &Conveyed<'_>) {
        self.add_display("REMOTE_ADDR", facts.client);
        if let Some(port) = conveyed.client_port {
            self.add_display("REMOTE_PORT", port);
        }
        if !facts.user.is_empty() {
            self.add("REMOTE_USER", &[facts.user]);
            self.add("AUTH_TYPE", &[b"Basic"]);
        }
    }

    /// What is known of TLS, under the names that Apache httpd gave it.
    fn secured(&mut self, facts: &Facts<'_>) {
        let Some(tls) = facts.tls else { return };
        self.add("SSL_PROTOCOL", &[tls.version.as_bytes()]);
        self.add("SSL_CIPHER", &[tls.cipher.as_bytes()]);
        if !tls.sni.is_empty() {
            self.add("SSL_TLS_SNI", &[tls.sni.as_bytes()]);
        }
        if !tls.verify.is_empty() {
            self.add("SSL_CLIENT_VERIFY", &[tls.verify.as_bytes()]);
        }
        if let Some(holder) = &tls.holder {
            self.add("SSL_CLIENT_S_DN", &[holder.subject.as_bytes()]);
            self.add("SSL_CLIENT_I_DN", &[holder.issuer.as_bytes()]);
            self.add("SSL_CLIENT_M_SERIAL", &[holder.serial.as_bytes()]);
        }
    }

    /// The fields of the request as `HTTP_` names, several of one name joined (RFC 3875, 4.1.18; RFC 9110, 5.3; RFC 9113, 8.2.3).
    fn fields(&mut self, facts: &Facts<'_>, env: &[(String, String)]) {
        let mut fields: Vec<(&str, &[u8])> = Vec::with_capacity(32);
        facts.fields.each(&mut |name, value| fields.push((name, value)));
        for (at, (name, value)) in fields.iter().enumerate() {
            let same = |other: &&(&str, &[u8])| other.0.eq_ignore_ascii_case(name);
            if !is_conveyed(name, facts) || fields[..at].iter().any(|other| same(&other)) {
                continue;
            }
            let start = self.bytes.len();
            self.bytes.extend_from_slice(b"HTTP_");
            self.bytes.extend(name.bytes().map(|byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
            // What the configuration says of a name holds.
            if env.iter().any(|(set, _)| set.as_bytes() == &self.bytes[start..]) {
                self.bytes.truncate(start);
                continue;
            }
            let end = self.bytes.len();
            self.bytes.extend_from_slice(value);
            let separator: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
            for (_, value) in fields[at + 1..].iter().filter(same) {
                self.bytes.extend_from_slice(separator);
                self.bytes.extend_from_slice(value);
            }
            self.ends.push((end, self.bytes.len()));
        }
    }

    /// `env` comes last; an `HTTP_` name without a value is a field that the program does not get.
    fn configured(&mut self, env: &[(String, String)]) {
        for (name, value) in env {
            if config::is_protected(name) || (value.is_empty() && name.starts_with("HTTP_")) {
                continue;
            }
            self.remove(name);
            self.add(name, &[value.as_bytes()]);
        }
    }

    fn add(&mut self, name: &str, value: &[&[u8]]) {
        self.bytes.extend_from_slice(name.as_bytes());
        let end = self.bytes.len();
        value.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push((end, self.bytes.len()));
    }

    fn add_display(&mut self, name: &str, value: impl std::fmt::Display) {
        let mut text = String::with_capacity(40);
        // Writing to a text does not fail.
        if write!(text, "{value}").is_ok() {
            self.add(name, &[text.as_bytes()]);
        }
    }

    /// Takes one out that the server has set, so that the configuration's takes its place.
    fn remove(&mut self, name: &str) {
        let Some(at) = self.iter().position(|(have, _)| have == name.as_bytes()) else { return };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let (_, end) = self.ends.remove(at);
        self.bytes.drain(start..end);
        for (name, value) in &mut self.ends[at..] {
            (*name, *value) = (*name - (end - start), *value - (end - start));
        }
    }
}

/// Whether a program is told of a field.
fn is_conveyed(name: &str, facts: &Facts<'_>) -> bool {
    // `X_Forwarded_For` would become the name of `X-Forwarded-For`, and PHP makes one of `X.Forwarded.For` too: a client could pass off its own
    // word for that of a proxy.
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    match name.len() {
        // Whoever finds HTTP_PROXY in its environment goes through that proxy (CVE-2016-5385 to 5388).
        5 if is("proxy") => false,
        // They have parameters of their own.
        12 if is("content-type") => false,
        14 if is("content-length") => false,
        // The body is told without it, and its length with CONTENT_LENGTH.
        17 if is("transfer-encoding") => false,
        // They tell applications that the server sends files for them, and which (Rack::Sendfile): a client's word would name any file.
        15 if is("x-sendfile-type") || is("x-accel-mapping") => false,
        // The password of a user whom the server has checked is nobody else's matter.
        13 if is("authorization") => facts.user.is_empty(),
        _ => plain,
    }
}

#[cfg(test)]
mod tests;
