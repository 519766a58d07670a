//! Who the clients are, over all workers: how many connections each has open, how many requests it may still send, and which of them are refused for a while.
//!
//! Runs in the `worker`, in the memory that all workers share; makes no system call. A client is an IPv4 address or the first 64 bits of an
//! IPv6 address. The table has a fixed size: a client belongs to one window of eight places, found by a keyed hash, and where those are
//! all taken it is let in without a limit, and counted as such, since a flood of sources must not shut out everybody else.
//!
//! Nothing has to be cleaned up: a place whose client has no connection, no penalty and sent nothing of late is free for another. Connections of a
//! worker that died are forgotten by a new epoch: counts belong to one, and the living workers enter their own anew.

use super::counters::{CLIENTS_COMMON, handled};
use crate::config::RequestRate;
use crate::sys::shared::{CLIENT_CELLS, COUNTER_CELLS, Shared};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};

/// The clients as one worker sees them.
pub(super) struct Clients {
    shared: Shared,
    /// Of the hash; the same for all workers of the service.
    key: [u64; 4],
    /// Under which this worker's connections are entered.
    epoch: u64,
    /// The cell that names the client whose request is handled.
    handled: usize,
    connections: u32,
}

/// A client as the table names it; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Client(u64);

/// A connection that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    client: Client,
    place: usize,
}

/// What becomes of a connection of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Counted(Seat),
    /// There was no place for its client.
    Uncounted,
    TooMany,
    /// For so many more milliseconds.
    Penalised(u64),
}

/// What was last said of refusals, and how many there were since.
#[derive(Default)]
pub(super) struct Refusals {
    pub(super) said: u64,
    pub(super) unsaid: u64,
}

impl Client {
    pub(super) fn of(address: IpAddr) -> Client {
        Client(match address.to_canonical() {
            IpAddr::V4(address) => V4 | u64::from(address.to_bits()),
            IpAddr::V6(address) => u64::try_from(address.to_bits() >> 64).unwrap_or(0).max(1),
        })
    }
}

/// What becomes of a request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    /// There was no place for its client.
    Uncounted,
    /// It is one too many for so many more milliseconds.
    Wait(u64),
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match u32::try_from(self.0 ^ V4) {
            Ok(v4) => write!(f, "{}", std::net::Ipv4Addr::from_bits(v4)),
            Err(_) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(self.0) << 64)),
        }
    }
}

impl Clients {
    /// `number` is what the parent knows this process by, `connections` how many a client may have.
    pub(super) fn new(shared: Shared, number: u16, connections: u32) -> Clients {
        // Whoever comes first chooses; a client cannot know it, so it cannot aim at another one's window.
        let key = [1, 2, 3, 4].map(|cell| {
            shared.exchange(CLIENTS_COMMON + cell, 0, RandomState::new().hash_one(cell) | 1);
            shared.get(CLIENTS_COMMON + cell)
        });
        let clients = Clients { shared, key, epoch: shared.get(EPOCH) & EPOCH_MASK, handled: handled(number), connections };
        clients.handles(None);
        clients
    }

    /// Counts a connection of a client, if it may have one more.
    pub(super) fn enter(&self, client: Client, now: u64) -> Entry {
        let Some(place) = self.find(client, now) else {
            return Entry::Uncounted;
        };
        let penalty = Penalty::from(self.shared.get(place + PENALTY), now);
        if penalty.until > now {
            return Entry::Penalised(penalty.until - now);
        }
        let limit = u64::from(self.connections);
        let before = self.shared.update(place + COUNT, |count| {
            let (epoch, count) = unpack(count);
            match epoch == self.epoch {
                // Another worker is ahead: this connection is entered when this one has caught up.
                _ if epoch > self.epoch && epoch <= now + AHEAD_MS => None,
                true => (count < limit).then(|| pack(epoch, count + 1)),
                false => Some(pack(self.epoch, 1)),
            }
        });
        let (epoch, count) = unpack(before);
        if epoch == self.epoch && count >= limit { Entry::TooMany } else { Entry::Counted(Seat { client, place }) }
    }

    /// A connection that was counted is closed.
    pub(super) fn leave(&self, seat: Seat) {
        self.shared.update(seat.place + COUNT, |count| {
            let (epoch, count) = unpack(count);
            (epoch == self.epoch && count > 0).then(|| pack(epoch, count - 1))
        });
    }

    /// Counts a connection again that was open when an epoch began; it stays, whatever the limit.
    pub(super) fn enter_again(&self, seat: Seat, now: u64) -> Option<Seat> {
        let place = self.find(seat.client, now)?;
        self.shared.update(place + COUNT, |count| {
            let (epoch, count) = unpack(count);
            Some(pack(self.epoch, if epoch == self.epoch { count + 1 } else { 1 }))
        });
        Some(Seat { client: seat.client, place })
    }

    /// Takes one request off what a client may send, of all or of what one rule matches. That is a bucket which `rate` fills and that holds
    /// its burst, kept as the moment at which it will be full again (the generic cell rate algorithm, ITU-T I.371).
    pub(super) fn take(&self, client: Client, rule: Option<u64>, rate: &RequestRate, now: u64) -> Taken {
        let counted = rule.map_or(client, |rule| Client((client.0 ^ rule).max(1)));
        let Some(place) = self.find(counted, now) else { return Taken::Uncounted };
        let now = now.saturating_mul(NS_PER_MS);
        let interval = u64::try_from(rate.period.as_nanos()).unwrap_or(u64::MAX) / u64::from(rate.requests.max(1));
        let depth = interval.saturating_mul(rate.burst.into());
        // More than is possible was left by another rate, or by nobody who may.
        let next = |full: u64| full.clamp(now, now + depth) + interval;
        let before = self.shared.update(place + FULL, |full| (next(full) <= now + depth).then(|| next(full)));
        match next(before).checked_sub(now + depth) {
            None | Some(0) => Taken::Yes,
            Some(wait) => Taken::Wait(wait.div_ceil(NS_PER_MS)),
        }
    }

    /// A worker has died at this moment: an epoch begins, and each worker has to enter its connections again. If it `crashed`, the client
    /// whose request it handled is refused for the milliseconds that are returned; the first worker that hears of it does that.
    pub(super) fn worker_died(&mut self, number: u16, moment: u64, crashed: bool, now: u64) -> Option<(Client, u64)> {
        self.epoch = moment & EPOCH_MASK;
        self.shared.set(EPOCH, self.epoch);
        let client = Client(self.shared.swap(handled(number), 0));
        if !crashed || client.0 == 0 {
            return None;
        }
        let place = self.find(client, now)?;
        let raised = |old| Penalty::from(old, now).raised(now);
        let old = self.shared.update(place + PENALTY, |old| Some(raised(old).pack()));
        Some((client, raised(old).until - now))
    }

    /// Whether another worker has been told of a death before this one, and an epoch began.
    pub(super) fn is_behind(&mut self, now: u64) -> bool {
        let epoch = self.shared.get(EPOCH);
        if epoch <= self.epoch || epoch > now + AHEAD_MS {
            return false;
        }
        self.epoch = epoch;
        true
    }

    /// Notes whose request is handled from now on, for the case that it ends this worker.
    pub(super) fn handles(&self, client: Option<Client>) {
        self.shared.set(self.handled, client.map_or(0, |client| client.0));
    }

    /// The place of a client: its own, else a free one, which becomes its own.
    fn find(&self, client: Client, now: u64) -> Option<usize> {
        let window = self.window(client);
        let places = window..window + WINDOW;
        if let Some(place) = places.clone().find(|place| self.shared.get(*place) == client.0) {
            return Some(place);
        }
        places.into_iter().find(|place| {
            let held = self.shared.get(*place);
            // Another worker may have given it to the same client meanwhile.
            self.is_free(*place, held, now) && (self.shared.exchange(*place, held, client.0) || self.shared.get(*place) == client.0)
        })
    }

    fn is_free(&self, place: usize, held: u64, now: u64) -> bool {
        if held == 0 {
            return true;
        }
        let (epoch, count) = unpack(self.shared.get(place + COUNT));
        let full = self.shared.get(place + FULL).saturating_sub(now.saturating_mul(NS_PER_MS));
        (count == 0 || epoch != self.epoch)
            && !(1..FULL_MAX_NS).contains(&full)
            && Penalty::from(self.shared.get(place + PENALTY), now).crashes == 0
    }

    /// The first cell of a client's window: multiply-shift hashing with 128-bit keys (Dietzfelbinger, 1996), in which two clients meet with
    /// a chance of one in the number of windows, whoever chose them.
    fn window(&self, client: Client) -> usize {
        let [a, b, c, d] = self.key.map(u128::from);
        let hash = (a << 64 | b).wrapping_mul(u128::from(client.0)).wrapping_add(c << 64 | d);
        FIRST + usize::try_from(hash >> (128 - WINDOWS.ilog2())).unwrap_or(0) * WINDOW * FIELDS
    }
}

/// How long a client is refused, and how often a request of it ended a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Penalty {
    until: u64,
    crashes: u64,
}

impl Penalty {
    /// What a cell says. It is forgotten an hour after its end, and what lies further ahead than any penalty was written by nobody who may.
    fn from(cell: u64, now: u64) -> Penalty {
        let penalty = Penalty { until: cell >> 8, crashes: cell & 0xFF };
        let holds = now.saturating_sub(FORGOTTEN_MS)..=now.saturating_add(PENALTY_MAX_MS);
        if holds.contains(&penalty.until) { penalty } else { Penalty::default() }
    }

    fn raised(self, now: u64) -> Penalty {
        let length = PENALTY_MIN_MS.checked_shl(u32::try_from(self.crashes).unwrap_or(u32::MAX)).unwrap_or(PENALTY_MAX_MS);
        Penalty { until: now + length.clamp(PENALTY_MIN_MS, PENALTY_MAX_MS), crashes: (self.crashes + 1).min(16) }
    }

    fn pack(self) -> u64 {
        self.until << 8 | self.crashes
    }
}

/// A count with its epoch.
fn pack(epoch: u64, count: u64) -> u64 {
    epoch << COUNT_BITS | count.min((1 << COUNT_BITS) - 1)
}

fn unpack(cell: u64) -> (u64, u64) {
    (cell >> COUNT_BITS, cell & ((1 << COUNT_BITS) - 1))
}

/// In place of the first half of an IPv6 address: ff00::/8 is multicast (RFC 4291, 2.7), which no client has.
const V4: u64 = 0xFF00 << 48;

/// Cells of a window: the clients of its places, then what is known of each, a cache line for each kind.
const WINDOW: usize = 8;
const COUNT: usize = WINDOW;
const PENALTY: usize = 2 * WINDOW;
const FULL: usize = 3 * WINDOW;
const FIELDS: usize = 4;
const FIRST: usize = COUNTER_CELLS;
const WINDOWS: usize = CLIENT_CELLS / (WINDOW * FIELDS);
const _: () = assert!(WINDOWS.is_power_of_two());

/// The moment of the last death of a worker; the key of the hash stands behind it.
const EPOCH: usize = CLIENTS_COMMON;
const COUNT_BITS: u32 = 24;
/// Milliseconds of 34 years.
const EPOCH_MASK: u64 = u64::MAX >> COUNT_BITS;

const NS_PER_MS: u64 = 1_000_000;
/// No bucket takes longer to fill: the configuration allows 30 days.
const FULL_MAX_NS: u64 = 31 * 86_400 * 1_000 * NS_PER_MS;

/// How far a moment may lie ahead of a clock that was read at the beginning of a turn; beyond, nobody wrote it who may.
const AHEAD_MS: u64 = 60_000;

/// How long a client is refused after the first crash; twice as long after each further one.
const PENALTY_MIN_MS: u64 = 10_000;
const PENALTY_MAX_MS: u64 = 3_600_000;
/// How long after its end a penalty still makes the next one longer.
const FORGOTTEN_MS: u64 = 3_600_000;

#[cfg(test)]
mod tests;
