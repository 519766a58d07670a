//! What this worker counts: gathered here and added to the memory that workers share once per turn of the loop, so that
//! counting costs a request no contended instruction.

use crate::ipc::counters::{Counter, Gauge, Totals};
use crate::sys::shared::{COUNTER_CELLS, Shared};

/// This worker's count and its way to the common one.
pub(super) struct Counters {
    shared: Shared,
    /// Counted since it was last added.
    fresh: Totals,
    /// The row of this worker's gauges.
    row: usize,
}

/// Cells: the counters first, then what the table of clients has in common, then a row for each number that a worker can have: its gauges,
/// and whose request it handles.
const FIRST_ROW: usize = 64;
const ROW: usize = 8; // a cache line
const ROWS: usize = (COUNTER_CELLS - FIRST_ROW) / ROW;
const HANDLED: usize = ROW - 1;
const _: () = assert!(Counter::ALL.len() <= CLIENTS_COMMON && Gauge::ALL.len() <= HANDLED);

/// The first of the cells that belong to the table of clients.
pub(super) const CLIENTS_COMMON: usize = 48;

/// Where a worker notes whose request it handles.
pub(super) fn handled(number: u16) -> usize {
    FIRST_ROW + (usize::from(number) % ROWS) * ROW + HANDLED
}

impl Counters {
    /// `number` is what the parent knows this process by.
    pub(super) fn new(shared: Shared, number: u16) -> Counters {
        let counters = Counters { shared, fresh: Totals::default(), row: usize::from(number) % ROWS };
        counters.clear_row(number);
        counters
    }

    pub(super) fn count(&mut self, counter: Counter, value: u64) {
        self.fresh.add(counter, value);
    }

    /// Counts a response.
    pub(super) fn response(&mut self, status: u16, bytes: u64) {
        self.count(Counter::Requests, 1);
        self.count(Counter::BytesSent, bytes);
        match status {
            100..300 => self.count(Counter::Success, 1),
            300..400 => self.count(Counter::Redirection, 1),
            400..500 => self.count(Counter::ClientError, 1),
            _ => self.count(Counter::ServerError, 1),
        }
    }

    /// Adds what is new to the common count.
    pub(super) fn publish(&mut self) {
        if self.fresh == Totals::default() {
            return;
        }
        for (cell, value) in self.fresh.counters.into_iter().enumerate().filter(|(_, value)| *value > 0) {
            self.shared.add(cell, value);
        }
        self.fresh = Totals::default();
    }

    /// Sets how many connections this worker has in each state.
    pub(super) fn set_gauges(&self, gauges: [u64; Gauge::ALL.len()]) {
        for (cell, value) in gauges.into_iter().enumerate() {
            self.shared.set(FIRST_ROW + self.row * ROW + cell, value);
        }
    }

    /// A worker has died: what it had last is not there any more.
    pub(super) fn clear_row(&self, number: u16) {
        let row = usize::from(number) % ROWS;
        (0..HANDLED).for_each(|cell| self.shared.set(FIRST_ROW + row * ROW + cell, 0));
    }

    /// Everything, over all workers.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for (cell, total) in totals.counters.iter_mut().enumerate() {
            *total = self.shared.get(cell);
        }
        for row in 0..ROWS {
            for (cell, total) in totals.gauges.iter_mut().enumerate() {
                *total = total.saturating_add(self.shared.get(FIRST_ROW + row * ROW + cell));
            }
        }
        totals
    }
}
