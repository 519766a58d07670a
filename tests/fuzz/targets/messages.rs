//! Messages of every pair of roles: what is taken has one encoding only, and that is within its limit.

#![no_main]

use anchorite::config::{self, LogSlice, WorkerSlice};
use anchorite::ipc::control::{self, Order};
use anchorite::ipc::messages::{Message, ToLog, ToParent, ToWorker};
use anchorite::ipc::{auth, connect, disk, keys, run, spool};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, packet)) = data.split_first() else { return };
    match kind % 17 {
        0 => one_encoding::<ToWorker>(packet),
        1 => one_encoding::<ToLog>(packet),
        2 => one_encoding::<ToParent>(packet),
        3 => {
            if let Some(order) = Order::decode(packet) {
                assert_eq!(order.encode(), packet);
            }
            let mut text = Vec::new();
            control::take(packet, &mut text);
            assert!(text.len() <= packet.len());
            answers(packet);
        }
        // Slices come from the parent alone, and yet must not bring a role down in any other way than by being refused.
        4 => drop(config::decode::<WorkerSlice>(packet)),
        5 => drop(config::decode::<LogSlice>(packet)),
        6 => one_encoding::<run::Request>(packet),
        7 => one_encoding::<keys::Request>(packet),
        8 => one_encoding::<keys::Reply>(packet),
        9 => one_encoding::<disk::Request>(packet),
        10 => one_encoding::<disk::Reply>(packet),
        11 => one_encoding::<spool::Request>(packet),
        12 => one_encoding::<spool::Reply>(packet),
        13 => one_encoding::<connect::Request>(packet),
        14 => one_encoding::<auth::Request>(packet),
        15 => one_encoding::<auth::Reply>(packet),
        _ => one_encoding::<connect::Reply>(packet),
    }
});

fn one_encoding<M: Message>(packet: &[u8]) {
    if let Some(message) = M::decode(packet) {
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(again, packet);
        assert!(packet.len() <= M::LENGTH_MAX);
        message.descriptors();
    }
}

/// An answer in packets is the answer again when they are taken one by one.
fn answers(text: &[u8]) {
    let text = String::from_utf8_lossy(text).into_owned();
    for outcome in [Ok(text.clone()), Err(text)] {
        let packets = control::packets(&outcome);
        let (mut taken, mut done) = (Vec::new(), None);
        for packet in &packets {
            assert!(done.is_none() && packet.len() <= control::PACKET_MAX);
            done = control::take(packet, &mut taken);
        }
        let taken = String::from_utf8(taken).expect("text stays text");
        assert_eq!(if done == Some(true) { Ok(taken) } else { Err(taken) }, outcome);
    }
}
