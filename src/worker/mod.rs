//! CONFINED, network-facing: reads requests and answers them with files of its tree.
//!
//! One thread, one epoll loop, no blocking call but reading the files it serves. It may see the document roots, read-only,
//! and nothing else; it talks on sockets it was handed or accepted. A file per concern: `event_loop` waits and accepts,
//! `connection` is one client's bytes in and out, `state` what it waits for, `body` and `conclude` the bodies of its requests, `kept` and `spool` those that have to be whole first, `answer`
//! makes the response to one request, `resume` goes on with it behind a question to the disk, `named` sends what a backend named, `page` those that are no file, `parts` those that are parts of one (`boundary` tells them apart),
//! `listing` those that list a directory, `files` looks up and caches, `disk` and `waiting` ask for what would have to be waited for, `pending` is a request meanwhile,
//! `standing` which cached files need no look-up to be believed again, `served` is one file and its encoded forms, `encoding` which of them is sent, `encoder` makes them, `outgoing` what one has to send,
//! `segment` what follows a head, `response` writes heads, `log` batches lines, `timer` and `clock` keep time; `clients` counts who has
//! how many connections, and `admission` lets them in or not. `pace` says how fast a response may go. `transport` carries the bytes: `tls` over TLS,
//! of which `secured` says what is different; `http2` makes connections of streams.

#![forbid(unsafe_code)]

mod admission;
mod answer;
mod backend;
mod body;
mod boundary;
mod cache;
mod choice;
mod clients;
mod clock;
mod conclude;
mod connection;
mod counters;
mod disk;
mod encoder;
mod encoding;
mod event_loop;
mod fetched;
mod files;
mod handing;
mod http2;
mod kept;
mod known;
mod listing;
mod log;
mod login;
mod logins;
mod named;
mod outgoing;
mod pace;
mod page;
mod page_coding;
mod parts;
mod pending;
mod respond;
mod response;
mod resume;
mod secured;
#[allow(dead_code, reason = "what waits for a broker comes with its users")]
mod segment;
mod served;
mod spool;
mod standing;
mod state;
mod timer;
mod tls;
mod transport;
mod visit;
mod waiting;

use crate::config::WorkerSlice;
use crate::ipc::birth;
use crate::role::Role;

/// Runs the role until the parent stops it; the exit status.
pub fn run() -> u8 {
    match birth::begin::<WorkerSlice>(Role::Worker) {
        Ok(born) if born.cell.proof => {
            files::try_roots(&born);
            birth::prove(&born)
        }
        Ok(born) => event_loop::serve(born),
        Err(status) => status,
    }
}
