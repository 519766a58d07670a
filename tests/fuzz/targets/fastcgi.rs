//! FastCGI records: the same answer however it arrives, and parameters that read back as they were.

#![no_main]

use anchorite::proto::fastcgi::{self, Decoder, End, Event};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&step, data)) = data.split_first() else { return };
    let whole = read(data, data.len().max(1));
    for step in [1, usize::from(step % 23) + 1] {
        assert_eq!(read(data, step), whole, "in steps of {step}");
    }
    if let Some(answer) = whole {
        assert!(answer.reusable <= answer.end.is_some());
        if answer.reusable {
            assert_eq!(plainly(data), (answer.stdout, answer.stderr), "read in the plainest way");
        }
    }
    encode(data);
});

#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<End>,
    reusable: bool,
}

/// Hands in so many bytes at a time; `None` for what is refused.
fn read(data: &[u8], step: usize) -> Option<Answer> {
    let (mut decoder, mut answer) = (Decoder::default(), Answer::default());
    for mut part in data.chunks(step) {
        loop {
            match decoder.read(&mut part).ok()? {
                Event::Stdout(bytes) => answer.stdout.extend_from_slice(bytes),
                Event::Stderr(bytes) => answer.stderr.extend_from_slice(bytes),
                Event::End(end) => assert!(answer.end.replace(end).is_none(), "ended twice"),
                Event::More => break assert!(part.is_empty(), "asks for more before it has used what is there"),
            }
        }
    }
    answer.reusable = decoder.is_reusable();
    Some(answer)
}

/// The streams of an answer that was accepted to its end.
fn plainly(mut data: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some((header, rest)) = data.split_first_chunk::<8>() {
        let content = usize::from(u16::from_be_bytes([header[4], header[5]]));
        match header[1] {
            6 => stdout.extend_from_slice(&rest[..content]),
            7 => stderr.extend_from_slice(&rest[..content]),
            kind => assert!([3, 10, 11].contains(&kind), "type {kind}"),
        }
        data = &rest[content + usize::from(header[6])..];
    }
    assert!(data.is_empty());
    (stdout, stderr)
}

/// Parameters made of the data, one byte saying how long the next text is.
fn encode(mut data: &[u8]) {
    let mut texts = Vec::new();
    while let Some((&length, rest)) = data.split_first() {
        let length = usize::from(length) * usize::from(length) * 4;
        let (text, rest) = rest.split_at(rest.len().min(length));
        // Long ones cost the fuzzer too much to find.
        texts.push(if length > 60_000 { text.repeat(1000) } else { text.to_vec() });
        data = rest;
    }
    let pairs: Vec<(&[u8], &[u8])> = texts.chunks_exact(2).map(|pair| (pair[0].as_slice(), pair[1].as_slice())).collect();
    let mut out = Vec::new();
    fastcgi::params(&mut out, pairs.iter().copied());
    let mut content = Vec::new();
    let mut rest = out.as_slice();
    while let Some((header, after)) = rest.split_first_chunk::<8>() {
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        assert_eq!(length == 0, after.is_empty(), "only the last record is empty");
        content.extend_from_slice(&after[..length]);
        rest = &after[length + usize::from(header[6])..];
    }
    let mut rest = content.as_slice();
    for (name, value) in pairs {
        let lengths = [take_length(&mut rest), take_length(&mut rest)];
        assert_eq!(lengths, [name.len(), value.len()]);
        let (text, after) = rest.split_at(name.len() + value.len());
        assert_eq!(text, [name, value].concat());
        rest = after;
    }
    assert!(rest.is_empty());
}

fn take_length(bytes: &mut &[u8]) -> usize {
    if bytes[0] < 128 {
        let length = usize::from(bytes[0]);
        *bytes = &bytes[1..];
        return length;
    }
    let (four, rest) = bytes.split_first_chunk::<4>().expect("four bytes of a length");
    *bytes = rest;
    usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).expect("64 bits")
}
