//! Clients of HTTP/2 that mean harm: what they hold, and what others notice of it. Cases W02, W03, W05, W07 to W09, W16; more of them
//! stand in `http2`.

use crate::http2_frames::{DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, RawHttp2, WINDOW_UPDATE, asks, frame};
use crate::slow::memory;
use crate::support::{Configuration, PATIENCE, Root, Server};

const PRIORITY: u8 = 2;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 8;
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

/// The other ways to have the server reset what it has begun (CVE-2025-8671).
#[test]
fn w02_whatever_the_server_is_made_to_reset_for_counts() {
    let root = Root::with_index();
    let posts = |stream: u32| frame(HEADERS, END_HEADERS, stream, &asks("POST", "/", &[]));
    type Form = fn(u32) -> Vec<u8>;
    let forms: [(&str, Form); 5] = [
        ("a window beyond what there is", |stream| frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])),
        ("fields again and no end", |stream| frame(HEADERS, END_HEADERS, stream, &[0, 1, b'x', 1, b'y'])),
        ("a stream that depends on itself", |stream| frame(PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[16]].concat())),
        ("content behind the end", |stream| [frame(DATA, END_STREAM, stream, b"x"), frame(DATA, 0, stream, b"x")].concat()),
        ("an upper case among trailers", |stream| frame(HEADERS, END_STREAM | END_HEADERS, stream, &[0, 1, b'X', 1, b'y'])),
    ];
    for (name, makes) in forms {
        let server = service(&root);
        let (workers, before) = (server.workers(), memory(&server));
        let mut client = RawHttp2::connect(server.address(), &[]);
        for number in 0..2_000 {
            let stream = number * 2 + 1;
            if !client.send(&[posts(stream), makes(stream)].concat()) {
                break;
            }
        }
        let mut resets = 0;
        let end = client.until(PATIENCE, |frame| {
            resets += usize::from(frame.kind == RST_STREAM);
            ends(frame)
        });
        assert!(end.is_ok() && resets <= 200, "{name}: {resets} resets, then {end:?}");
        assert!(memory(&server) < before + LITTLE, "{name}");
        server.must_be_well(&workers, name);
    }
}

/// A window that is opened byte by byte (CVE-2019-9511): what one client gets so costs the others nothing, and is cut where it costs more
/// frames than it is worth.
#[test]
fn w07_windows_of_one_byte_cost_the_others_nothing() {
    let root = Root::with_index();
    root.file("large.bin", vec![b'x'; 1_000_000]);
    let server = service(&root);
    let (workers, before) = (server.workers(), memory(&server));
    let mut clients: Vec<RawHttp2> = (0..8).map(|_| RawHttp2::connect(server.address(), &[(4, 1)])).collect();
    for client in &mut clients {
        for stream in (1..40).step_by(2) {
            client.get(stream, "/large.bin");
        }
    }
    for round in 0..400 {
        let more: Vec<u8> = (1..40).step_by(2).flat_map(|stream| frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1])).collect();
        for client in &mut clients {
            client.send(&more);
        }
        if round % 50 == 0 {
            assert_eq!(server.get("/").status, 200);
        }
    }
    // 8,000 frames for as many bytes.
    assert!(clients.iter_mut().all(|client| client.until(PATIENCE, ends).is_ok()));
    assert!(memory(&server) < before + 4 * LITTLE, "{} KiB, {before} before", memory(&server));
    server.must_be_well(&workers, "windows of one byte");
}

/// Dependencies in a circle, and their change without end (CVE-2019-9513, CVE-2015-8659): nothing is made of them, nor held.
#[test]
fn w08_priorities_are_read_over_and_their_flood_ends() {
    let root = Root::with_index();
    let server = service(&root);
    let (workers, before) = (server.workers(), memory(&server));
    let depends = |stream: u32, on: u32| frame(PRIORITY, 0, stream, &[&on.to_be_bytes()[..], &[1]].concat());
    let mut client = RawHttp2::connect(server.address(), &[]);
    let circle: Vec<u8> = (0..50_u32).flat_map(|at| depends(2 * at + 1, 2 * ((at + 1) % 50) + 1)).collect();
    assert!(client.send(&circle));
    client.get(101, "/");
    assert!(client.until(PATIENCE, |frame| frame.stream == 101 && frame.kind == HEADERS && frame.payload.contains(&0x88)).is_ok());
    for _ in 0..2_000 {
        if !client.send(&circle) {
            break;
        }
    }
    assert!(client.until(PATIENCE, ends).is_ok());
    assert!(memory(&server) < before + LITTLE);
    server.must_be_well(&workers, "priorities");
}

/// Frames that carry nothing and say that more comes (CVE-2019-9518).
#[test]
fn w09_empty_frames_without_an_end_are_cut() {
    let root = Root::with_index();
    let posts = frame(HEADERS, END_HEADERS, 1, &asks("POST", "/", &[]));
    let opened = frame(HEADERS, END_STREAM, 1, &asks("GET", "/", &[]));
    let fields: Vec<u8> = (0..5_000_u32).flat_map(|number| frame(HEADERS, END_HEADERS, 2 * number + 1, b"")).collect();
    for (name, flood) in [
        ("DATA", [posts.clone(), frame(DATA, 0, 1, b"").repeat(20_000)].concat()),
        ("DATA of padding", [posts, frame(DATA, PADDED, 1, &[0]).repeat(20_000)].concat()),
        ("CONTINUATION", [opened, frame(CONTINUATION, 0, 1, b"").repeat(20_000)].concat()),
        ("HEADERS", fields),
    ] {
        let server = service(&root);
        let (workers, before) = (server.workers(), memory(&server));
        let mut client = RawHttp2::connect(server.address(), &[]);
        client.send(&flood);
        assert!(client.until(PATIENCE, ends).is_ok(), "{name}");
        assert!(memory(&server) < before + LITTLE, "{name}");
        server.must_be_well(&workers, name);
    }
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
