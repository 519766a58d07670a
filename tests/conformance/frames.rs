//! What RFC 9113 and RFC 7541 say of frames that are wrong, and of odd ones that are not: a table of what is sent, and what must come.

use crate::http2_frames::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, RawHttp2, SETTINGS, WINDOW_UPDATE, asks, block, frame,
};
use crate::support::{Configuration, PATIENCE, Root, Server};

const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const PADDED: u8 = 8;
const PRIORITIZED: u8 = 0x20;
const WHOLE: u8 = END_STREAM | END_HEADERS;

const PROTOCOL: u32 = 1;
const FLOW_CONTROL: u32 = 3;
const FRAME_SIZE: u32 = 6;
const COMPRESSION: u32 = 9;

/// What comes of the bytes.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// GOAWAY with this code, and the end.
    Ends(u32),
    /// The end too. The RFC names this code; the crate `h2` says PROTOCOL_ERROR, which is let pass.
    EndsUnnamed(u32),
    /// RST_STREAM of stream 1 with this code; other streams go on.
    Resets(u32),
    /// Stream 1 is answered, with the status 200, and so are others.
    Answered,
    /// Nothing comes of it, and streams are answered.
    Ignored,
}
use Outcome::{Answered, Ends, EndsUnnamed, Ignored, Resets};

type Case = (&'static str, Vec<u8>, Outcome);

fn get() -> Vec<u8> {
    asks("GET", "/", &[])
}

fn asked(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, &get())
}

/// A request whose content is still to come.
fn begun() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, &asks("POST", "/", &[]))
}

/// A request with more bytes of HPACK behind its fields.
fn with_hpack(more: &[u8]) -> Vec<u8> {
    frame(HEADERS, WHOLE, 1, &[&get(), more].concat())
}

/// A request of which the bytes of HPACK are given.
fn of_hpack(bytes: &[u8]) -> Vec<u8> {
    frame(HEADERS, WHOLE, 1, bytes)
}

fn play(server: &Server, (name, bytes, outcome): &Case) -> Result<(), String> {
    let mut client = RawHttp2::connect(server.address(), &[]);
    // What was closed already takes no more; what it said is read below.
    let _ = client.send(bytes);
    let wrong = |seen: Vec<Frame>| format!("{name}: {outcome:?} was to come, not {seen:?}");
    match *outcome {
        Ends(code) | EndsUnnamed(code) => {
            let last = client.until(PATIENCE, |frame| frame.kind == GOAWAY && frame.code() != 0).map_err(wrong)?;
            let passes = matches!(outcome, EndsUnnamed(_)) && last.code() == PROTOCOL;
            if last.code() != code && !passes {
                return Err(wrong(vec![last]));
            }
            return client.next(PATIENCE).map_or(Ok(()), |frame| Err(wrong(vec![frame])));
        }
        Resets(code) => {
            let reset = client.until(PATIENCE, |frame| [RST_STREAM, GOAWAY].contains(&frame.kind)).map_err(wrong)?;
            if (reset.kind, reset.stream) != (RST_STREAM, 1) || reset.code() != code {
                return Err(wrong(vec![reset]));
            }
        }
        Answered => answered(&mut client, 1).map_err(wrong)?,
        Ignored => {}
    }
    if !client.send(&asked(101)) {
        return Err(format!("{name}: closed"));
    }
    answered(&mut client, 101).map_err(wrong)
}

/// Whether a stream is answered with 200: the first field stands in the table of RFC 7541, appendix A, with the index 8.
fn answered(client: &mut RawHttp2, stream: u32) -> Result<(), Vec<Frame>> {
    let head = client.until(PATIENCE, |frame| (frame.kind == HEADERS && frame.stream == stream) || frame.kind == GOAWAY)?;
    // Before it may stand how large the table is.
    match head.payload.iter().find(|byte| **byte & 0xe0 != 0x20) {
        Some(0x88) if head.kind == HEADERS => Ok(()),
        _ => Err(vec![head]),
    }
}

fn run(cases: &[Case]) {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).server_also("http2_cleartext = true\nworkers = 1"));
    let wrong: Vec<String> = cases.iter().filter_map(|case| play(&server, case).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// RFC 9113, 4.1, 4.2, 4.3, 5.1, 5.1.1, 5.5 and 6.10.
#[test]
fn w11_frames_of_a_wrong_size_kind_or_stream() {
    let half = get();
    let (first, second) = half.split_at(9);
    let opened = frame(HEADERS, END_STREAM, 1, first);
    run(&[
        ("a request", asked(1), Answered),
        ("a frame of an unknown kind", [frame(77, 0xff, 0, b"anything"), asked(1)].concat(), Answered),
        ("flags without a meaning", frame(HEADERS, WHOLE | 0x52, 1, &get()), Answered),
        ("the reserved bit of a stream", frame(HEADERS, WHOLE, 0x8000_0001, &get()), Answered),
        ("DATA that is too large", [begun(), frame(DATA, 0, 1, &[0; 16_385])].concat(), Ends(FRAME_SIZE)),
        ("HEADERS that are too large", frame(HEADERS, WHOLE, 1, &[0; 16_385]), Ends(FRAME_SIZE)),
        ("an even stream", asked(2), Ends(PROTOCOL)),
        ("a stream below one that was opened", [asked(5), asked(3)].concat(), Ends(PROTOCOL)),
        ("HEADERS of no stream", asked(0), Ends(PROTOCOL)),
        ("DATA of an idle stream", frame(DATA, END_STREAM, 1, b"x"), Ends(PROTOCOL)),
        ("RST_STREAM of an idle stream", frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), Ends(PROTOCOL)),
        ("WINDOW_UPDATE of an idle stream", frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 8]), Ends(PROTOCOL)),
        ("CONTINUATION", [opened.clone(), frame(CONTINUATION, END_HEADERS, 1, second)].concat(), Answered),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &get()), Ends(PROTOCOL)),
        ("CONTINUATION behind the end of fields", [begun(), frame(CONTINUATION, END_HEADERS, 1, &get())].concat(), Ends(PROTOCOL)),
        ("CONTINUATION of another stream", [opened.clone(), frame(CONTINUATION, END_HEADERS, 3, second)].concat(), Ends(PROTOCOL)),
        ("DATA within fields", [opened.clone(), frame(DATA, 0, 1, b"x")].concat(), Ends(PROTOCOL)),
        ("PING within fields", [opened.clone(), frame(PING, 0, 0, &[0; 8])].concat(), Ends(PROTOCOL)),
        ("an unknown kind within fields", [opened, frame(77, 0, 0, b"")].concat(), Ends(PROTOCOL)),
    ]);
}

/// RFC 9113, 6.1 to 6.9.
#[test]
fn w17_w18_frames_of_each_kind() {
    let settings = |id: u16, value: u32| frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat());
    let padded = [&[3][..], &get(), &[0; 3]].concat();
    let prioritized = [&[0, 0, 0, 3, 16][..], &get()].concat();
    run(&[
        ("DATA of no stream", frame(DATA, 0, 0, b"x"), Ends(PROTOCOL)),
        ("DATA padded beyond its end", [begun(), frame(DATA, PADDED, 1, &[5, 0, 0])].concat(), Ends(PROTOCOL)),
        ("HEADERS that are padded", frame(HEADERS, WHOLE | PADDED, 1, &padded), Answered),
        ("HEADERS padded beyond their end", frame(HEADERS, WHOLE | PADDED, 1, &[200, 0x82]), Ends(PROTOCOL)),
        ("HEADERS with a priority", frame(HEADERS, WHOLE | PRIORITIZED, 1, &prioritized), Answered),
        ("PRIORITY of an idle stream", [frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16]), asked(1)].concat(), Answered),
        ("PRIORITY of no stream", frame(PRIORITY, 0, 0, &[0, 0, 0, 3, 16]), Ends(PROTOCOL)),
        ("RST_STREAM of no stream", frame(RST_STREAM, 0, 0, &[0, 0, 0, 8]), Ends(PROTOCOL)),
        ("RST_STREAM of three bytes", [begun(), frame(RST_STREAM, 0, 1, &[0, 0, 8])].concat(), EndsUnnamed(FRAME_SIZE)),
        ("SETTINGS that nobody knows", [settings(0xff, 7), asked(1)].concat(), Answered),
        ("SETTINGS of a stream", frame(SETTINGS, 0, 1, b""), Ends(PROTOCOL)),
        ("SETTINGS of five bytes", frame(SETTINGS, 0, 0, &[0; 5]), EndsUnnamed(FRAME_SIZE)),
        ("an acknowledgement with content", frame(SETTINGS, ACK, 0, &[0; 6]), EndsUnnamed(FRAME_SIZE)),
        ("ENABLE_PUSH of two", settings(2, 2), Ends(PROTOCOL)),
        ("INITIAL_WINDOW_SIZE beyond what there is", settings(4, 0x8000_0000), EndsUnnamed(FLOW_CONTROL)),
        ("MAX_FRAME_SIZE that is too small", settings(5, 16_383), Ends(PROTOCOL)),
        ("MAX_FRAME_SIZE that is too large", settings(5, 1 << 24), Ends(PROTOCOL)),
        ("PUSH_PROMISE of a client", [begun(), frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])].concat(), Ends(PROTOCOL)),
        ("PING of a stream", frame(PING, 0, 1, &[0; 8]), Ends(PROTOCOL)),
        ("PING of seven bytes", frame(PING, 0, 0, &[0; 7]), EndsUnnamed(FRAME_SIZE)),
        ("an answer to no PING", [frame(PING, ACK, 0, &[1; 8]), asked(1)].concat(), Answered),
        ("GOAWAY of a stream", frame(GOAWAY, 0, 1, &[0; 8]), Ends(PROTOCOL)),
        ("WINDOW_UPDATE of nothing", frame(WINDOW_UPDATE, 0, 0, &[0; 4]), Ends(PROTOCOL)),
        ("WINDOW_UPDATE of three bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), EndsUnnamed(FRAME_SIZE)),
        ("a window beyond what there is", frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]), Ends(FLOW_CONTROL)),
        (
            "a stream's window beyond what there is",
            [begun(), frame(WINDOW_UPDATE, 0, 1, &[0x7f, 255, 255, 255])].concat(),
            Resets(FLOW_CONTROL),
        ),
    ]);
}

/// A PING is answered with the bytes that it had (RFC 9113, 6.7), SETTINGS with an acknowledgement (6.5.3).
#[test]
fn what_is_to_be_acknowledged_is() {
    let root = Root::with_index();
    let server = Server::run(&Configuration::of(&root.path()).server_also("http2_cleartext = true\nworkers = 1"));
    let mut client = RawHttp2::connect(server.address(), &[(4, 1)]);
    assert!(client.until(PATIENCE, |frame| frame.kind == SETTINGS && frame.flags == ACK && frame.payload.is_empty()).is_ok());
    assert!(client.send(&frame(PING, 0, 0, b"opaque!!")));
    assert!(client.until(PATIENCE, |frame| frame.kind == PING && frame.flags == ACK && frame.payload == b"opaque!!").is_ok());
    // The window that it asked for has room for one byte.
    client.get(1, "/");
    let content = client.until(PATIENCE, |frame| frame.kind == DATA).unwrap();
    assert_eq!(content.payload.len(), 1);
}

/// RFC 7541, 2.3.3, 4.2, 5.1, 5.2 and 6.
#[test]
fn w10_blocks_of_hpack() {
    // `:method`, `:scheme` and `:path` of the static table, and `:authority` by a name of it.
    let short = [0x82, 0x86, 0x84, 0x01, 1, b'a'];
    // `www.example.com` as appendix C.4.1 codes it.
    let coded: [u8; 12] = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
    let host = |value: &[u8]| [&[0x82, 0x86, 0x84, 0x01, 0x80 | u8::try_from(value.len()).unwrap()][..], value].concat();
    run(&[
        ("fields of the static table", of_hpack(&short), Answered),
        ("a value in the code of Huffman", of_hpack(&host(&coded)), Answered),
        ("a field that is kept, and asked for", with_hpack(&[0x40, 1, b'x', 1, b'y', 0xbe]), Answered),
        ("a field that never is kept", with_hpack(&[0x10, 1, b'x', 1, b'y']), Answered),
        ("a smaller table", of_hpack(&[&[0x20][..], &short].concat()), Answered),
        ("index 0", with_hpack(&[0x80]), EndsUnnamed(COMPRESSION)),
        ("an index that nobody filled", with_hpack(&[0xbe]), EndsUnnamed(COMPRESSION)),
        ("a name that nobody filled", with_hpack(&[0x7e, 1, b'x']), EndsUnnamed(COMPRESSION)),
        ("a table that is too large", of_hpack(&[&[0x3f, 0xe2, 0x1f][..], &short].concat()), EndsUnnamed(COMPRESSION)),
        ("a size of the table behind fields", with_hpack(&[0x20]), EndsUnnamed(COMPRESSION)),
        ("an integer without an end", with_hpack(&[0xff; 12]), EndsUnnamed(COMPRESSION)),
        ("a text without an end", with_hpack(&[0, 1, b'x', 9, b'y']), EndsUnnamed(COMPRESSION)),
        ("padding of eight bits", of_hpack(&host(&[&coded[..], &[0xff]].concat())), EndsUnnamed(COMPRESSION)),
        ("padding of zeros", of_hpack(&host(&[0x18])), EndsUnnamed(COMPRESSION)),
        ("the code's own end", of_hpack(&host(&[0xff; 4])), EndsUnnamed(COMPRESSION)),
        ("a field without a name", with_hpack(&block(&[("", "x")])), Ends(PROTOCOL)),
        ("nothing of a request", frame(HEADERS, WHOLE, 1, b""), Resets(PROTOCOL)),
        ("PRIORITY alone", frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 16]), Ignored),
    ]);
}
