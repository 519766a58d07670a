//! F45 from outside: what the grammar refuses the server refuses, what it accepts is answered.

use crate::grammar::{self, Verdict};
use crate::mutation::{Random, mutated};
use crate::support::{Client, Root, Server, shown};
use crate::{everything, seeds};

/// What the first response to these bytes, and an end behind them, has to be.
fn expected(bytes: &[u8]) -> (String, &'static [u16]) {
    match grammar::read(bytes) {
        // 400 is for paths that climb out or have a broken escape, 501 for methods that nobody knows.
        Verdict::Message(message) => (String::from_utf8(message.method).unwrap(), &[200, 204, 301, 400, 404, 405, 501]),
        // A client that holds its body back is answered without it, whole or not.
        Verdict::None if bytes.windows(8).any(|eight| eight.eq_ignore_ascii_case(b"continue")) => {
            ("GET".to_owned(), &[200, 204, 301, 400, 404, 405, 413, 414, 417, 431, 501, 505])
        }
        Verdict::None => ("GET".to_owned(), &[400, 413, 414, 417, 431, 501, 505]),
    }
}

/// Sends the bytes and an end; what was wrong with the first answer, and how many there were.
fn play(mut client: Client, bytes: &[u8]) -> Result<usize, String> {
    let _ = client.try_send(bytes);
    client.half_close();
    let (method, statuses) = expected(bytes);
    // Nothing but a line end was sent.
    if b"\r\n".starts_with(bytes) {
        return client.rest().map(|rest| rest.len());
    }
    let first = client.try_response(&method)?;
    if !statuses.contains(&first.status) {
        return Err(format!("{} is not one of {statuses:?}", first.status));
    }
    let mut count = 1;
    let mut rest = bytes;
    let mut closed = first.closes();
    while !closed {
        let Verdict::Message(message) = grammar::read(rest) else { break };
        rest = &rest[message.length..];
        if b"\r\n".starts_with(rest) {
            break;
        }
        let response = client.try_response(&expected(rest).0)?;
        closed = response.closes();
        count += 1;
    }
    let more = client.rest()?;
    if more.is_empty() { Ok(count) } else { Err(format!("after {count} responses came {}", shown(&more))) }
}

#[test]
fn f45_the_server_refuses_what_the_grammar_refuses_and_answers_the_rest() {
    let root = Root::with_index();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let (seeds, mut random) = (seeds::seeds(), Random::new(SEED));
    let (mut wrong, mut responses) = (Vec::new(), 0);
    println!("seed {SEED:#x}");
    for _ in 0..if everything() { 5_000 } else { 1_000 } {
        let bytes = mutated(&seeds, &mut random);
        match play(server.connect(), &bytes) {
            Ok(count) => responses += count,
            Err(fault) => wrong.push(format!("{fault}: {}", shown(&bytes))),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    server.must_be_well(&workers, "mutations");
    assert_eq!(server.wait_for_access_lines(responses + 1).len(), responses + 1, "one access line for each response");
}

const SEED: u64 = 0x50c4_e75f_4500_2026;
