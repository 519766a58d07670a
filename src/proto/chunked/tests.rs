//! Chunked bodies, right and wrong, whole and split at every byte.

use super::*;

const LIMITS: BodyLimits = BodyLimits { content: 1 << 20, trailer_bytes: 1000, trailer_count: 10 };

/// The content, and what is left behind the body; the status of a refusal; `Ok(None)` when more must come.
type Read = Result<Option<(Vec<u8>, Vec<u8>)>, u16>;

/// Reads `bytes`, which come in parts that end at `cuts`.
fn read_split(bytes: &[u8], cuts: &[usize], limits: &BodyLimits) -> Read {
    let mut chunked = Chunked::new(limits);
    let (mut content, mut start) = (Vec::new(), 0);
    for &end in cuts.iter().chain([&bytes.len()]) {
        let mut part = &bytes[start..end];
        loop {
            match chunked.read(&mut part).map_err(|reject| reject.status.code())? {
                Piece::Data(data) => content.extend_from_slice(data),
                Piece::More => break assert!(part.is_empty()),
                Piece::End => return Ok(Some((content, [part, &bytes[end..]].concat()))),
            }
        }
        start = end;
    }
    Ok(None)
}

/// Reads `bytes` whole, in two parts with every cut, and byte by byte: the outcome must be the same.
#[track_caller]
fn read_with(bytes: &[u8], limits: &BodyLimits) -> Read {
    let whole = read_split(bytes, &[], limits);
    if bytes.len() < 500 {
        for at in 0..=bytes.len() {
            assert_eq!(read_split(bytes, &[at], limits), whole, "split at {at}: {}", bytes.escape_ascii());
        }
    }
    let all: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(read_split(bytes, &all, limits), whole, "byte by byte: {}", bytes[..bytes.len().min(200)].escape_ascii());
    whole
}

#[track_caller]
fn read(bytes: impl AsRef<[u8]>) -> Read {
    read_with(bytes.as_ref(), &LIMITS)
}

#[track_caller]
fn gives(bytes: impl AsRef<[u8]>, content: &[u8], left: &[u8]) {
    assert_eq!(read(bytes), Ok(Some((content.to_vec(), left.to_vec()))));
}

#[track_caller]
fn refused(bytes: impl AsRef<[u8]>, status: u16) {
    let bytes = bytes.as_ref();
    assert_eq!(read(bytes), Err(status), "{}", bytes[..bytes.len().min(200)].escape_ascii());
}

#[test]
fn right_bodies_are_read_to_their_last_byte() {
    gives("0\r\n\r\n", b"", b"");
    gives("5\r\nhello\r\n0\r\n\r\nGET /", b"hello", b"GET /");
    gives("1\r\na\r\n2\r\nbc\r\n000\r\n\r\n", b"abc", b"");
    gives("A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", b"01234567890123456789", b"");
    gives("2\r\n\r\n\r\n0\r\n\r\n", b"\r\n", b"");
    gives("0000000000000001\r\na\r\n0\r\n\r\n", b"a", b"");
    gives("5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n", b"");
    gives([b"1\r\n\0\r\n0\r\n\r\n".as_slice(), b"\0"].concat(), b"\0", b"\0");
}

#[test]
fn what_is_cut_short_waits_for_more() {
    let whole = b"3;a=\"b\"\r\nabc\r\n0\r\nX: y\r\n\r\n";
    for at in 0..whole.len() {
        assert_eq!(read(&whole[..at]), Ok(None), "{at}");
    }
}

#[test]
fn f29_a_size_is_digits_and_nothing_else() {
    for size in [
        "0x1", "+1", "-1", "1_0", " 1", "1 ", "", ";x", "\t1", "1\t", "g", "1g", "1.", "1,", "1\0", "\u{661}", "1 1", "1 ;a", "\r", "0x0",
        "1\x0b",
    ] {
        refused(format!("{size}\r\na\r\n0\r\n\r\n"), 400);
    }
}

#[test]
fn f30_large_sizes_overflow_nothing() {
    for (size, status) in [
        ("FFFFFFFFFFFFFFFF", 413),
        ("0FFFFFFFFFFFFFFFF", 400),
        ("FFFFFFFFFFFFFFFFF", 400),
        ("10000000000000000", 400),
        ("7FFFFFFFFFFFFFFF", 413),
        ("8000000000000000", 413),
        ("100001", 413),
        ("00000000000000001", 400),
    ] {
        refused(format!("{size}\r\na\r\n0\r\n\r\n"), status);
    }
    refused(format!("{}1\r\na\r\n0\r\n\r\n", "0".repeat(100)), 400);
    // Several that together are too large, even where their sum would not fit in 64 bits.
    let unlimited = BodyLimits { content: u64::MAX, ..LIMITS };
    assert_eq!(read_with(b"1\r\na\r\nFFFFFFFFFFFFFFFF\r\n", &unlimited), Err(413));
    assert_eq!(read_with(b"1\r\na\r\nFFFFFFFFFFFFFFFE\r\n", &unlimited), Ok(None));
}

#[test]
fn f31_lines_end_with_crlf_and_data_where_its_size_says() {
    for body in [
        "1\na\r\n0\r\n\r\n",
        "1\ra\r\n0\r\n\r\n",
        "1\r\r\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\na\r0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "3\r\na\r\n0\r\n\r\n",
        "1\r\na0\r\n\r\n",
        "0\n\n",
        "0\r\n\n",
        "0\r\n\r\r\n",
        "0\r\n\rX",
        "0\n\r\n",
        "1\r\na\r\n\r\n0\r\n\r\n",
    ] {
        refused(body, 400);
    }
    // Shorter than its size: the next line is taken for data, and then nothing fits.
    refused("6\r\nhello\r\n0\r\n\r\n", 400);
}

#[test]
fn f32_extensions_follow_their_grammar() {
    for extension in
        [";a", ";a=b", ";a;b=c", ";a=\"\"", ";a=\"b c\"", ";a=\"b\\\"c\\\\\"", ";a=\";\t=\"", ";a=\"\u{e9}\"", ";!#$%&'*+-.^_`|~=0", ";0"]
    {
        gives(format!("1{extension}\r\na\r\n0{extension}\r\n\r\n"), b"a", b"");
    }
    for extension in [
        ";",
        ";;",
        ";a;",
        ";a=",
        ";=b",
        ";a=b=c",
        "; a",
        ";a ",
        " ;a",
        ";a =b",
        ";a= b",
        ";a=b ",
        ";a\nb",
        ";a\rb",
        ";a\0b",
        ";a=\"b",
        ";a=b\"",
        ";a=\"b\"c",
        ";a=\"b\n\"",
        ";a=\"b\r\n\"",
        ";a=\"\0\"",
        ";a=\"\x7f\"",
        ";a=\"\\\n\"",
        ";a=\"b\\",
        ";\u{e9}",
        ";a=\u{e9}",
        ";a,b",
        ",a",
        ";a\t",
    ] {
        refused(format!("1{extension}\r\na\r\n0\r\n\r\n"), 400);
    }
}

#[test]
fn f33_extensions_have_a_limit_over_all_chunks() {
    let with = |length: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "x".repeat(length));
    gives(with(EXTENSIONS_MAX), b"a", b"");
    refused(with(EXTENSIONS_MAX + 1), 413);
    refused(with(64 * 1024), 413);
    let chunk = format!("1;{}\r\na\r\n", "x".repeat(4096));
    gives(chunk.repeat(4) + "0\r\n\r\n", b"aaaa", b"");
    refused(chunk.repeat(4) + "1;x\r\na\r\n0\r\n\r\n", 413);
    // In quotes too.
    refused(format!("1;a=\"{}\"\r\na\r\n", "\\\"".repeat(EXTENSIONS_MAX)), 413);
}

#[test]
fn f34_trailers_are_checked_and_dropped() {
    let fields =
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: b\r\nAuthorization: Basic x\r\nCookie: a=b\r\nRange: bytes=0-0\r\n";
    gives(format!("1\r\na\r\n0\r\n{fields}\r\nGET /"), b"a", b"GET /");
    gives("0\r\nX:\r\nY: \t\u{e9} \r\n\r\n", b"", b"");
    for trailer in [
        " X: y",
        "\tX: y",
        "X",
        "X y",
        ": y",
        "X : y",
        "X\t: y",
        "X: a\r\n b",
        "X: a\nY: b",
        "X: a\rY: b",
        "X: a\0",
        "X: \x7f",
        "X: \x01",
        "X\u{e9}: a",
        "X: a\r",
        "\u{1}",
        "X(: a",
    ] {
        refused(format!("0\r\n{trailer}\r\n\r\n"), 400);
    }
}

#[test]
fn f35_a_trailer_section_has_limits() {
    // CRLFs counted, as those of a head.
    let bytes = |length: usize| format!("0\r\nX: {}\r\n\r\n", "y".repeat(length - 5));
    gives(bytes(1000), b"", b"");
    refused(bytes(1001), 431);
    refused(bytes(1 << 20), 431);
    let lines = |count: usize| format!("0\r\n{}\r\n", "X: y\r\n".repeat(count));
    gives(lines(10), b"", b"");
    refused(lines(11), 431);
    refused(lines(10_000), 431);
    assert_eq!(read_with(format!("0\r\nX: {}", "y".repeat(900)).as_bytes(), &LIMITS), Ok(None));
}

#[test]
fn s11_content_at_the_limit_is_read_and_one_byte_beyond_is_413_when_announced() {
    let limits = BodyLimits { content: 10, ..LIMITS };
    assert_eq!(read_with(b"5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", &limits), Ok(Some((b"helloworld".to_vec(), Vec::new()))));
    assert_eq!(read_with(b"5\r\nhello\r\n6\r\n", &limits), Err(413));
    assert_eq!(read_with(b"b\r\n", &limits), Err(413));
    assert_eq!(read_with(b"0\r\n\r\n", &BodyLimits { content: 0, ..LIMITS }), Ok(Some((Vec::new(), Vec::new()))));
}

#[test]
fn no_more_content_than_input_is_handed_out() {
    // What backpressure rests on: room for so many bytes is kept by handing in so many.
    let bytes = b"a;x=y\r\n0123456789\r\n3\r\nabc\r\n0\r\n\r\n";
    for window in 1..bytes.len() {
        let mut chunked = Chunked::new(&LIMITS);
        let mut content = Vec::new();
        for part in bytes.chunks(window) {
            let mut rest = part;
            let mut handed = 0;
            while let Piece::Data(data) = chunked.read(&mut rest).unwrap() {
                handed += data.len();
                content.extend_from_slice(data);
            }
            assert!(handed <= part.len());
        }
        assert_eq!(content, b"0123456789abc");
    }
}
