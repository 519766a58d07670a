//! Log lines between worker and `log`: foreign bytes stay on their line and can be read back; a packet is taken whole or refused.

#![no_main]

use anchorite::config::Level;
use anchorite::ipc::lines::{self, Batch, LINE_MAX, Lines, PACKET_MAX};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut escaped = Vec::new();
    lines::escape(data, &mut escaped);
    assert!(escaped.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'"'));
    assert_eq!(unescape(&escaped), data);
    decode(data);
    batch(data);
    let packet = lines::error_packet(Level::Error, &String::from_utf8_lossy(data));
    assert!(matches!(Lines::decode(&packet), Some(Lines::Error(Level::Error, text)) if text.len() < LINE_MAX));
});

fn unescape(text: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((byte, after)) = rest.split_first() {
        if let Some([b'x', high, low, after @ ..]) = (*byte == b'\\').then_some(after) {
            let digit = |byte: u8| char::from(byte).to_digit(16).expect("two hexadecimal digits");
            bytes.push(u8::try_from(digit(*high) * 16 + digit(*low)).expect("a byte"));
            rest = after;
        } else {
            assert_ne!(*byte, b'\\');
            bytes.push(*byte);
            rest = after;
        }
    }
    bytes
}

/// A packet that a hijacked worker made.
fn decode(packet: &[u8]) {
    match Lines::decode(packet) {
        Some(Lines::Access(pieces)) => {
            for (_, text) in pieces {
                let lines = text.strip_suffix(b"\n").map(|lines| lines.split(|byte| *byte == b'\n'));
                for line in lines.into_iter().flatten() {
                    assert!(line.len() < LINE_MAX && line.iter().all(|byte| matches!(byte, b' '..=b'~')));
                }
            }
        }
        Some(Lines::Error(_, text)) => assert!(text.iter().all(|byte| matches!(byte, b' '..=b'~'))),
        None => {}
    }
    assert!(lines::lines_in(packet) <= packet.len().max(1));
}

/// What a worker batches arrives as it was, each line for its log.
fn batch(data: &[u8]) {
    let mut batch = Batch::default();
    let mut wanted: Vec<(u16, Vec<u8>)> = Vec::new();
    for (number, text) in data.split(|byte| *byte == b'\n').enumerate() {
        let file = u16::from(text.first().copied().unwrap_or(0) % 3);
        let mut line = Vec::new();
        lines::escape(text, &mut line);
        if number > 64 || batch.len() + line.len() > PACKET_MAX / 2 {
            break;
        }
        batch.line(file, |out| out.extend_from_slice(&line));
        lines::cut(&mut line, 0);
        line.push(b'\n');
        match wanted.last_mut() {
            Some((last, text)) if *last == file => text.extend_from_slice(&line),
            _ => wanted.push((file, line)),
        }
    }
    match Lines::decode(batch.packet()) {
        Some(Lines::Access(pieces)) => {
            assert_eq!(pieces.map(|(file, text)| (file, text.to_vec())).collect::<Vec<_>>(), wanted);
        }
        other => assert!(wanted.is_empty(), "{other:?}"),
    }
}
