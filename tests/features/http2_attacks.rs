//! Clients of HTTP/2 that mean harm: what they hold, and what others notice of it. Cases W02, W03, W05, W16; more of them stand in `http2`.

use crate::http2_frames::{DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, RawHttp2, WINDOW_UPDATE, asks, frame};
use crate::slow::memory;
use crate::support::{Configuration, PATIENCE, Root, Server};

const CONTINUATION: u8 = 9;
const REFUSED_STREAM: u32 = 7;

/// Memory in KiB that one client may cost beside what there was before.
const LITTLE: usize = 16 * 1024;

fn service(root: &Root) -> Server {
    Server::run(&Configuration::of(&root.path()).server_also("http2_cleartext = true\nworkers = 1"))
}

fn ends(frame: &Frame) -> bool {
    frame.kind == GOAWAY && frame.code() != 0
}

/// Requests that the server has to reset for what is wrong with them, each after it has begun to answer.
#[test]
fn w02_resets_that_the_server_is_made_to_send_count_as_the_clients() {
    let root = Root::with_index();
    let server = service(&root);
    let (workers, before) = (server.workers(), memory(&server));
    let mut client = RawHttp2::connect(server.address(), &[]);
    for number in 0..2_000 {
        let stream = number * 2 + 1;
        let asked = frame(HEADERS, END_HEADERS, stream, &asks("POST", "/", &[]));
        // What comes behind the end is read, for a while, and nothing is made of it.
        if !client.send(&[asked, frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat()) {
            break;
        }
    }
    let mut resets = 0;
    let end = client.until(PATIENCE, |frame| {
        resets += usize::from(frame.kind == RST_STREAM);
        ends(frame)
    });
    assert!(end.is_ok() && resets <= 200, "{resets} resets, then {end:?}");
    assert!(memory(&server) < before + LITTLE);
    server.must_be_well(&workers, "resets by the server");
}

/// Fields that never end.
#[test]
fn w03_continuations_without_an_end_are_cut() {
    let root = Root::with_index();
    let server = service(&root);
    let (workers, before) = (server.workers(), memory(&server));
    let mut client = RawHttp2::connect(server.address(), &[]);
    assert!(client.send(&frame(HEADERS, END_STREAM, 1, &asks("GET", "/", &[]))));
    let field = [&[0, 1, b'x', 100][..], &[b'y'; 100]].concat();
    for _ in 0..5_000 {
        // 50 MB, unless it ends before.
        if !client.send(&frame(CONTINUATION, 0, 1, &field.repeat(100))) {
            break;
        }
    }
    let end = client.until(PATIENCE, ends);
    assert!(end.is_ok(), "{end:?}");
    assert!(memory(&server) < before + LITTLE);
    server.must_be_well(&workers, "continuations");
}

/// A field of 4,000 bytes that is kept, and asked for 16,000 times: 64 MB of a few kilobytes.
#[test]
fn w05_fields_that_unpack_to_much_more_are_refused_before_they_are_held() {
    let root = Root::with_index();
    let server = service(&root);
    let (workers, before) = (server.workers(), memory(&server));
    let mut client = RawHttp2::connect(server.address(), &[]);
    // 4,000 - 127 = 3,873 = 33 + 30 * 128 (RFC 7541, 5.1)
    let kept = [&[0x40, 1, b'x', 127, 0x80 | 33, 30][..], &[b'y'; 4_000]].concat();
    assert!(client.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &[asks("GET", "/", &[]), kept].concat())));
    let first = client.until(PATIENCE, |frame| frame.kind == HEADERS && frame.stream == 1).unwrap();
    assert!(first.payload.contains(&0x88), "200: {first:?}");
    let bomb = [asks("GET", "/", &[]), vec![0xbe; 16_000]].concat();
    assert!(client.send(&frame(HEADERS, END_STREAM | END_HEADERS, 3, &bomb)));
    // It is told so, whichever way.
    let told = client.until(PATIENCE, |frame| frame.stream == 3 || ends(frame)).unwrap();
    assert!([HEADERS, RST_STREAM, GOAWAY].contains(&told.kind), "{told:?}");
    assert!(!(told.kind == HEADERS && told.payload.contains(&0x88)), "it was answered with 200");
    assert!(memory(&server) < before + LITTLE);
    server.must_be_well(&workers, "fields that unpack");
}

/// One request more than may be under way is refused, and may be sent again; those that are under way are not touched.
#[test]
fn w16_a_request_too_many_is_refused_and_the_others_go_on() {
    let root = Root::with_index();
    let server = service(&root);
    let mut client = RawHttp2::connect(server.address(), &[]);
    for number in 0..129_u32 {
        assert!(client.send(&frame(HEADERS, END_HEADERS, number * 2 + 1, &asks("POST", "/", &[]))));
    }
    let refused = client.until(PATIENCE, |frame| frame.kind == RST_STREAM || ends(frame)).unwrap();
    assert_eq!((refused.kind, refused.stream, refused.code()), (RST_STREAM, 257, REFUSED_STREAM));
    assert!(client.send(&frame(DATA, END_STREAM, 1, b"")));
    let answer = client.until(PATIENCE, |frame| frame.stream == 1 && frame.kind == HEADERS).unwrap();
    assert!(!answer.payload.is_empty());
    // There is room for one more now.
    client.get(301, "/");
    assert!(client.until(PATIENCE, |frame| frame.stream == 301 && frame.kind == HEADERS && frame.payload.contains(&0x88)).is_ok());
}
