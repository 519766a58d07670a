//! What waits for a hash to be made: each client has its turn, however much another one asks for.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv6Addr;

/// A client is an IPv4 address, or the first 64 bits of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client(u128);

pub(super) struct Queue<T> {
    turns: VecDeque<Client>,
    waiting: HashMap<Client, VecDeque<T>>,
}

impl Client {
    pub(super) fn of(address: Ipv6Addr) -> Client {
        Client(if address.to_ipv4_mapped().is_some() { address.to_bits() } else { address.to_bits() >> 64 << 64 })
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { turns: VecDeque::new(), waiting: HashMap::new() }
    }
}

impl<T> Queue<T> {
    pub(super) fn push(&mut self, client: Ipv6Addr, job: T) {
        let client = Client::of(client);
        let waiting = self.waiting.entry(client).or_default();
        if waiting.is_empty() {
            self.turns.push_back(client);
        }
        waiting.push_back(job);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let client = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&client)?;
        let job = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        job
    }

    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_turn() {
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let mut queue = Queue::default();
        for number in 0..3 {
            queue.push(address("2001:db8::1"), number);
        }
        queue.push(address("2001:db8::2"), 3);
        queue.push(address("::ffff:192.0.2.1"), 10);
        queue.push(address("::ffff:192.0.2.2"), 20);
        let mut order = Vec::new();
        while let Some(number) = queue.pop() {
            order.push(number);
        }
        assert_eq!(order, [0, 10, 20, 1, 2, 3]);
        assert!(queue.is_empty() && queue.waiting.is_empty());
    }
}
