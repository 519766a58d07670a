//! Every message, one enum per pair of roles and direction, with its exact encoding.
//!
//! The first byte is the tag; integers are little-endian; a packet of any other length than its tag has is malformed.

use super::counters::Totals;
use super::lines;
use crate::config::{ADDRESSES_MAX, Level};
use crate::role::Role;
use crate::sys::socket::DESCRIPTORS_MAX;

/// A message that can go over a channel.
pub trait Message: Sized {
    /// Longest encoding in bytes.
    const LENGTH_MAX: usize;
    /// Appends the encoding.
    fn encode(&self, packet: &mut Vec<u8>);
    /// `None`: malformed.
    fn decode(packet: &[u8]) -> Option<Self>;
    /// How many descriptors must come with it, no more and no fewer.
    fn descriptors(&self) -> usize;
}

/// From `parent` to `worker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToWorker {
    /// The listening sockets, in the order of the configuration. Comes once, when the parent has verified the worker.
    Listen { count: u8 },
    /// A new channel to `log`, which was replaced.
    Log,
    /// Report the counters.
    Report,
    /// The worker of this number has died at this moment (monotonic milliseconds, never twice the same).
    Gone { worker: u16, moment: u64, death: Death },
    /// A new `files` serves: what the one before took and did not answer is lost.
    Files,
    /// What is stopped soon goes on accepting from these listeners, by their places in the order they came in: they get no new
    /// connections, and those that wait in them are not lost.
    Linger { listeners: u64 },
    /// A new `connect` serves, likewise.
    Connect,
    /// A new `spool` serves: what the one before kept is lost.
    Spool,
    /// `spawn` has ended, and with it every program; what it took and did not answer is lost.
    Spawn,
    /// Accept no more; finish what runs within this time, then exit. Without `idle`, connections that wait for a next request
    /// may still send it, and are closed behind its response: a newer generation serves, and no client should see a reset.
    Stop { grace_ms: u32, idle: bool },
}

/// How a worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// As it was told to, with everything put in order.
    Orderly,
    /// By somebody, or by an error that it noticed.
    Ended,
    /// By a fault of its own: a signal for what it did, or a panic.
    Fault,
}

/// From `parent` to `log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToLog {
    /// Logs, by the numbers that workers know them by; each takes the place of one that has its number.
    Files { numbers: Vec<u16> },
    /// The logs that came since the last such message are all there are. Error lines go to `error`; those less severe than
    /// `level` are dropped. Unless it is `shared`, no access lines go there: a hijacked worker shall not write error lines that
    /// look like another's.
    InForce { level: Level, error: u16, shared: bool },
    /// A new socket to syslog.
    Syslog,
    /// The channel of a worker, or of another role that has error lines.
    Channel { worker: u16, role: Role },
    /// A process was ended by SIGSYS: say for which system call, from the kernel's log.
    Refused { pid: u32 },
    /// Write what the channels still hold, then exit.
    Stop,
}

/// From `parent` to `files`, `connect` and `spool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToFiles {
    /// The channel of a worker; the other `files` hold it too.
    Channel { worker: u16 },
    /// End when the channels have.
    Stop,
}

/// From `parent` to `spawn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToSpawn {
    /// Run these programs from now on, and no others: a sealed memory file.
    Programs,
    /// A channel to `log`.
    Log,
    /// A worker that may have programs run for requests: the channel that it asks over, that which it is answered over, and which
    /// programs those are, in a sealed memory file.
    Channel { worker: u16 },
    /// Have the programs end, then exit.
    Stop,
}

/// From a confined role to `parent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToParent {
    /// The start failed; comes only before `Ready`, from a process that has read nothing but its slice. Printable text.
    Failed { why: String },
    /// Confined and ready to serve. Comes once; `missing` has a bit for each layer that is missing and may be.
    Ready { missing: u8 },
    /// Only from a process that proves the sandbox: whether an attempt to get out worked, and which; `missing` as in `Ready`.
    Proved { missing: u8, escape: Option<u8> },
    /// Only from a worker that was asked: what all workers count.
    Counters(Totals),
    /// Only from a worker that proves the sandbox: the directory of this number cannot be looked into.
    Unusable { directory: u16, errno: i32 },
    /// Only from `log` and brokers: a worker sent something malformed.
    Malformed { worker: u16 },
    /// Only from a worker: one of its `files` sent something malformed; which, it cannot tell.
    MalformedFiles,
    /// Only from a worker: `connect` sent something malformed.
    MalformedConnect,
    /// Only from a worker: `spool` did.
    MalformedSpool,
    /// Only from a worker: its `keys` did.
    MalformedKeys,
    /// Only from a worker: `auth` did.
    MalformedAuth,
    /// Only from `log`: lines that could not be written since the last such message, the last of them to `file` for the reason
    /// `errno`.
    Lost { lines: u32, file: u16, errno: u16 },
    /// Only from `log`: nobody listens any more at the socket to syslog, and it may make no other.
    NoSyslog,
    /// Only from `spawn`: the sockets of the programs it was told of are there, as far as they could be made.
    Begun,
}

impl Message for ToWorker {
    const LENGTH_MAX: usize = 12;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            ToWorker::Listen { count } => packet.extend([1, *count]),
            ToWorker::Log => packet.push(2),
            ToWorker::Report => packet.push(4),
            ToWorker::Gone { worker, moment, death } => {
                packet.extend([5, *death as u8]);
                packet.extend(worker.to_le_bytes());
                packet.extend(moment.to_le_bytes());
            }
            ToWorker::Files => packet.push(6),
            ToWorker::Linger { listeners } => {
                packet.push(7);
                packet.extend(listeners.to_le_bytes());
            }
            ToWorker::Connect => packet.push(8),
            ToWorker::Spool => packet.push(9),
            ToWorker::Spawn => packet.push(10),
            ToWorker::Stop { grace_ms, idle } => {
                packet.extend([3, u8::from(*idle)]);
                packet.extend(grace_ms.to_le_bytes());
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<ToWorker> {
        match *packet {
            [1, count] if count > 0 => Some(ToWorker::Listen { count }),
            [2] => Some(ToWorker::Log),
            [4] => Some(ToWorker::Report),
            [6] => Some(ToWorker::Files),
            [8] => Some(ToWorker::Connect),
            [9] => Some(ToWorker::Spool),
            [10] => Some(ToWorker::Spawn),
            [5, death @ 0..=2, a, b, ref moment @ ..] => Some(ToWorker::Gone {
                worker: u16::from_le_bytes([a, b]),
                moment: u64::from_le_bytes(moment.try_into().ok()?),
                death: [Death::Orderly, Death::Ended, Death::Fault].into_iter().nth(death.into())?,
            }),
            [7, ref listeners @ ..] => Some(ToWorker::Linger { listeners: u64::from_le_bytes(listeners.try_into().ok()?) }),
            [3, idle @ 0..=1, a, b, c, d] => Some(ToWorker::Stop { grace_ms: u32::from_le_bytes([a, b, c, d]), idle: idle == 1 }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        match self {
            ToWorker::Listen { count } => usize::from(*count),
            ToWorker::Log => 1,
            ToWorker::Report
            | ToWorker::Gone { .. }
            | ToWorker::Files
            | ToWorker::Connect
            | ToWorker::Spool
            | ToWorker::Spawn
            | ToWorker::Linger { .. }
            | ToWorker::Stop { .. } => 0,
        }
    }
}

impl Message for ToLog {
    const LENGTH_MAX: usize = 1 + 2 * FILES_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            ToLog::Files { numbers } => {
                packet.push(1);
                packet.extend(numbers.iter().take(FILES_MAX).flat_map(|number| number.to_le_bytes()));
            }
            ToLog::Channel { worker, role } => {
                packet.extend([2, role.tag()]);
                packet.extend(worker.to_le_bytes());
            }
            ToLog::Stop => packet.push(3),
            ToLog::InForce { level, error, shared } => {
                packet.extend([4, lines::tag(*level), u8::from(*shared)]);
                packet.extend(error.to_le_bytes());
            }
            ToLog::Syslog => packet.push(5),
            ToLog::Refused { pid } => {
                packet.push(6);
                packet.extend(pid.to_le_bytes());
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<ToLog> {
        match *packet {
            [1, ref numbers @ ..] if !numbers.is_empty() && numbers.len() <= 2 * FILES_MAX => {
                let (numbers, odd) = numbers.as_chunks::<2>();
                odd.is_empty().then(|| ToLog::Files { numbers: numbers.iter().map(|number| u16::from_le_bytes(*number)).collect() })
            }
            [2, role, a, b] => Some(ToLog::Channel { worker: u16::from_le_bytes([a, b]), role: Role::from_tag(role)? }),
            [3] => Some(ToLog::Stop),
            [4, level, shared @ 0..=1, a, b] => {
                Some(ToLog::InForce { level: lines::level(level)?, shared: shared == 1, error: u16::from_le_bytes([a, b]) })
            }
            [5] => Some(ToLog::Syslog),
            [6, a, b, c, d] => Some(ToLog::Refused { pid: u32::from_le_bytes([a, b, c, d]) }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        match self {
            ToLog::Files { numbers } => numbers.len(),
            ToLog::Channel { .. } | ToLog::Syslog => 1,
            ToLog::InForce { .. } | ToLog::Refused { .. } | ToLog::Stop => 0,
        }
    }
}

impl Message for ToFiles {
    const LENGTH_MAX: usize = 3;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            ToFiles::Channel { worker } => {
                packet.push(1);
                packet.extend(worker.to_le_bytes());
            }
            ToFiles::Stop => packet.push(2),
        }
    }

    fn decode(packet: &[u8]) -> Option<ToFiles> {
        match *packet {
            [1, a, b] => Some(ToFiles::Channel { worker: u16::from_le_bytes([a, b]) }),
            [2] => Some(ToFiles::Stop),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        match self {
            ToFiles::Channel { .. } => 1,
            ToFiles::Stop => 0,
        }
    }
}

impl Message for ToSpawn {
    const LENGTH_MAX: usize = 3;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            ToSpawn::Programs => packet.push(1),
            ToSpawn::Log => packet.push(2),
            ToSpawn::Stop => packet.push(3),
            ToSpawn::Channel { worker } => {
                packet.push(4);
                packet.extend(worker.to_le_bytes());
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<ToSpawn> {
        match *packet {
            [1] => Some(ToSpawn::Programs),
            [2] => Some(ToSpawn::Log),
            [3] => Some(ToSpawn::Stop),
            [4, a, b] => Some(ToSpawn::Channel { worker: u16::from_le_bytes([a, b]) }),
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        match self {
            ToSpawn::Programs | ToSpawn::Log => 1,
            ToSpawn::Channel { .. } => 3,
            ToSpawn::Stop => 0,
        }
    }
}

impl Message for ToParent {
    const LENGTH_MAX: usize = 1 + WHY_MAX;

    fn encode(&self, packet: &mut Vec<u8>) {
        match self {
            ToParent::Ready { missing } => packet.extend([1, *missing]),
            ToParent::Proved { missing, escape } => packet.extend([2, *missing, escape.unwrap_or(NO_ESCAPE)]),
            ToParent::Unusable { directory, errno } => {
                packet.push(7);
                packet.extend(directory.to_le_bytes());
                packet.extend(errno.to_le_bytes());
            }
            ToParent::Malformed { worker } => {
                packet.push(3);
                packet.extend(worker.to_le_bytes());
            }
            ToParent::Lost { lines, file, errno } => {
                packet.push(4);
                packet.extend(lines.to_le_bytes());
                packet.extend(file.to_le_bytes());
                packet.extend(errno.to_le_bytes());
            }
            ToParent::Counters(totals) => {
                packet.push(6);
                totals.counters.iter().chain(&totals.gauges).for_each(|value| packet.extend(value.to_le_bytes()));
            }
            ToParent::NoSyslog => packet.push(8),
            ToParent::Begun => packet.push(12),
            ToParent::MalformedFiles => packet.push(9),
            ToParent::MalformedConnect => packet.push(10),
            ToParent::MalformedSpool => packet.push(11),
            ToParent::MalformedKeys => packet.push(13),
            ToParent::MalformedAuth => packet.push(14),
            ToParent::Failed { why } => {
                packet.push(5);
                packet.extend(why.bytes().filter(|byte| is_printable(*byte)).take(WHY_MAX));
            }
        }
    }

    fn decode(packet: &[u8]) -> Option<ToParent> {
        match *packet {
            [1, missing] if missing < 8 => Some(ToParent::Ready { missing }),
            [2, missing, escape] if missing < 8 => Some(ToParent::Proved { missing, escape: (escape != NO_ESCAPE).then_some(escape) }),
            [3, a, b] => Some(ToParent::Malformed { worker: u16::from_le_bytes([a, b]) }),
            [4, a, b, c, d, e, f, g, h] => Some(ToParent::Lost {
                lines: u32::from_le_bytes([a, b, c, d]),
                file: u16::from_le_bytes([e, f]),
                errno: u16::from_le_bytes([g, h]),
            }),
            [7, a, b, c, d, e, f] => {
                Some(ToParent::Unusable { directory: u16::from_le_bytes([a, b]), errno: i32::from_le_bytes([c, d, e, f]) })
            }
            [6, ref values @ ..] => decode_totals(values).map(ToParent::Counters),
            [8] => Some(ToParent::NoSyslog),
            [9] => Some(ToParent::MalformedFiles),
            [10] => Some(ToParent::MalformedConnect),
            [11] => Some(ToParent::MalformedSpool),
            [13] => Some(ToParent::MalformedKeys),
            [14] => Some(ToParent::MalformedAuth),
            [12] => Some(ToParent::Begun),
            [5, ref why @ ..] if why.len() <= WHY_MAX && why.iter().all(|byte| is_printable(*byte)) => {
                Some(ToParent::Failed { why: why.iter().copied().map(char::from).collect() })
            }
            _ => None,
        }
    }

    fn descriptors(&self) -> usize {
        0
    }
}

fn decode_totals(bytes: &[u8]) -> Option<Totals> {
    let mut totals = Totals::default();
    let (values, rest) = bytes.as_chunks::<8>();
    if values.len() != totals.counters.len() + totals.gauges.len() || !rest.is_empty() {
        return None;
    }
    for (total, value) in totals.counters.iter_mut().chain(&mut totals.gauges).zip(values) {
        *total = u64::from_le_bytes(*value);
    }
    Some(totals)
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Logs in one [`ToLog::Files`] at most: fewer than the descriptors that one packet may carry.
pub const FILES_MAX: usize = 60;

// One packet must hold the descriptors of a whole message: what is beyond is cut off, and the receiver ends.
const _: () = assert!(ADDRESSES_MAX <= DESCRIPTORS_MAX && FILES_MAX <= DESCRIPTORS_MAX);

/// In place of the number of an attempt: none worked.
const NO_ESCAPE: u8 = u8::MAX;

/// Longest reason of a failed start in bytes.
const WHY_MAX: usize = 400;

/// The packet of a message, which is read back from it and from no beginning of it.
#[cfg(test)]
pub(super) fn survives<M: Message + PartialEq + std::fmt::Debug>(message: &M) -> Vec<u8> {
    // The longest is mostly content, and its beginnings are all alike.
    const BEGINNINGS: usize = 4096;
    let mut packet = Vec::new();
    message.encode(&mut packet);
    assert!(packet.len() <= M::LENGTH_MAX);
    assert_eq!(M::decode(&packet).as_ref(), Some(message));
    for length in 0..packet.len().min(BEGINNINGS) {
        assert_ne!(M::decode(&packet[..length]).as_ref(), Some(message), "{length}");
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn round_trip<M: Message + PartialEq + Debug>(messages: &[M]) {
        for message in messages {
            let mut packet = Vec::new();
            message.encode(&mut packet);
            assert!(packet.len() <= M::LENGTH_MAX, "{message:?}");
            assert_eq!(M::decode(&packet).as_ref(), Some(message));
            packet.push(0);
            assert_eq!(M::decode(&packet), None, "a byte too many: {message:?}");
            packet.truncate(packet.len() - 2);
            assert_ne!(M::decode(&packet).as_ref(), Some(message), "a byte too few");
        }
    }

    #[test]
    fn every_message_survives_its_encoding_and_no_other_length_does() {
        round_trip(&[
            ToWorker::Listen { count: 3 },
            ToWorker::Log,
            ToWorker::Report,
            ToWorker::Gone { worker: 300, moment: u64::MAX - 1, death: Death::Fault },
            ToWorker::Gone { worker: 0, moment: 1, death: Death::Orderly },
            ToWorker::Files,
            ToWorker::Linger { listeners: 1 << 63 | 5 },
            ToWorker::Connect,
            ToWorker::Spool,
            ToWorker::Spawn,
            ToWorker::Stop { grace_ms: 70_000, idle: true },
        ]);
        round_trip(&[
            ToLog::Files { numbers: vec![0, 700] },
            ToLog::Files { numbers: vec![1; FILES_MAX] },
            ToLog::InForce { level: Level::Debug, error: 700, shared: true },
            ToLog::Channel { worker: 300, role: Role::Worker },
            ToLog::Channel { worker: 301, role: Role::Spawn },
            ToLog::Syslog,
            ToLog::Refused { pid: 70_000 },
            ToLog::Stop,
        ]);
        round_trip(&[ToFiles::Channel { worker: 300 }, ToFiles::Stop]);
        round_trip(&[ToSpawn::Programs, ToSpawn::Log, ToSpawn::Channel { worker: 300 }, ToSpawn::Stop]);
        round_trip(&[
            ToParent::Ready { missing: 5 },
            ToParent::Proved { missing: 1, escape: None },
            ToParent::Proved { missing: 0, escape: Some(7) },
        ]);
        round_trip(&[
            ToParent::Malformed { worker: 300 },
            ToParent::Lost { lines: 70_000, file: 700, errno: 28 },
            ToParent::NoSyslog,
            ToParent::MalformedFiles,
            ToParent::MalformedConnect,
            ToParent::MalformedSpool,
            ToParent::MalformedKeys,
            ToParent::MalformedAuth,
            ToParent::Begun,
        ]);
    }

    #[test]
    fn a_reason_is_printable_and_capped() {
        let mut packet = Vec::new();
        ToParent::Failed { why: format!("a\nb{}", "x".repeat(WHY_MAX)) }.encode(&mut packet);
        assert_eq!(packet.len(), ToParent::LENGTH_MAX);
        assert!(matches!(ToParent::decode(&packet), Some(ToParent::Failed { why }) if why.starts_with("abx")));
        packet.push(b'x');
        assert_eq!(ToParent::decode(&packet), None);
        assert_eq!(ToParent::decode(b"\x05a\nb"), None);
    }

    #[test]
    fn every_packet_of_up_to_three_bytes_is_decoded_or_refused() {
        for length in 0..=3 {
            for number in 0..1u32 << (8 * length) {
                let packet = &number.to_le_bytes()[..length];
                let mut again = Vec::new();
                if let Some(message) = ToParent::decode(packet) {
                    message.encode(&mut again);
                    assert_eq!(again, packet);
                }
                let _ = (ToWorker::decode(packet), ToLog::decode(packet), ToFiles::decode(packet));
            }
        }
    }
}
