//! The media type of a file, by its name.
//!
//! Runs in the `worker`; does no I/O.

use crate::proto::coding::Coding;

/// Appends the value of `Content-Type` for `path`, of which only the extension counts, in any case.
///
/// `charset`, unless empty, is added to every text type but `text/xml`: XML declares its own encoding, which the parameter would override
/// (RFC 7303, 3), and JSON is always UTF-8 and has no such parameter (RFC 8259, 11). A type of the configuration that has parameters has
/// those it should have.
pub fn content_type(path: &[u8], charset: &str, own: &[(String, String)], out: &mut Vec<u8>) {
    let configured = |extension: &str| own.iter().find(|(name, _)| name.eq_ignore_ascii_case(extension)).map(|(_, kind)| kind.as_str());
    let known = |extension| configured(extension).or_else(|| of_extension(extension));
    let kind = extension(path).and_then(known).unwrap_or(UNKNOWN);
    out.extend_from_slice(kind.as_bytes());
    if !charset.is_empty() && kind.starts_with("text/") && kind != "text/xml" && !kind.contains(';') {
        out.extend_from_slice(b"; charset=");
        out.extend_from_slice(charset.as_bytes());
    }
}

/// What encoding does for content of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gain {
    /// It makes it much smaller.
    Text,
    /// It may or may not: not done on the fly.
    Unknown,
    /// Nothing: it is compressed in itself.
    None,
}

/// What encoding does for a value of `Content-Type`.
pub fn gain(content_type: &[u8]) -> Gain {
    let kind = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    let Ok(kind) = std::str::from_utf8(kind.trim_ascii()) else { return Gain::Unknown };
    let kind = kind.to_ascii_lowercase();
    if kind.starts_with("text/") || kind.ends_with("+json") || kind.ends_with("+xml") || kind.ends_with("+text") {
        return Gain::Text;
    }
    if TEXT.contains(&kind.as_str()) {
        return Gain::Text;
    }
    let compressed = ["image/", "audio/", "video/"].iter().any(|top| kind.starts_with(top)) || COMPRESSED.contains(&kind.as_str());
    if compressed { Gain::None } else { Gain::Unknown }
}

/// What the content of a file is encoded with by the custom of its name: an `.svgz` is an SVG image for every browser, encoded.
pub fn coding(path: &[u8]) -> Option<Coding> {
    extension(path).filter(|extension| extension.eq_ignore_ascii_case("svgz")).map(|_| Coding::Gzip)
}

/// What stands behind the last dot of the last segment; a name that begins with its only dot has none.
fn extension(path: &[u8]) -> Option<&str> {
    let name = memchr::memrchr(b'/', path).map_or(path, |slash| &path[slash + 1..]);
    let dot = memchr::memrchr(b'.', name).filter(|&dot| dot > 0)?;
    std::str::from_utf8(&name[dot + 1..]).ok()
}

fn of_extension(extension: &str) -> Option<&'static str> {
    let own = OWN.iter().find(|(name, _)| name.eq_ignore_ascii_case(extension));
    own.map(|(_, kind)| *kind).or_else(|| mime_guess::from_ext(extension).first_raw())
}

/// Types beside `text/`, `+json` and `+xml` that encoding makes much smaller.
const TEXT: &[&str] = &[
    "application/javascript",
    "application/json",
    "application/xml",
    "application/yaml",
    "application/toml",
    "application/wasm",
    "application/rtf",
    "application/sql",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/vnd.apple.mpegurl",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "font/collection",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "message/rfc822",
    "model/obj",
    "model/stl",
];

/// Types beside images, sounds and films that are compressed in themselves.
const COMPRESSED: &[&str] = &[
    "application/epub+zip",
    "application/gzip",
    "application/java-archive",
    "application/vnd.android.package-archive",
    "application/vnd.debian.binary-package",
    "application/vnd.rar",
    "application/x-7z-compressed",
    "application/x-bzip2",
    "application/x-rpm",
    "application/x-xz",
    "application/zip",
    "application/zstd",
    "font/woff",
    "font/woff2",
];

/// Bytes that a browser saves and does not interpret.
const UNKNOWN: &str = "application/octet-stream";

/// What the crate lacks or has otherwise than registered, and what browsers depend on, so that it cannot change by an update.
const OWN: &[(&str, &str)] = &[
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("mjs", "text/javascript"),
    ("cjs", "text/javascript"),
    ("json", "application/json"),
    ("map", "application/json"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("jxl", "image/jxl"),
    ("ico", "image/vnd.microsoft.icon"),
    ("cur", "image/vnd.microsoft.icon"),
    ("txt", "text/plain"),
    ("md", "text/markdown"),
    ("markdown", "text/markdown"),
    ("xml", "text/xml"),
    ("xhtml", "application/xhtml+xml"),
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("pdf", "application/pdf"),
    ("mp4", "video/mp4"),
    ("m4v", "video/mp4"),
    ("m4a", "audio/mp4"),
    ("mkv", "video/matroska"),
    ("mk3d", "video/matroska-3d"),
    ("mka", "audio/matroska"),
    ("opus", "audio/ogg"),
    ("mid", "audio/midi"),
    ("ts", "video/mp2t"),
    ("m3u8", "application/vnd.apple.mpegurl"),
    ("gz", "application/gzip"),
    ("tgz", "application/gzip"),
    ("zst", "application/zstd"),
    ("deb", "application/vnd.debian.binary-package"),
    ("rpm", "application/x-rpm"),
    ("jar", "application/java-archive"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("toml", "application/toml"),
    ("ndjson", "application/x-ndjson"),
    ("sql", "application/sql"),
    ("vcf", "text/vcard"),
    ("xsl", "application/xslt+xml"),
    ("xslt", "application/xslt+xml"),
    ("dtd", "application/xml-dtd"),
    ("rar", "application/vnd.rar"),
    ("swf", "application/vnd.adobe.flash.movie"),
    ("crt", "application/x-x509-ca-cert"),
    ("cer", "application/pkix-cert"),
    ("stl", "model/stl"),
    ("obj", "model/obj"),
    ("mtl", "model/mtl"),
    ("csv", "text/csv"),
    ("vtt", "text/vtt"),
    ("asc", "text/plain"),
    ("patch", "text/plain"),
    ("diff", "text/plain"),
    ("sha256", "text/plain"),
    ("sha512", "text/plain"),
    // Never registered for what these hold today: Fluent translations, and many others.
    ("ftl", UNKNOWN),
    ("xyz", UNKNOWN),
];

/// Sizes of content that is encoded on the fly, in bytes. What is smaller fits one segment of TCP anyway; what is larger would keep the
/// processor busy for as long as a client keeps asking, and should have a sibling.
pub const ENCODED_MIN: u64 = 1024;
pub const ENCODED_MAX: u64 = 10 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(charset: &str, table: &[(&str, &str)]) {
        for (path, expected) in table {
            let mut out = Vec::new();
            content_type(path.as_bytes(), charset, &[], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), *expected, "{path}");
        }
    }

    #[test]
    fn types_are_those_that_browsers_need() {
        check(
            "",
            &[
                ("a.wasm", "application/wasm"),
                ("a.avif", "image/avif"),
                ("a.webp", "image/webp"),
                ("a.woff2", "font/woff2"),
                ("a.svg", "image/svg+xml"),
                ("a.json", "application/json"),
                ("a.webmanifest", "application/manifest+json"),
                ("a.mjs", "text/javascript"),
                ("a.js", "text/javascript"),
                ("a.md", "text/markdown"),
                ("a.xhtml", "application/xhtml+xml"),
                ("a.HTML", "text/html"),
                ("dir.d/a.tar.GZ", "application/gzip"),
                ("a.flac", "audio/flac"),
                ("a.zip", "application/zip"),
            ],
        );
    }

    /// As registered with IANA where they are, and else as other servers have them, but for what is marked.
    #[test]
    fn types_are_those_that_are_registered() {
        check(
            "",
            &[
                ("a.opus", "audio/ogg"),
                ("a.flac", "audio/flac"),
                ("a.heic", "image/heic"),
                ("a.jxl", "image/jxl"),
                ("a.m3u8", "application/vnd.apple.mpegurl"),
                ("a.mpd", "application/dash+xml"),
                ("a.ts", "video/mp2t"),
                ("a.mkv", "video/matroska"),
                ("a.mka", "audio/matroska"),
                ("a.m4a", "audio/mp4"),
                ("a.zst", "application/zstd"),
                ("a.tar.gz", "application/gzip"),
                ("a.rar", "application/vnd.rar"),
                ("a.yaml", "application/yaml"),
                ("a.toml", "application/toml"),
                ("a.vcf", "text/vcard"),
                ("a.ics", "text/calendar"),
                ("a.sql", "application/sql"),
                ("a.stl", "model/stl"),
                ("a.obj", "model/obj"),
                ("a.glb", "model/gltf-binary"),
                ("a.geojson", "application/geo+json"),
                ("a.jsonld", "application/ld+json"),
                ("a.atom", "application/atom+xml"),
                ("a.epub", "application/epub+zip"),
                ("a.svgz", "image/svg+xml"),
                ("a.xslt", "application/xslt+xml"),
                ("a.cer", "application/pkix-cert"),
                ("a.ttc", "font/collection"),
                // By custom, not registered.
                ("a.tar", "application/x-tar"),
                ("a.7z", "application/x-7z-compressed"),
                ("a.ndjson", "application/x-ndjson"),
                // By its own name an encoded sibling is bytes.
                ("a.css.br", "application/octet-stream"),
            ],
        );
    }

    #[test]
    fn text_gains_from_encoding_and_what_is_compressed_does_not() {
        for (name, expected) in [
            ("a.html", Gain::Text),
            ("a.js", Gain::Text),
            ("a.json", Gain::Text),
            ("a.svg", Gain::Text),
            ("a.wasm", Gain::Text),
            ("a.ttf", Gain::Text),
            ("a.geojson", Gain::Text),
            ("a.png", Gain::None),
            ("a.woff2", Gain::None),
            ("a.mp4", Gain::None),
            ("a.opus", Gain::None),
            ("a.zip", Gain::None),
            ("a.tar.gz", Gain::None),
            ("a.zst", Gain::None),
            ("a.tar", Gain::Unknown),
            ("a", Gain::Unknown),
        ] {
            let mut kind = Vec::new();
            content_type(name.as_bytes(), "utf-8", &[], &mut kind);
            assert_eq!(gain(&kind), expected, "{name}");
        }
        assert_eq!((coding(b"a.SVGZ"), coding(b"a.svg.gz"), coding(b"svgz")), (Some(Coding::Gzip), None, None));
    }

    #[test]
    fn unknown_names_are_octet_streams() {
        let table = ["", "name", "a.ftl", "a.xyz", "data.zzz", "a.", ".", ".html", "dir.html/name", "a.html/", "a.html~", "a.\u{e9}"];
        check("utf-8", &table.map(|path| (path, "application/octet-stream")));
        let mut out = Vec::new();
        content_type(b"a.\xff", "utf-8", &[], &mut out);
        assert_eq!(out, b"application/octet-stream");
        check("utf-8", &[(&format!("a.{}", "x".repeat(100_000)), "application/octet-stream")]);
    }

    #[test]
    fn a_type_with_parameters_is_sent_as_it_is_configured() {
        let own = [("log".to_owned(), "text/x-log; charset=iso-8859-1".to_owned()), ("x".to_owned(), "text/x".to_owned())];
        for (path, right) in [("a.log", "text/x-log; charset=iso-8859-1"), ("a.x", "text/x; charset=utf-8")] {
            let mut out = Vec::new();
            content_type(path.as_bytes(), "utf-8", &own, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), right);
        }
    }

    #[test]
    fn charset_goes_to_text_only() {
        check(
            "utf-8",
            &[
                ("a.txt", "text/plain; charset=utf-8"),
                ("a.css", "text/css; charset=utf-8"),
                ("a.html", "text/html; charset=utf-8"),
                ("a.js", "text/javascript; charset=utf-8"),
                ("a.png", "image/png"),
                ("a.json", "application/json"),
                ("a.xml", "text/xml"),
                ("a.svg", "image/svg+xml"),
                ("a.xhtml", "application/xhtml+xml"),
            ],
        );
    }
}
