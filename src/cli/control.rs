//! `anchorite reload`, `stop`, `reopen`, `status`: an order to the service that runs, and its answer.

use crate::config;
use crate::ipc::control::{self, Order, PACKET_MAX};
use crate::sys::{clock, socket};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Sends the order to the service whose control socket `file` names; 0 only when the service did it.
pub(super) fn main(file: &Path, order: Order) -> u8 {
    let outcome = match config::control_socket(file) {
        Ok(Some(path)) => ask(&path, order),
        Err(why) => Err(format!("{}: {why}", file.display())),
        Ok(None) => Err(format!("anchorite: {} says that there is no control socket", file.display())),
    };
    match outcome {
        Ok(text) => {
            say!("{text}");
            0
        }
        Err(why) => {
            complain!("{why}");
            1
        }
    }
}

pub(super) fn ask(path: &Path, order: Order) -> Result<String, String> {
    let fault = |what: &str, fault: &dyn std::fmt::Display| format!("anchorite: {what} \"{}\": {fault}", path.display());
    let service = socket::connect_local(path).map_err(|errno| {
        let nobody = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused].contains(&errno.kind());
        fault(if nobody { "no service runs: connect" } else { "connect" }, &errno)
    })?;
    const TURNED_AWAY: &str = "the service ended, or has too many askers";
    socket::send_packet(&service, &order.encode()).map_err(|errno| {
        let turned_away = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset].contains(&errno.kind());
        if turned_away { fault("order to", &TURNED_AWAY) } else { fault("order to", &errno) }
    })?;
    let mut text = Vec::new();
    let done = answer(&service, limit_ms(order), &mut text).map_err(|errno| fault("answer from", &errno))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    match done {
        Some(false) => Err(text),
        // The end of the connection without a word is an answer to `stop`, if nobody listens any more.
        None if order != Order::Stop => Err(fault("no answer from", &TURNED_AWAY)),
        None | Some(true) if order == Order::Stop => wait_for_end(path).map(|()| "stopped".to_owned()),
        None | Some(true) => Ok(text),
    }
}

/// Takes an answer into `text`; whether the order was carried out, `None`: the service closed the connection.
fn answer(service: &OwnedFd, limit_ms: Option<u64>, text: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let deadline = limit_ms.map(|limit| clock::monotonic_ms() + limit);
    let mut buffer = vec![0; PACKET_MAX];
    loop {
        let left = deadline.map(|deadline| deadline.saturating_sub(clock::monotonic_ms()));
        if left == Some(0) || text.len() > ANSWER_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "none in time; see the error log"));
        }
        if !socket::wait_for_packet(service, left)? {
            continue;
        }
        let length = match socket::receive_packet(service, &mut buffer) {
            Err(errno) if errno.kind() != io::ErrorKind::ConnectionReset => return Err(errno),
            result => result.unwrap_or(0),
        };
        if length == 0 {
            return Ok(None);
        }
        let packet = buffer.get(..length).ok_or(io::ErrorKind::InvalidData)?;
        if let Some(done) = control::take(packet, text) {
            return Ok(Some(done));
        }
    }
}

/// Returns when nobody listens at the control socket any more, the last thing that an ending service takes away.
fn wait_for_end(path: &Path) -> Result<(), String> {
    let deadline = clock::monotonic_ms() + END_MS;
    while socket::connect_local(path).is_ok() {
        if clock::monotonic_ms() > deadline {
            return Err(format!("anchorite: a service still listens at \"{}\"", path.display()));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(())
}

/// How long an answer may take, in milliseconds. To stop, transfers may take as long as the configuration lets them.
const fn limit_ms(order: Order) -> Option<u64> {
    match order {
        Order::Reload => Some(60_000),
        Order::Reopen | Order::Status { .. } => Some(5_000),
        Order::Stop => None,
    }
}

/// How long a service may take from its last word to its end.
const END_MS: u64 = 5_000;

/// Longest answer in bytes: a status of very many generations and workers.
const ANSWER_MAX: usize = 16 << 20;
