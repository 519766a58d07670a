//! The path of a request target: split, decoded once and normalised (RFC 3986, 2.1 and 5.2.4).
//!
//! Runs in the `worker`; does no I/O. The order matters: splitting comes before decoding, so that an encoded slash is never a
//! separator, and dot segments are resolved after decoding, so that `%2e%2e` is nothing else than `..` (CVE-2021-41773). Decoding
//! happens exactly once (CVE-2021-42013).

use super::status::Reject;
use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use std::ops::Range;

/// A normalised path. Made to be used again: [`parse_into`] empties it but keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Each segment behind its slash; one slash more at the end for a directory.
    bytes: Vec<u8>,
    /// Where the slash of each segment stands.
    starts: Vec<usize>,
    directory: bool,
    nameless: bool,
}

impl Path {
    /// The decoded absolute path: begins with `/`, and ends with one exactly if the target named a directory. May hold any byte but NUL.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the target ended as a directory's does: with a slash, or with a `.` or `..` segment.
    pub fn is_directory(&self) -> bool {
        self.directory
    }

    /// False if no file can be meant: a decoded segment holds a slash, or the target is not a path (`*`, or that of CONNECT).
    pub fn names_file(&self) -> bool {
        !self.nameless
    }

    /// The decoded segments; none for the root. They are never empty, `.` or `..`.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let end = self.bytes.len() - usize::from(self.directory && !self.bytes.is_empty());
        let ends = self.starts.iter().skip(1).copied().chain([end]);
        self.starts.iter().zip(ends).map(|(start, end)| &self.bytes[start + 1..end])
    }

    /// Where each segment ends, and whether all segments up to there can name a file: none of them holds a slash.
    pub fn ends(&self) -> impl Iterator<Item = (usize, bool)> {
        let end = self.bytes.len() - usize::from(self.directory && !self.bytes.is_empty());
        let ends = self.starts.iter().skip(1).copied().chain([end]);
        let mut fine = true;
        self.starts.iter().zip(ends).map(move |(start, end)| {
            fine = fine && !(self.nameless && self.bytes[start + 1..end].contains(&b'/'));
            (end, fine)
        })
    }

    /// Appends a part of [`Path::bytes`] percent-encoded, as [`encode`] does; a slash that is no separator stays `%2F`, so that reading what
    /// was written gives the same segments again.
    pub fn encode_part(&self, part: Range<usize>, out: &mut Vec<u8>) {
        let end = part.end.min(self.bytes.len());
        let mut from = part.start.min(end);
        if self.nameless {
            for at in memchr::memchr_iter(b'/', &self.bytes[..end]).filter(|&at| at >= part.start && !self.separates(at)) {
                encode(&self.bytes[from..at], out);
                out.extend_from_slice(b"%2F");
                from = at + 1;
            }
        }
        encode(&self.bytes[from..end], out);
    }

    /// Whether the slash at this place stands between segments.
    fn separates(&self, at: usize) -> bool {
        self.starts.binary_search(&at).is_ok() || (self.directory && at + 1 == self.bytes.len())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
        self.directory = true;
        self.nameless = false;
    }

    /// Takes in one segment as it was sent.
    fn push(&mut self, segment: &[u8]) -> Result<(), Reject> {
        let start = self.bytes.len();
        self.bytes.push(b'/');
        self.nameless |= decode_into(segment, &mut self.bytes)?;
        match &self.bytes[start + 1..] {
            b"" | b"." => self.bytes.truncate(start),
            b".." => {
                let parent = self.starts.pop().ok_or(Reject::bad("path climbs above the root"))?;
                self.bytes.truncate(parent);
            }
            _ => {
                self.starts.push(start);
                self.directory = false;
                return Ok(());
            }
        }
        self.directory = true;
        Ok(())
    }
}

/// Reads the path part of a target into `path`, in linear time.
///
/// # Errors
///
/// 400 for a broken escape, a NUL, encoded or not, a path that does not begin with a slash, or one that climbs above the root. (`*` and
/// the empty path of CONNECT are taken, as paths that name no file.)
pub fn parse_into(raw: &[u8], path: &mut Path) -> Result<(), Reject> {
    path.clear();
    match raw {
        b"" | b"*" => path.nameless = true,
        [b'/', segments @ ..] => {
            for segment in segments.split(|&byte| byte == b'/') {
                path.push(segment)?;
            }
        }
        _ => return Err(Reject::bad("path without a leading slash")),
    }
    if path.directory {
        path.bytes.push(b'/');
    }
    Ok(())
}

/// Appends `path`, decoded bytes, percent-encoded for use in a `Location` field or an `href`: slashes stay, every byte stays one
/// byte of the path (so `%`, `?` and `#` are encoded), and nothing is left that means something in HTML or in a header.
pub fn encode(path: &[u8], out: &mut Vec<u8>) {
    for piece in percent_encode(path, ENCODED) {
        out.extend_from_slice(piece.as_bytes());
    }
}

/// Appends the decoded segment; says whether it holds a slash.
fn decode_into(segment: &[u8], out: &mut Vec<u8>) -> Result<bool, Reject> {
    let mut rest = segment;
    let mut slash = false;
    while let Some(position) = memchr::memchr2(b'%', 0, rest) {
        out.extend_from_slice(&rest[..position]);
        let (high, low, after) = match &rest[position..] {
            [b'%', high, low, after @ ..] => (high, low, after),
            [0, ..] => return Err(Reject::bad("NUL in the path")),
            _ => return Err(BROKEN_ESCAPE),
        };
        let byte = hex(*high)? << 4 | hex(*low)?;
        if byte == 0 {
            return Err(Reject::bad("encoded NUL in the path"));
        }
        slash |= byte == b'/';
        out.push(byte);
        rest = after;
    }
    out.extend_from_slice(rest);
    Ok(slash)
}

fn hex(digit: u8) -> Result<u8, Reject> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(BROKEN_ESCAPE),
    }
}

const BROKEN_ESCAPE: Reject = Reject::bad("broken percent-encoding in the path");

/// Everything that RFC 3986 does not allow in a path, and `&` and `'`, which it does, but which are markup in HTML.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'\'')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(raw: &[u8]) -> Result<Path, Reject> {
        let mut path = Path::default();
        parse_into(raw, &mut path)?;
        Ok(path)
    }

    #[test]
    fn paths_are_normalised() {
        let table: &[(&str, &str)] = &[
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/a/b.txt", "/a/b.txt"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/.", "/a/"),
            ("/.", "/"),
            ("/a/b/../", "/a/"),
            ("/a//b", "/a/b"),
            ("/a//", "/a/"),
            ("/...", "/..."),
            ("/..a/.b", "/..a/.b"),
            ("/baz.", "/baz."),
            ("/a%20b", "/a b"),
            ("/dist+dev1.pkg", "/dist+dev1.pkg"),
            ("/%41%7a", "/Az"),
        ];
        for (raw, expected) in table {
            let path = parsed(raw.as_bytes()).unwrap();
            assert_eq!(path.bytes(), expected.as_bytes(), "{raw}");
            assert_eq!(path.is_directory(), expected.ends_with('/'), "{raw}");
            assert!(path.names_file(), "{raw}");
            let segments: Vec<&[u8]> = path.segments().collect();
            let split: Vec<&[u8]> = expected.as_bytes().split(|&byte| byte == b'/').filter(|segment| !segment.is_empty()).collect();
            assert_eq!(segments, split, "{raw}");
        }
    }

    #[test]
    fn p01_p02_climbing_above_the_root_is_refused() {
        for raw in ["/../../../../etc/passwd", "/..", "/a/../..", "/%2e%2e/%2e%2e/etc/passwd", "/.%2e/", "/%2e./", "/%2E%2E", "/./.."] {
            assert_eq!(parsed(raw.as_bytes()).unwrap_err().why, "path climbs above the root", "{raw}");
        }
    }

    #[test]
    fn p03_p10_broken_escapes_are_refused() {
        for raw in ["/cgi-bin/.%%32%65/.%%32%65/etc/passwd", "/%", "/%4", "/%zz", "/%u002e", "/a/%2", "/%/a", "/%2/f", "/%g0", "/% 1"] {
            assert_eq!(parsed(raw.as_bytes()).unwrap_err(), BROKEN_ESCAPE, "{raw}");
        }
    }

    #[test]
    fn p04_decoding_happens_once() {
        assert_eq!(parsed(b"/%252e%252e%252fetc/passwd").unwrap().bytes(), b"/%2e%2e%2fetc/passwd");
    }

    #[test]
    fn p05_an_encoded_slash_is_never_a_separator() {
        for raw in ["/..%2f..%2fetc/passwd", "/a%2fb", "/dir%2Fa.txt", "/%2f", "/a/%2F/b", "/a%2fb/../c"] {
            assert!(!parsed(raw.as_bytes()).unwrap().names_file(), "{raw}");
        }
        // The segment goes as a whole, not down to the slash within it.
        assert_eq!(parsed(b"/x/a%2fb/../c").unwrap().bytes(), b"/x/c");
        // Nor does `..` behind an encoded slash climb.
        assert_eq!(parsed(b"/a%2f../b").unwrap().segments().collect::<Vec<_>>(), [&b"a/.."[..], b"b"]);
    }

    #[test]
    fn p05_an_encoded_slash_stays_encoded() {
        for raw in ["/a%2Fb/c", "/x%2F", "/%2F/%2F/", "/a/b", "/"] {
            let path = parsed(raw.as_bytes()).unwrap();
            let mut out = Vec::new();
            path.encode_part(0..path.bytes().len(), &mut out);
            assert_eq!(out, raw.as_bytes());
        }
        let mut out = Vec::new();
        parsed(b"/a%2Fb/c").unwrap().encode_part(3..5, &mut out);
        assert_eq!(out, b"b/");
    }

    #[test]
    fn p06_p07_p13_p19_other_bytes_are_ordinary() {
        let table: &[(&str, &[u8])] = &[
            ("/..%5c..%5cetc", b"/..\\..\\etc"),
            ("/%c0%ae%c0%ae/", b"/\xc0\xae\xc0\xae/"),
            ("/%c0%af", b"/\xc0\xaf"),
            ("/%e0%80%ae", b"/\xe0\x80\xae"),
            ("/dir;x=1/../secret", b"/secret"),
            ("/.;/", b"/.;/"),
            ("/DIR%20/", b"/DIR /"),
            ("/a%0d%0aSet-Cookie:x", b"/a\r\nSet-Cookie:x"),
        ];
        for (raw, expected) in table {
            assert_eq!(&parsed(raw.as_bytes()).unwrap().bytes(), expected, "{raw}");
        }
    }

    #[test]
    fn p08_nul_is_refused() {
        assert!(parsed(b"/index.html%00.jpg").is_err());
        assert!(parsed(b"/%00").is_err());
        // No head lets one through, but the path is safe by itself.
        assert!(parsed(b"/a/\x01\0b").is_err());
    }

    #[test]
    fn p11_p12_empty_segments_merge() {
        assert_eq!(parsed(b"//etc/passwd").unwrap().bytes(), b"/etc/passwd");
        assert_eq!(parsed(b"////").unwrap().bytes(), b"/");
        assert_eq!(parsed(b"//evil.example/..").unwrap().bytes(), b"/");
        assert_eq!(parsed(b"/.//evil.example").unwrap().bytes(), b"/evil.example");
    }

    #[test]
    fn p15_many_segments_take_linear_time() {
        let deep = b"/a".repeat(200_000);
        assert_eq!(parsed(&deep).unwrap().segments().count(), 200_000);
        let mut back = b"/a/..".repeat(200_000);
        back.push(b'/');
        assert_eq!(parsed(&back).unwrap().bytes(), b"/");
    }

    #[test]
    fn targets_that_are_no_paths_name_no_file() {
        for raw in [&b""[..], b"*"] {
            let path = parsed(raw).unwrap();
            assert!(!path.names_file());
            assert_eq!(path.bytes(), b"/");
        }
        assert!(parsed(b"a").is_err());
    }

    #[test]
    fn a_path_can_be_used_again() {
        let mut path = Path::default();
        parse_into(b"/a%2fb/c", &mut path).unwrap();
        let _ = parse_into(b"/a/%zz", &mut path).unwrap_err();
        parse_into(b"/x", &mut path).unwrap();
        assert_eq!((path.bytes(), path.is_directory(), path.names_file()), (&b"/x"[..], false, true));
        assert_eq!(path.segments().count(), 1);
    }

    #[test]
    fn encoding_and_decoding_give_every_byte_back() {
        for byte in 1..=255u8 {
            let name = [b'/', b'a', byte, b'b'];
            let mut encoded = Vec::new();
            encode(&name, &mut encoded);
            assert!(encoded.iter().all(|byte| byte.is_ascii_graphic() && !b"\"<>&'?#\\".contains(byte)), "{byte}");
            assert_eq!(parsed(&encoded).unwrap().bytes(), name, "{byte}");
        }
    }

    #[test]
    fn encoding_leaves_ordinary_names_readable() {
        let mut out = b"x".to_vec();
        encode(b"/a-b_c~d.e/100% \r\n", &mut out);
        assert_eq!(out, b"x/a-b_c~d.e/100%25%20%0D%0A");
    }
}
