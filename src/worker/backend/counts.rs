//! How many connections to each address all workers have, how many requests wait, how many had no word yet, and whose turn it is: integers in the memory that workers share.
//!
//! Runs in the worker. Each worker has a place of its own for each number, so that what one that died had can be taken out. What is read is
//! believed by nobody: a worker that is taken over can write any number, and so have requests refused, or let too many through.

use crate::sys::shared::{BACKEND_CELLS, BACKEND_FIRST, Shared};

/// The numbers of this worker among those of all.
pub(super) struct Counts {
    shared: Shared,
    row: usize,
    /// How many addresses and backends are configured: what is beyond is never touched, and so takes no memory.
    used: (usize, usize),
}

impl Counts {
    /// `number` is what the parent knows this process by, `used` how many addresses and backends are configured.
    pub(super) fn new(shared: Shared, number: u16, used: (usize, usize)) -> Counts {
        let counts = Counts { shared, row: usize::from(number) % ROWS, used };
        counts.clear(number);
        counts
    }

    /// A worker has died: what it had is not there any more.
    pub(super) fn clear(&self, number: u16) {
        let row = usize::from(number) % ROWS;
        let (addresses, backends) = self.used;
        let kinds = (0..addresses).chain(WAITING..WAITING + backends).chain(STUCK..STUCK + backends);
        kinds.for_each(|kind| self.shared.set(cell(kind, row), 0));
    }

    /// One connection more to an address, by its number in the configuration.
    pub(super) fn opened(&self, address: usize) {
        self.shared.add(cell(address, self.row), 1);
    }

    pub(super) fn closed(&self, address: usize) {
        self.shared.update(cell(address, self.row), |value| Some(value.saturating_sub(1)));
    }

    /// One request more waits for a backend.
    pub(super) fn waits(&self, backend: usize) {
        self.opened(WAITING + backend);
    }

    pub(super) fn waits_no_more(&self, backend: usize) {
        self.closed(WAITING + backend);
    }

    /// Connections of all workers to an address.
    pub(super) fn open(&self, address: usize) -> u64 {
        (0..ROWS).map(|row| self.shared.get(cell(address, row))).fold(0, u64::saturating_add)
    }

    /// Requests of all workers that wait for a backend.
    pub(super) fn waiting(&self, backend: usize) -> u64 {
        self.open(WAITING + backend)
    }

    /// Whose turn it is among the addresses of a backend, over all workers; the next time it is the next one's.
    pub(super) fn turn(&self, backend: usize) -> usize {
        let turn = self.shared.update(cell(TURN + backend / ROWS, backend % ROWS), |turn| Some(turn.wrapping_add(1)));
        usize::try_from(turn).unwrap_or(0)
    }

    /// One request more has had no word from a backend for a while.
    pub(super) fn stuck(&self, backend: usize) {
        self.opened(STUCK + backend);
    }

    pub(super) fn stuck_no_more(&self, backend: usize) {
        self.closed(STUCK + backend);
    }

    /// Requests of all workers that are stuck.
    pub(super) fn all_stuck(&self, backend: usize) -> u64 {
        self.open(STUCK + backend)
    }
}

fn cell(kind: usize, row: usize) -> usize {
    if kind < KINDS { BACKEND_FIRST + kind * ROWS + row } else { usize::MAX }
}

/// As many as the configuration may have addresses; and as many backends.
const ADDRESSES: usize = 256;
const WAITING: usize = ADDRESSES;
const STUCK: usize = 2 * ADDRESSES;
/// One number for each backend, of all workers.
const TURN: usize = 3 * ADDRESSES;
const KINDS: usize = TURN + 2;
/// Workers are told apart by this much of their numbers: more than live at a time.
const ROWS: usize = BACKEND_CELLS / KINDS;
