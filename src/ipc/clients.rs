//! Who is connected to the control socket: a few administrators at a time, each of whom gives one order and gets one answer.
//! Used by the parent; a client can neither keep it waiting nor keep its place without an order.

use super::control::{self, Order};
use crate::sys::epoll::{Interest, Poller};
use crate::sys::socket;
use std::io;
use std::os::fd::OwnedFd;

/// Those who are connected.
#[derive(Debug, Default)]
pub struct Clients {
    places: [Option<Client>; CLIENTS_MAX],
    taken: u64,
}

#[derive(Debug)]
struct Client {
    /// That of its place, plus a multiple of [`CLIENTS_MAX`] which changes with each one that takes it, so that nobody gets the
    /// answer of one who has gone.
    number: u64,
    socket: OwnedFd,
    /// Until when its order must have come, in monotonic milliseconds; `None`: it has.
    until: Option<u64>,
}

impl Clients {
    /// Takes in a client, whose token becomes `tokens` and its number, below [`NUMBERS`]; one too many is turned away.
    pub fn admit(&mut self, socket: OwnedFd, poller: &Poller, tokens: u64, now: u64) {
        let Some((place, free)) = (0..).zip(&mut self.places).find(|(_, client)| client.is_none()) else {
            return;
        };
        self.taken += 1;
        let number = (self.taken * PLACES + place) % NUMBERS;
        if poller.add(&socket, Interest::Input, tokens + number).is_ok() {
            *free = Some(Client { number, socket, until: Some(now + ORDER_MS) });
        }
    }

    /// The order of a client; what is no order, or the client's end, ends the connection.
    pub fn receive(&mut self, number: u64) -> Option<Order> {
        let place = self.place(number)?;
        let client = place.as_mut()?;
        let mut buffer = [0; 16];
        let result = socket::receive_packet(&client.socket, &mut buffer);
        if matches!(&result, Err(fault) if fault.kind() == io::ErrorKind::WouldBlock) {
            return None;
        }
        let order = result.ok().and_then(|length| Order::decode(buffer.get(..length)?));
        client.until = None;
        if order.is_none() {
            *place = None;
        }
        order
    }

    /// Answers a client and ends its connection. One that does not take its answer loses it: nothing waits for it.
    pub fn answer(&mut self, number: u64, outcome: &Result<String, String>) {
        let Some(client) = self.place(number).and_then(Option::take) else {
            return;
        };
        for packet in control::packets(outcome) {
            if socket::send_packet(&client.socket, &packet).is_err() {
                return;
            }
        }
    }

    /// Answers everyone who is still connected: the service ends.
    pub fn answer_all(&mut self, outcome: &Result<String, String>) {
        (0..NUMBERS).for_each(|number| self.answer(number, outcome));
    }

    /// Ends the connections of those who have given no order in time: their places are few.
    pub fn end_silent(&mut self, now: u64) {
        for place in &mut self.places {
            place.take_if(|client| client.until.is_some_and(|until| until <= now));
        }
    }

    /// When the next of them is to be ended, in monotonic milliseconds.
    pub fn next_end(&self) -> Option<u64> {
        self.places.iter().flatten().filter_map(|client| client.until).min()
    }

    /// Where a client is, unless it has gone.
    fn place(&mut self, number: u64) -> Option<&mut Option<Client>> {
        self.places.iter_mut().find(|place| place.as_ref().is_some_and(|client| client.number == number))
    }
}

/// Clients at a time.
const CLIENTS_MAX: usize = 16;
const PLACES: u64 = 16;

/// Numbers of clients: so many tokens lie free for them.
pub const NUMBERS: u64 = 15 * PLACES;

/// How long a client may take to give its order: the command sends it as it connects.
const ORDER_MS: u64 = 2_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(clients: &mut Clients, poller: &Poller, now: u64) -> OwnedFd {
        let (ours, theirs) = socket::packet_pair().unwrap();
        clients.admit(theirs, poller, 1000, now);
        ours
    }

    /// Whether the other side has closed the connection.
    fn is_over(client: &OwnedFd) -> bool {
        matches!(socket::receive_packet(client, &mut [0; 16]), Ok(0))
    }

    #[test]
    fn silent_clients_lose_their_places_in_time_and_others_keep_them() {
        let poller = Poller::new().unwrap();
        let mut clients = Clients::default();
        let silent: Vec<OwnedFd> = (0..15).map(|_| connect(&mut clients, &poller, 100)).collect();
        let asking = connect(&mut clients, &poller, 100);
        socket::send_packet(&asking, &Order::Reload.encode()).unwrap();
        let number = (0..NUMBERS).find(|number| clients.receive(*number) == Some(Order::Reload)).unwrap();
        assert!(is_over(&connect(&mut clients, &poller, 101)), "one too many");
        clients.end_silent(99 + ORDER_MS);
        assert_eq!(clients.next_end(), Some(100 + ORDER_MS));
        assert!(!silent.iter().any(is_over));
        clients.end_silent(100 + ORDER_MS);
        assert!(silent.iter().all(is_over) && clients.next_end().is_none());
        clients.answer(number, &Ok("done".to_owned()));
        let mut buffer = [0; 16];
        assert_eq!(socket::receive_packet(&asking, &mut buffer).unwrap(), 5);
        assert!(buffer.starts_with(b"+done") && is_over(&asking));
    }

    #[test]
    fn an_answer_goes_to_nobody_who_took_the_place_later() {
        let poller = Poller::new().unwrap();
        let mut clients = Clients::default();
        let first = connect(&mut clients, &poller, 0);
        socket::send_packet(&first, &Order::Stop.encode()).unwrap();
        let number = (0..NUMBERS).find(|number| clients.receive(*number) == Some(Order::Stop)).unwrap();
        drop(first);
        assert_eq!(clients.receive(number), None);
        let second = connect(&mut clients, &poller, 0);
        clients.answer(number, &Ok("done".to_owned()));
        assert!(socket::receive_packet(&second, &mut [0; 16]).is_err(), "nothing has come");
    }
}
