//! Exchanges of HTTP/2, section by section of RFC 9113 and RFC 7541: states of streams, malformed requests, windows, ways to write fields.
//! What is let pass is what the RFC lets pass: an error of the stream, or of the connection, with a code that it names, or the end.

use crate::hpack::{As, Decoder, Fields, Name, Text, encode, huffman_decode, huffman_encode, integer};
use crate::http2_frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, RawHttp2, SETTINGS, WINDOW_UPDATE, asks, block, frame,
};
use crate::support::{Client, Configuration, PATIENCE, Root, Server, pattern};
use std::time::{Duration, Instant};

const PRIORITY: u8 = 2;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const PADDED: u8 = 8;
const PRIORITIZED: u8 = 0x20;
const WHOLE: u8 = END_STREAM | END_HEADERS;

const PROTOCOL: u32 = 1;
const STREAM_CLOSED: u32 = 5;
const COMPRESSION: u32 = 9;

fn service(root: &Root) -> Server {
    Server::run(&Configuration::of(&root.path()).server_also("http2_cleartext = true\nworkers = 1"))
}

fn get() -> Vec<u8> {
    asks("GET", "/", &[])
}

fn asked() -> Vec<u8> {
    frame(HEADERS, WHOLE, 1, &get())
}

/// A request whose content is still to come.
fn begun() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, &asks("POST", "/", &[]))
}

fn reset() -> Vec<u8> {
    frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])
}

/// Reads until stream 1 is over.
fn finish(client: &mut RawHttp2) {
    client.until(PATIENCE, |frame| frame.stream == 1 && frame.flags & END_STREAM != 0 && frame.kind <= HEADERS).unwrap();
}

/// An error of stream 1 or of the connection with one of these codes, or the end of the connection. What the crate `h2` calls
/// PROTOCOL_ERROR where the RFC has a more exact name ends the connection, and is let pass then.
fn refuses(client: &mut RawHttp2, codes: &[u32]) -> Result<(), String> {
    // What is answered behind it, and no error beside that, was let pass: an end for want of requests is none.
    client.send(&frame(PING, 0, 0, b"12345678"));
    let mut seen = Vec::new();
    let mut limit = PATIENCE;
    loop {
        let began = Instant::now();
        match client.next(limit) {
            Some(frame) if frame.kind == RST_STREAM && frame.stream == 1 && codes.contains(&frame.code()) => return Ok(()),
            Some(frame) if frame.kind == GOAWAY && (codes.contains(&frame.code()) || frame.code() == PROTOCOL) => return Ok(()),
            Some(frame) => {
                if frame.kind == PING && frame.flags == ACK {
                    limit = Duration::from_secs(2);
                }
                seen.push(frame);
            }
            None if began.elapsed() < limit => return Ok(()),
            None => return Err(format!("{codes:?} was to come, not {seen:?}")),
        }
    }
}

/// A name, what is sent, what is sent when stream 1 is over, and the codes that the RFC names.
type Case<'c> = (&'c str, Vec<u8>, Vec<u8>, &'c [u32]);

/// What a request of stream 1 is answered: status and content.
fn answer(client: &mut RawHttp2, decoder: &mut Decoder) -> Result<(Fields, Vec<u8>), String> {
    let (mut fields, mut content) = (Vec::new(), Vec::new());
    loop {
        let frame = client.next(PATIENCE).ok_or("the end")?;
        match frame.kind {
            HEADERS => {
                assert_ne!(frame.flags & END_HEADERS, 0);
                fields = decoder.decode(&frame.payload)?;
            }
            DATA => {
                content.extend_from_slice(&frame.payload);
                client.send(&crate::http2_frames::frame(
                    WINDOW_UPDATE,
                    0,
                    0,
                    &u32::try_from(frame.payload.len().max(1)).unwrap().to_be_bytes(),
                ));
            }
            RST_STREAM | GOAWAY => return Err(format!("{frame:?}")),
            _ => continue,
        }
        if frame.flags & END_STREAM != 0 {
            return Ok((fields, content));
        }
    }
}

fn all(cases: &[Case<'_>]) {
    let root = Root::with_index();
    let server = service(&root);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, first, second, codes)| {
            let mut client = RawHttp2::connect(server.address(), &[]);
            client.send(first);
            if !second.is_empty() {
                finish(&mut client);
                client.send(second);
            }
            refuses(&mut client, codes).err().map(|why| format!("{name}: {why}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(server.get("/").status, 200);
}

/// RFC 9113, 5.1.
#[test]
fn w19_frames_of_streams_that_are_over() {
    let none = Vec::new;
    let data = frame(DATA, END_STREAM, 1, b"x");
    let more = frame(CONTINUATION, END_HEADERS, 1, &get());
    let stream = &[STREAM_CLOSED][..];
    all(&[
        ("DATA when its end was told", [asked(), data.clone()].concat(), none(), stream),
        ("HEADERS when its end was told", [asked(), asked()].concat(), none(), stream),
        ("CONTINUATION when its end was told", [asked(), more.clone()].concat(), none(), &[STREAM_CLOSED, PROTOCOL]),
        ("DATA behind RST_STREAM", [begun(), reset(), data.clone()].concat(), none(), stream),
        ("HEADERS behind RST_STREAM", [begun(), reset(), asked()].concat(), none(), stream),
        ("CONTINUATION behind RST_STREAM", [begun(), reset(), more.clone()].concat(), none(), &[STREAM_CLOSED, PROTOCOL]),
        ("DATA when both have ended", asked(), data, stream),
        ("HEADERS when both have ended", asked(), asked(), stream),
        ("CONTINUATION when both have ended", asked(), more, &[STREAM_CLOSED, PROTOCOL]),
    ]);
}

/// RFC 9113, 4.3, 5.1.1, 6.10 and 8.1.
#[test]
fn w19_blocks_of_fields_that_are_torn() {
    let none = Vec::new;
    let opened = frame(HEADERS, END_STREAM, 1, &get());
    let protocol = &[PROTOCOL][..];
    all(&[
        ("PRIORITY within fields", [opened.clone(), frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16])].concat(), none(), protocol),
        ("HEADERS of another stream within fields", [opened.clone(), frame(HEADERS, WHOLE, 3, &get())].concat(), none(), protocol),
        ("HEADERS of the same stream within fields", [opened.clone(), asked()].concat(), none(), protocol),
        ("CONTINUATION of no stream", [opened.clone(), frame(CONTINUATION, END_HEADERS, 0, b"")].concat(), none(), protocol),
        ("RST_STREAM within fields", [opened.clone(), reset()].concat(), none(), protocol),
        ("SETTINGS within fields", [opened, frame(SETTINGS, 0, 0, b"")].concat(), none(), protocol),
        (
            "CONTINUATION behind DATA",
            [begun(), frame(DATA, 0, 1, b"x"), frame(CONTINUATION, END_HEADERS, 1, b"")].concat(),
            none(),
            protocol,
        ),
        ("fields again, and no end", [begun(), frame(HEADERS, END_HEADERS, 1, &block(&[("x", "y")]))].concat(), none(), protocol),
        ("a block that is no block", frame(HEADERS, WHOLE, 1, &[0x00, 0xff, 0xff]), none(), &[COMPRESSION]),
        (
            "a stream that depends on itself",
            frame(HEADERS, WHOLE | PRIORITIZED, 1, &[&[0, 0, 0, 1, 16][..], &get()].concat()),
            none(),
            protocol,
        ),
    ]);
}

/// RFC 9113, 8.1.1 to 8.3.1.
#[test]
fn w19_requests_that_are_malformed() {
    let none = Vec::new;
    let with = |fields: &[(&str, &str)]| frame(HEADERS, WHOLE, 1, &block(fields));
    let (method, scheme, path, authority) = ((":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a"));
    let trailers = |fields: &[(&str, &str)]| [begun(), frame(DATA, 0, 1, b"x"), frame(HEADERS, WHOLE, 1, &block(fields))].concat();
    let content = |parts: &[&[u8]]| {
        let mut bytes = frame(HEADERS, END_HEADERS, 1, &asks("POST", "/", &[("content-length", "4")]));
        for (at, part) in parts.iter().enumerate() {
            bytes.extend(frame(DATA, if at + 1 == parts.len() { END_STREAM } else { 0 }, 1, part));
        }
        bytes
    };
    let protocol = &[PROTOCOL][..];
    all(&[
        ("no :method", with(&[scheme, path, authority]), none(), protocol),
        ("no :scheme", with(&[method, path, authority]), none(), protocol),
        ("no :path", with(&[method, scheme, authority]), none(), protocol),
        ("an empty :path", with(&[method, scheme, (":path", ""), authority]), none(), protocol),
        (":method twice", with(&[method, method, scheme, path, authority]), none(), protocol),
        (":scheme twice", with(&[method, scheme, scheme, path, authority]), none(), protocol),
        (":path twice", with(&[method, scheme, path, path, authority]), none(), protocol),
        (":authority twice", with(&[method, scheme, path, authority, authority]), none(), protocol),
        (":status of a request", with(&[method, scheme, path, authority, (":status", "200")]), none(), protocol),
        ("an unknown one of them", with(&[method, scheme, path, authority, (":test", "x")]), none(), protocol),
        ("one behind other fields", with(&[method, scheme, authority, ("x", "y"), path]), none(), protocol),
        (
            "one among trailers",
            [begun(), frame(DATA, 0, 1, b"x"), frame(HEADERS, END_HEADERS, 1, &block(&[(":method", "GET")]))].concat(),
            none(),
            protocol,
        ),
        ("an upper case", with(&[method, scheme, path, authority, ("X-Test", "ok")]), none(), protocol),
        ("an upper case among trailers", trailers(&[("X-Test", "ok")]), none(), protocol),
        ("connection", with(&[method, scheme, path, authority, ("connection", "keep-alive")]), none(), protocol),
        ("te that is not trailers", with(&[method, scheme, path, authority, ("te", "trailers, deflate")]), none(), protocol),
        ("less content than was said", content(&[b"abc"]), none(), protocol),
        ("more content than was said", content(&[b"abcde"]), none(), protocol),
        ("more content than was said, in parts", content(&[b"ab", b"cde"]), none(), protocol),
        ("content that was said and is not", frame(HEADERS, WHOLE, 1, &asks("POST", "/", &[("content-length", "4")])), none(), protocol),
    ]);
}

/// RFC 9113, 3.4: what is no preface gets no frame, and the end.
#[test]
fn w19_a_preface_that_is_none_ends_the_connection() {
    let root = Root::with_index();
    let server = service(&root);
    for bytes in [
        "PRI * HTTP/2.0\r\n\r\nSX\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n\r\n\r\n",
        "PRI * HTTP/2.1\r\n\r\nSM\r\n\r\n",
        "INVALID CONNECTION PREFACE\r\n\r\n",
    ] {
        let mut client = Client::connect(server.address());
        client.send(bytes);
        client.rest().unwrap();
    }
    // The settings may come with the preface, or late, and nothing is wrong with a PING before a request.
    let mut client = RawHttp2::connect(server.address(), &[]);
    client.send(&[frame(PING, 0, 0, b"12345678"), asked()].concat());
    assert!(client.until(PATIENCE, |frame| frame.kind == PING && frame.flags == ACK).is_ok());
    finish(&mut client);
}

/// RFC 9113, 5.1, 5.5, 6.4, 6.8 and 8.1: what is odd, and answered.
#[test]
fn w19_exchanges_that_are_answered() {
    let root = Root::with_index();
    let server = service(&root);
    let post = |more: Vec<Vec<u8>>| [vec![begun()], more].concat().concat();
    let get = get();
    for (name, bytes, statuses) in [
        ("GET", asked(), &["200"][..]),
        ("HEAD", frame(HEADERS, WHOLE, 1, &asks("HEAD", "/", &[])), &["200"]),
        ("POST", post(vec![frame(DATA, END_STREAM, 1, b"content")]), &["405"]),
        (
            "POST in many frames",
            post(vec![frame(DATA, 0, 1, b"con"), frame(DATA, 0, 1, b"tent"), frame(DATA, END_STREAM, 1, b"")]),
            &["405"],
        ),
        ("padded DATA", post(vec![frame(DATA, END_STREAM | PADDED, 1, &[3, b'x', 0, 0, 0])]), &["405"]),
        ("trailers", post(vec![frame(DATA, 0, 1, b"x"), frame(HEADERS, WHOLE, 1, &block(&[("x-sum", "1")]))]), &["405"]),
        (
            "fields in many frames",
            [
                frame(HEADERS, END_STREAM, 1, &get[..5]),
                frame(CONTINUATION, 0, 1, &get[5..9]),
                frame(CONTINUATION, END_HEADERS, 1, &get[9..]),
            ]
            .concat(),
            &["200"],
        ),
        ("an empty CONTINUATION", [frame(HEADERS, END_STREAM, 1, &get), frame(CONTINUATION, END_HEADERS, 1, b"")].concat(), &["200"]),
        (
            "PRIORITY of every weight",
            [frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 0]), frame(PRIORITY, 0, 1, &[0x80, 0, 0, 0, 255]), asked()].concat(),
            &["200"],
        ),
        ("WINDOW_UPDATE when its end was told", [asked(), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])].concat(), &["200"]),
        ("PRIORITY when its end was told", [asked(), frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 0])].concat(), &["200"]),
        ("WINDOW_UPDATE of the connection", [frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), asked()].concat(), &["200"]),
        ("te: trailers", frame(HEADERS, WHOLE, 1, &asks("GET", "/", &[("te", "trailers")])), &["200"]),
        ("cookies in parts", frame(HEADERS, WHOLE, 1, &asks("GET", "/", &[("cookie", "a=1"), ("cookie", "b=2")])), &["200"]),
    ] {
        let mut client = RawHttp2::connect(server.address(), &[]);
        client.send(&bytes);
        let (fields, content) = answer(&mut client, &mut Decoder::default()).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(fields[0].0, ":status", "{name}: {fields:?}");
        assert!(statuses.contains(&fields[0].1.as_str()), "{name}: {fields:?}");
        assert_eq!(content.is_empty(), name == "HEAD", "{name}");
    }
    // Codes that nobody knows are no reason for anything: the stream is over, and the connection goes on until the client is.
    for last in [frame(RST_STREAM, 0, 1, &[0, 0, 0, 0xff]), frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 0xff])] {
        let mut client = RawHttp2::connect(server.address(), &[]);
        client.send(&[begun(), last, frame(PING, 0, 0, b"12345678")].concat());
        assert!(client.until(PATIENCE, |frame| frame.kind == PING && frame.flags == ACK).is_ok());
    }
}

/// RFC 9113, 6.9.1 and 6.9.2.
#[test]
fn w19_windows_are_kept_to_as_settings_change_them() {
    let root = Root::new();
    root.file("f", pattern(10));
    let server = service(&root);
    let size = |size: u32| frame(SETTINGS, 0, 0, &[&4u16.to_be_bytes()[..], &size.to_be_bytes()].concat());
    let ask = || frame(HEADERS, WHOLE, 1, &asks("GET", "/f", &[]));
    // Changed when the request is there already.
    let mut client = RawHttp2::connect(server.address(), &[(4, 0)]);
    client.send(&ask());
    client.until(PATIENCE, |frame| frame.kind == HEADERS).unwrap();
    client.send(&size(1));
    assert_eq!(client.until(PATIENCE, |frame| frame.kind == DATA).unwrap().payload, pattern(10)[..1]);
    // A window that falls below nothing has to be filled up first.
    let mut client = RawHttp2::connect(server.address(), &[(4, 3)]);
    client.send(&ask());
    assert_eq!(client.until(PATIENCE, |frame| frame.kind == DATA).unwrap().payload, pattern(10)[..3]);
    client.send(&[size(2), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 2])].concat());
    assert_eq!(client.until(PATIENCE, |frame| frame.kind == DATA).unwrap().payload, pattern(10)[3..4]);
    // Of several sizes in one frame the last holds.
    let mut client = RawHttp2::connect(server.address(), &[(4, 100), (4, 1)]);
    client.send(&ask());
    assert_eq!(client.until(PATIENCE, |frame| frame.kind == DATA).unwrap().payload, pattern(10)[..1]);
}

/// RFC 7541, 2.3, 4.2, 4.3 and 6: every way to write a field says the same.
#[test]
fn w19_fields_in_every_way_of_writing() {
    let root = Root::with_index();
    let server = service(&root);
    for huffman in [false, true] {
        let text = |text: &'static str| Text(text, huffman);
        let named = |name: &'static str| Name::Is(text(name));
        let base = [As::Indexed(2), As::Indexed(6), As::Plain(Name::At(1), text("a"))];
        let path = As::Plain(Name::At(4), text("/"));
        for (name, more) in [
            ("indexed", vec![As::Indexed(4)]),
            ("kept, name of the table", vec![As::Kept(Name::At(4), text("/"))]),
            ("kept, name of its own", vec![As::Kept(named(":path"), text("/"))]),
            ("not kept, name of the table", vec![path]),
            ("not kept, name of its own", vec![As::Plain(named(":path"), text("/"))]),
            ("never kept, name of the table", vec![As::Never(Name::At(4), text("/"))]),
            ("never kept, name of its own", vec![As::Never(named(":path"), text("/"))]),
            ("kept and asked for again", vec![path, As::Kept(named("x-a"), text("1")), As::Indexed(62)]),
            ("kept and used as a name", vec![path, As::Kept(named("x-a"), text("1")), As::Plain(Name::At(62), text("2"))]),
            ("the older of two", vec![path, As::Kept(named("x-a"), text("1")), As::Kept(named("x-b"), text("2")), As::Indexed(63)]),
        ] {
            let mut client = RawHttp2::connect(server.address(), &[]);
            client.send(&frame(HEADERS, WHOLE, 1, &encode(&[&base[..], &more].concat())));
            let (fields, _) = answer(&mut client, &mut Decoder::default()).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!(fields[0], (":status".to_owned(), "200".to_owned()), "{name}, {huffman}");
        }
        // What one request had kept, another asks for; what a smaller table has thrown out is gone.
        let mut client = RawHttp2::connect(server.address(), &[]);
        client.send(&frame(HEADERS, WHOLE, 1, &encode(&[&base[..], &[As::Kept(Name::At(4), text("/index.html"))]].concat())));
        let mut decoder = Decoder::default();
        answer(&mut client, &mut decoder).unwrap();
        client.send(&frame(HEADERS, WHOLE, 3, &encode(&[&base[..], &[As::Indexed(62)]].concat())));
        assert_eq!(answer(&mut client, &mut decoder).unwrap().0[0].1, "200");
        client.send(&frame(HEADERS, WHOLE, 5, &encode(&[&[As::Size(0), As::Size(4096)][..], &base, &[As::Indexed(62)]].concat())));
        assert!(client.until(PATIENCE, |frame| frame.kind == GOAWAY && [COMPRESSION, PROTOCOL].contains(&frame.code())).is_ok());
    }
    // A number in more bytes than it needs is a number.
    let mut long = Vec::new();
    integer(0x80, 7, 127 + 3, &mut long);
    assert_eq!(long, [0xff, 3]);
}

/// What the server writes is read by other eyes than its own, over many answers that share a table, and says what HTTP/1.1 says.
#[test]
fn w19_answers_are_what_http1_says() {
    let root = Root::with_index();
    root.file("large.txt", "line\n".repeat(40_000));
    let server = service(&root);
    let mut client = RawHttp2::connect(server.address(), &[]);
    let mut decoder = Decoder::default();
    let mut stream = 1;
    for path in ["/", "/large.txt", "/missing", "/", "/large.txt", "/missing"] {
        client.send(&frame(WINDOW_UPDATE, 0, 0, &[0, 1, 0, 0]));
        client.send(&[frame(HEADERS, WHOLE, stream, &asks("GET", path, &[])), frame(WINDOW_UPDATE, 0, stream, &[0, 4, 0, 0])].concat());
        let (fields, content) = answer(&mut client, &mut decoder).unwrap();
        let plain = server.get(path);
        assert_eq!(fields[0], (":status".to_owned(), plain.status.to_string()), "{path}");
        let lower = |(name, value): &(String, String)| (name.to_lowercase(), value.clone());
        let differs = |(name, _): &(String, String)| name == "date" || name == "connection";
        let mut expected: Vec<_> = plain.fields.iter().map(lower).filter(|field| !differs(field)).collect();
        let mut told: Vec<_> = fields[1..].iter().filter(|field| !differs(field)).cloned().collect();
        expected.sort();
        told.sort();
        assert_eq!(told, expected, "{path}");
        assert!(content == plain.body, "{path}: {} bytes", content.len());
        stream += 2;
    }
}

#[test]
fn w19_the_code_of_huffman_is_that_of_the_rfc() {
    // Appendix C.4.1 to C.4.3 and C.6.1.
    for (text, code) in [
        ("www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..]),
        ("no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
        ("custom-key", &[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f]),
        ("302", &[0x64, 0x02]),
    ] {
        assert_eq!(huffman_encode(text.as_bytes()), code, "{text}");
    }
    let every: Vec<u8> = (0..=255).collect();
    assert_eq!(huffman_decode(&huffman_encode(&every)).unwrap(), every);
}
