//! One line of the access log in the combined format, read strictly.

/// The fields of a combined log line; the quoted ones as they stand in the log, escapes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessLine {
    pub(crate) client: String,
    pub(crate) user: String,
    pub(crate) time: String,
    pub(crate) request: String,
    pub(crate) status: u16,
    /// Bytes of the body sent; `-` is 0.
    pub(crate) bytes: u64,
    pub(crate) referer: String,
    pub(crate) agent: String,
}

impl AccessLine {
    /// `ADDRESS - USER [day/Mon/year:hh:mm:ss +zzzz] "REQUEST" STATUS BYTES "REFERER" "AGENT"`, or `None` if the line
    /// is anything else. Only printable ASCII may stand in it.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        if !line.iter().all(|byte| (0x20..0x7f).contains(byte)) {
            return None;
        }
        let line = std::str::from_utf8(line).ok()?;
        let (client, rest) = line.split_once(" - ")?;
        client.parse::<std::net::IpAddr>().ok()?;
        let (user, rest) = rest.split_once(" [")?;
        let (time, rest) = rest.split_once("] ")?;
        if time.len() != "30/Nov/2026:09:56:00 +0000".len() {
            return None;
        }
        let (request, rest) = quoted(rest)?;
        let (status, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
        let (bytes, rest) = rest.split_once(' ')?;
        let (referer, rest) = quoted(rest)?;
        let (agent, rest) = quoted(rest.strip_prefix(' ')?)?;
        if !rest.is_empty() || status.len() != 3 {
            return None;
        }
        Some(Self {
            client: client.to_owned(),
            user: user.to_owned(),
            time: time.to_owned(),
            request: request.to_owned(),
            status: status.parse().ok()?,
            bytes: if bytes == "-" { 0 } else { bytes.parse().ok()? },
            referer: referer.to_owned(),
            agent: agent.to_owned(),
        })
    }
}

/// Splits a field in double quotes off the front; a quote inside stands behind a backslash or as `\x22`.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\\' => escaped = !escaped,
            b'"' if !escaped => return Some((&text[..at], &text[at + 1..])),
            _ => escaped = false,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::AccessLine;

    #[test]
    fn only_combined_lines_are_read() {
        let line = r#"127.0.0.1 - - [30/Nov/2026:09:56:00 +0000] "GET /\x22 HTTP/1.1" 200 12 "-" "a \"b\" \\""#;
        let read = AccessLine::parse(line.as_bytes()).unwrap();
        assert_eq!(
            (read.request.as_str(), read.status, read.bytes, read.agent.as_str()),
            (r"GET /\x22 HTTP/1.1", 200, 12, r#"a \"b\" \\"#)
        );
        for (from, to) in
            [("127.0.0.1", "host"), (" 200 ", " 2000 "), ("\"-\" ", "- "), ("[30/", "[2030/"), ("GET", "G\tT"), (" 12 ", " x ")]
        {
            assert_eq!(AccessLine::parse(line.replace(from, to).as_bytes()), None, "{from} as {to}");
        }
        assert_eq!(AccessLine::parse(b"anchorite: ready"), None);
        assert_eq!(AccessLine::parse(format!("{line} more").as_bytes()), None);
    }
}
