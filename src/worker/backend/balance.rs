//! Which of several addresses of a backend is asked.
//!
//! Runs in the worker, as a part of [`Backends`].

use super::{Backends, bit};
use crate::config::{Balance, address_number};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

impl Backends {
    /// Which address is asked: one that did not fail lately, and of those the one that the configuration means.
    pub(super) fn choose(&mut self, number: usize, tried: u64, client: IpAddr, now: u64) -> Option<usize> {
        let backend = self.all.get(number)?;
        let count = backend.addresses.len();
        let place = |address: usize| usize::from(address_number(&self.all, number, address));
        let left: Vec<usize> = (0..count).filter(|address| tried & bit(*address) == 0).collect();
        let well = |address: &usize| self.troubles.is_well(place(*address), now);
        // Where all failed lately, or there is but one, they are asked all the same.
        let fit: Vec<usize> = left.iter().copied().filter(well).collect();
        let fit = if fit.is_empty() { left } else { fit };
        match backend.balance {
            Balance::LeastConnections => {
                let turn = self.counts.turn(number);
                // Among equals each in its turn.
                fit.iter().copied().min_by_key(|address| (self.counts.open(place(*address)), (address + count - turn % count) % count))
            }
            Balance::RoundRobin => {
                let turn = self.counts.turn(number);
                fit.get(turn % fit.len().max(1)).copied()
            }
            Balance::HashClient => {
                let weight = |address: &usize| {
                    let mut hasher = DefaultHasher::new();
                    (client, address).hash(&mut hasher);
                    hasher.finish()
                };
                // The others keep their clients when one fails (rendezvous hashing).
                fit.iter().copied().max_by_key(weight)
            }
        }
    }
}
