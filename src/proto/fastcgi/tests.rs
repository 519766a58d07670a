//! Records in both directions: what we send is read by a second reader, what comes is read whole and split at every byte.

use super::*;
use crate::proto::fault::Fault;

/// A record as a backend would send it.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let mut bytes = vec![1, kind, id.to_be_bytes()[0], id.to_be_bytes()[1], length[0], length[1], padding, 0];
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + usize::from(padding), 0xaa);
    bytes
}

fn end(app_status: u32, protocol: u8) -> Vec<u8> {
    let mut body = app_status.to_be_bytes().to_vec();
    body.extend_from_slice(&[protocol, 0, 0, 0]);
    record(END_REQUEST, 1, &body, 0)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<End>,
    reusable: bool,
}

/// Reads bytes that come in parts which end at `cuts`.
fn read_split(bytes: &[u8], cuts: &[usize]) -> Result<Answer, Fault> {
    let (mut decoder, mut answer, mut start) = (Decoder::default(), Answer::default(), 0);
    for &cut in cuts.iter().chain([&bytes.len()]) {
        let mut part = &bytes[start..cut];
        loop {
            match decoder.read(&mut part)? {
                Event::Stdout(data) => {
                    assert!(!data.is_empty());
                    answer.stdout.extend_from_slice(data);
                }
                Event::Stderr(data) => answer.stderr.extend_from_slice(data),
                Event::End(end) => assert!(answer.end.replace(end).is_none(), "ended twice"),
                Event::More => break assert!(part.is_empty()),
            }
        }
        start = cut;
    }
    answer.reusable = decoder.is_reusable();
    Ok(answer)
}

/// Whole, in two parts with every cut, and byte by byte: the outcome must be the same.
#[track_caller]
fn read(bytes: &[u8]) -> Result<Answer, Fault> {
    let whole = read_split(bytes, &[]);
    if bytes.len() < 2000 {
        for at in 0..=bytes.len() {
            assert_eq!(read_split(bytes, &[at]), whole, "split at {at}");
        }
    }
    assert_eq!(read_split(bytes, &(0..bytes.len()).collect::<Vec<_>>()), whole, "byte by byte");
    whole
}

#[track_caller]
fn refused(bytes: &[u8], why: &str) {
    assert_eq!(read(bytes).map_err(|fault| fault.why), Err(why));
}

const DONE: End = End { protocol: Protocol::Complete, app_status: 0 };

#[test]
fn an_answer_is_read_however_it_is_split() {
    let bytes = [
        record(STDERR, 1, b"one\ntw", 2),
        record(STDOUT, 1, b"Status: 404\r\n", 0),
        record(STDERR, 1, b"o\n", 255),
        record(STDOUT, 1, b"\r\npage", 7),
        record(STDERR, 1, b"", 0),
        record(STDOUT, 1, b"", 3),
        end(0, 0),
    ]
    .concat();
    let answer = read(&bytes).unwrap();
    assert_eq!(answer.stdout, b"Status: 404\r\n\r\npage");
    assert_eq!(answer.stderr, b"one\ntwo\n");
    assert_eq!((answer.end, answer.reusable), (Some(DONE), true));
}

#[test]
fn bodies_of_every_size_and_padding_are_exact() {
    // Ids of reports: 065.
    for size in [0, 1, 7, 8, 9, 31_592, 65_535] {
        for padding in [0, 1, 8, 254, 255] {
            let content: Vec<u8> = (0..=255u8).cycle().take(size).collect();
            let bytes = [record(STDOUT, 1, &content, padding), end(0, 0)].concat();
            let answer = read_split(&bytes, &[3, bytes.len() / 2]).unwrap();
            assert!(answer.stdout == content && answer.end == Some(DONE), "{size} bytes, {padding} of padding");
        }
    }
}

#[test]
fn content_lies_where_it_came() {
    let bytes = record(STDOUT, 1, b"abc", 0);
    let mut input = bytes.as_slice();
    let Ok(Event::Stdout(content)) = Decoder::default().read(&mut input) else { unreachable!("content comes") };
    assert_eq!(content.as_ptr(), bytes[HEADER..].as_ptr());
}

#[test]
fn b01_records_of_another_version_or_type_are_refused() {
    let mut bytes = record(STDOUT, 1, b"x", 0);
    for version in [0, 2, 255] {
        bytes[0] = version;
        refused(&bytes, "record of another version, or no record");
    }
    refused(b"HTTP/1.1 200 OK\r\n\r\n", "record of another version, or no record");
    for kind in [0, BEGIN_REQUEST, ABORT, PARAMS, STDIN, 8, 9, 12, 255] {
        refused(&record(kind, 1, b"x", 0), "record of a type that no backend sends");
        refused(&record(kind, 0, b"x", 0), "record of a type that no backend sends");
    }
}

#[test]
fn b02_records_of_other_requests_are_refused_and_those_of_the_connection_passed_over() {
    for id in [0, 2, 256, 257, 65_535] {
        for kind in [STDOUT, STDERR, END_REQUEST] {
            refused(&record(kind, id, b"12345678", 0), "record of another request");
        }
    }
    refused(&record(UNKNOWN_TYPE, 1, b"12345678", 0), "record of a type that no backend sends");
    let about = [record(UNKNOWN_TYPE, 0, b"12345678", 1), record(GET_VALUES_RESULT, 0, b"", 0)].concat();
    let answer = read(&[about.as_slice(), &record(STDOUT, 1, b"x", 0), &end(0, 0)].concat()).unwrap();
    assert_eq!((answer.stdout.as_slice(), answer.end), (b"x".as_slice(), Some(DONE)));
    let many = |count: u32| record(GET_VALUES_RESULT, 0, b"x", 0).repeat(usize::try_from(count).unwrap());
    assert!(read(&many(MANAGEMENT_MAX)).is_ok());
    refused(&many(MANAGEMENT_MAX + 1), "records without content beyond the limit");
}

#[test]
fn b04_empty_records_and_the_error_stream_have_limits() {
    let many = |count: u32| record(STDOUT, 1, b"", 255).repeat(usize::try_from(count).unwrap());
    assert!(read_split(&many(EMPTY_MAX), &[]).is_ok());
    assert_eq!(read_split(&many(EMPTY_MAX + 1), &[]).unwrap_err().why, "records without content beyond the limit");
    let full = usize::try_from(STDERR_MAX).unwrap() / 32_768;
    let mut stderr = record(STDERR, 1, &[b'x'; 32_768], 0).repeat(full);
    assert_eq!(read_split(&stderr, &[]).unwrap().stderr.len(), full * 32_768);
    stderr.extend_from_slice(&record(STDERR, 1, b"x", 0));
    assert_eq!(read_split(&stderr, &[]).unwrap_err().why, "error stream beyond the limit");
}

#[test]
fn b06_an_answer_that_stops_has_no_end_and_is_not_reusable() {
    let bytes = [record(STDOUT, 1, b"abc", 5), end(0, 0)].concat();
    for length in 0..bytes.len() {
        let answer = read_split(&bytes[..length], &[]).unwrap();
        assert!(answer.end.is_none() && !answer.reusable, "{length} bytes");
    }
}

#[test]
fn b18_ends_say_how_they_ended() {
    for (byte, protocol) in [
        (0, Protocol::Complete),
        (1, Protocol::CannotMultiplex),
        (2, Protocol::Overloaded),
        (3, Protocol::Other),
        (9, Protocol::Other),
        (255, Protocol::Other),
    ] {
        let answer = read(&end(0x0102_0304, byte)).unwrap();
        assert_eq!(answer.end, Some(End { protocol, app_status: 0x0102_0304 }));
    }
    for size in [0, 7, 9] {
        refused(&record(END_REQUEST, 1, &vec![0; size], 0), "end of request of a wrong size");
    }
}

#[test]
fn b19_what_comes_behind_the_end_is_refused() {
    let second = [end(0, 0), record(STDOUT, 1, b"of another", 0)].concat();
    refused(&second, "bytes behind the end of the answer");
    refused(&[end(0, 0).as_slice(), b"\0"].concat(), "bytes behind the end of the answer");
    let padded = record(END_REQUEST, 1, &[0; 8], 3);
    assert!(read(&padded).unwrap().reusable);
    let late = read_split(&padded[..padded.len() - 1], &[]).unwrap();
    assert!(late.end.is_some() && !late.reusable, "padding is still to come");
}

/// What a backend would read of our records: kind, content; every record checked.
fn records(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((&[version, kind, 0, id, high, low, padding, 0], rest)) = bytes.split_first_chunk::<HEADER>() {
        let content = usize::from(u16::from_be_bytes([high, low]));
        assert_eq!((version, id, (content + usize::from(padding)) % 8), (1, 1, 0));
        all.push((kind, rest[..content].to_vec()));
        bytes = &rest[content + usize::from(padding)..];
    }
    assert!(bytes.is_empty());
    all
}

/// Name-value pairs, read in the plainest way.
fn pairs(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fn length(bytes: &mut &[u8]) -> usize {
        let (&first, rest) = bytes.split_first().unwrap();
        if first < 128 {
            *bytes = rest;
            return usize::from(first);
        }
        let (four, rest) = bytes.split_first_chunk::<4>().unwrap();
        *bytes = rest;
        usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).unwrap()
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        all.push((bytes[..name].to_vec(), bytes[name..name + value].to_vec()));
        bytes = &bytes[name + value..];
    }
    all
}

fn params_of(given: &[(Vec<u8>, Vec<u8>)]) -> Vec<(u8, Vec<u8>)> {
    let mut out = b"before".to_vec();
    params(&mut out, given.iter().map(|(name, value)| (name.as_slice(), value.as_slice())));
    assert!(out.starts_with(b"before"));
    let all = records(&out[6..]);
    let (last, rest) = all.split_last().unwrap();
    assert_eq!(*last, (PARAMS, Vec::new()), "an empty record ends them");
    assert!(rest.iter().all(|(kind, content)| *kind == PARAMS && !content.is_empty() && content.len() <= CONTENT_MAX));
    let content: Vec<u8> = rest.iter().flat_map(|(_, content)| content.clone()).collect();
    assert_eq!(pairs(&content), given);
    all
}

#[test]
fn c12_parameters_of_any_length_arrive_as_they_were() {
    for name in [0, 1, 126, 127, 128, 129] {
        for value in [0, 1, 127, 128, 65_535, 65_536, 200_000] {
            params_of(&[(vec![b'n'; name], vec![b'v'; value]), (b"X".to_vec(), b"y".to_vec())]);
        }
    }
    assert_eq!(params_of(&[]).len(), 1);
    // A pair that fills a record to its last byte, and one beyond: a length of 1 + 4 bytes, a name of 1.
    let fill = |more: usize| vec![(b"n".to_vec(), vec![b'v'; CONTENT_MAX - 6 + more])];
    assert_eq!(params_of(&fill(0)).len(), 2);
    assert_eq!(params_of(&fill(1)).len(), 3);
}

#[test]
fn a_request_is_begun_fed_and_aborted() {
    for keep in [false, true] {
        let mut out = Vec::new();
        begin_request(&mut out, keep);
        assert_eq!(records(&out), [(BEGIN_REQUEST, vec![0, 1, u8::from(keep), 0, 0, 0, 0, 0])]);
    }
    for size in [1, 7, 8, 9, CONTENT_MAX - 1, CONTENT_MAX] {
        let (header, padding) = stdin(size);
        let body = vec![b'b'; size];
        assert_eq!(records(&[&header[..], &body, padding].concat()), [(STDIN, body)]);
    }
    assert_eq!(stdin(CONTENT_MAX + 1), stdin(CONTENT_MAX));
    assert_eq!(records(&STDIN_END), [(STDIN, Vec::new())]);
    assert_eq!(records(&ABORT_REQUEST), [(ABORT, Vec::new())]);
}
