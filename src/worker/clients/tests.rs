//! The table of clients, with several workers in one process.

use super::*;
use crate::sys::shared;

const NOW: u64 = 100_000_000;

fn workers(count: u16, connections: u32) -> Vec<Clients> {
    let file = shared::create().unwrap();
    (1..=count).map(|number| Clients::new(Shared::map(file.try_clone().unwrap()).unwrap(), number, connections)).collect()
}

fn client(text: &str) -> Client {
    Client::of(text.parse().unwrap())
}

fn seat(entry: Entry) -> Seat {
    let Entry::Counted(seat) = entry else { panic!("{entry:?}") };
    seat
}

#[test]
fn clients_are_ipv4_addresses_and_networks_of_64_bits() {
    for (one, other, same) in [
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("0.0.0.0", "::", false),
    ] {
        assert_eq!(client(one) == client(other), same, "{one} {other}");
    }
    assert_eq!(client("192.0.2.1").to_string(), "192.0.2.1");
    assert_eq!(client("2001:db8::1").to_string(), "2001:db8::/64");
    assert_eq!(client("ffff::1").to_string(), "ffff::/64");
}

#[test]
fn s09_a_client_gets_its_connections_and_no_more_over_all_workers() {
    let workers = workers(2, 3);
    let (one, other) = (client("192.0.2.1"), client("192.0.2.2"));
    let seats: Vec<Seat> = (0..3).map(|number| seat(workers[number % 2].enter(one, NOW))).collect();
    for worker in &workers {
        assert_eq!(worker.enter(one, NOW), Entry::TooMany);
        assert!(matches!(worker.enter(other, NOW), Entry::Counted(_)));
    }
    workers[0].leave(seats[0]);
    seat(workers[1].enter(one, NOW));
    assert_eq!(workers[0].enter(one, NOW), Entry::TooMany);
}

#[test]
fn connections_of_a_dead_worker_are_forgotten_and_those_of_the_living_are_not() {
    let mut workers = workers(3, 4);
    let one = client("2001:db8::1");
    let _lost = [seat(workers[0].enter(one, NOW)), seat(workers[0].enter(one, NOW))];
    let kept = seat(workers[1].enter(one, NOW));
    let also = seat(workers[2].enter(one, NOW));
    assert_eq!(workers[1].enter(one, NOW), Entry::TooMany);
    assert_eq!(workers[1].worker_died(1, NOW + 1, false, NOW + 1), None);
    let kept = workers[1].enter_again(kept, NOW + 1).unwrap();
    // The third has not heard of it yet: it takes nothing away, and counts nothing that is not entered again.
    let late = seat(workers[2].enter(one, NOW + 1));
    workers[2].leave(late);
    assert!(workers[2].is_behind(NOW + 1));
    assert!(!workers[2].is_behind(NOW + 1));
    let also = workers[2].enter_again(also, NOW + 1).unwrap();
    seat(workers[1].enter(one, NOW + 2));
    seat(workers[2].enter(one, NOW + 2));
    assert_eq!(workers[1].enter(one, NOW + 2), Entry::TooMany);
    workers[1].leave(kept);
    workers[2].leave(also);
    seat(workers[1].enter(one, NOW + 2));
}

#[test]
fn o02_a_client_whose_request_ended_a_worker_is_refused_ever_longer() {
    let mut workers = workers(2, 10);
    let one = client("192.0.2.1");
    let mut now = NOW;
    for (crash, length) in [(1, 10_000), (2, 20_000), (3, 40_000)] {
        workers[0].handles(Some(one));
        assert_eq!(workers[1].worker_died(1, now, true, now), Some((one, length)), "{crash}");
        // Who hears of it later adds nothing.
        assert_eq!(workers[0].worker_died(1, now, true, now), None);
        assert_eq!(workers[1].enter(one, now + length - 1), Entry::Penalised(1));
        assert!(matches!(workers[1].enter(client("192.0.2.2"), now), Entry::Counted(_)));
        now += length;
        assert!(matches!(workers[1].enter(one, now), Entry::Counted(_)));
    }
    for _ in 0..200 {
        workers[0].handles(Some(one));
        now += 1;
        let (_, length) = workers[1].worker_died(1, now, true, now).unwrap();
        assert!(length <= PENALTY_MAX_MS);
    }
    assert_eq!(workers[1].enter(one, now), Entry::Penalised(PENALTY_MAX_MS));
    now += PENALTY_MAX_MS + FORGOTTEN_MS + 1;
    workers[0].handles(Some(one));
    assert_eq!(workers[1].worker_died(1, now, true, now), Some((one, 10_000)), "forgotten after an hour");
}

#[test]
fn a_worker_that_was_ended_or_handled_nothing_penalises_nobody() {
    let mut workers = workers(2, 10);
    workers[0].handles(Some(client("192.0.2.1")));
    assert_eq!(workers[1].worker_died(1, NOW, false, NOW), None);
    workers[0].handles(Some(client("192.0.2.1")));
    workers[0].handles(None);
    assert_eq!(workers[1].worker_died(1, NOW + 1, true, NOW + 1), None);
}

#[test]
fn a_full_table_lets_in_without_a_limit_and_has_room_again() {
    let workers = workers(1, 1);
    let address = |number: u32| Client::of(std::net::Ipv4Addr::from_bits(0x0A00_0000 + number).into());
    let (mut seats, mut uncounted) = (Vec::new(), 0);
    for number in 0..200_000 {
        match workers[0].enter(address(number), NOW) {
            Entry::Counted(seat) => seats.push(seat),
            Entry::Uncounted => uncounted += 1,
            refused @ (Entry::TooMany | Entry::Penalised(_)) => panic!("{refused:?}"),
        }
    }
    assert!(seats.len() <= WINDOWS * WINDOW && seats.len() > WINDOWS * WINDOW * 9 / 10, "{}", seats.len());
    assert_eq!(uncounted + seats.len(), 200_000);
    seats.drain(..).for_each(|seat| workers[0].leave(seat));
    assert!(matches!(workers[0].enter(address(300_000), NOW), Entry::Counted(_)));
}

fn rate(requests: u32, burst: u32) -> RequestRate {
    RequestRate { requests, period: std::time::Duration::from_secs(1), burst }
}

#[test]
fn a_client_may_send_its_burst_at_once_and_its_rate_for_long_over_all_workers() {
    let workers = workers(2, 1);
    let (one, other, rate) = (client("192.0.2.1"), client("192.0.2.2"), rate(20, 40));
    for number in 0..40 {
        assert_eq!(workers[number % 2].take(one, None, &rate, NOW), Taken::Yes, "{number}");
    }
    for worker in &workers {
        assert_eq!(worker.take(one, None, &rate, NOW), Taken::Wait(50));
        assert_eq!(worker.take(one, None, &rate, NOW + 49), Taken::Wait(1));
    }
    assert_eq!(workers[0].take(one, None, &rate, NOW + 50), Taken::Yes);
    assert_eq!(workers[1].take(one, None, &rate, NOW + 50), Taken::Wait(50));
    assert_eq!(workers[1].take(other, None, &rate, NOW + 50), Taken::Yes);
    // Over ten seconds: what is left of the burst, and twenty in each.
    let passed = (0..10_000).filter(|ms| workers[0].take(other, None, &rate, NOW + 51 + ms) == Taken::Yes).count();
    assert!((238..=240).contains(&passed), "{passed}");
}

#[test]
fn what_rules_count_is_apart_and_a_smaller_rate_of_another_generation_does_not_wait_for_a_larger_ones_burst() {
    let workers = workers(1, 1);
    let one = client("192.0.2.1");
    let take = |rule, rate: RequestRate| workers[0].take(one, rule, &rate, NOW);
    assert_eq!([None, Some(7), Some(8)].map(|rule| take(rule, rate(1, 1))), [Taken::Yes; 3]);
    assert_eq!([None, Some(7), Some(8)].map(|rule| take(rule, rate(1, 1))), [Taken::Wait(1000); 3]);
    assert_eq!((0..500).filter(|_| take(Some(9), rate(1, 500)) == Taken::Yes).count(), 500);
    assert_eq!(take(Some(9), rate(10, 1)), Taken::Wait(100));
}

#[test]
fn a_place_is_free_again_when_its_bucket_is_full() {
    let workers = workers(1, 1);
    let address = |number: u32| Client::of(std::net::Ipv4Addr::from_bits(0x0A00_0000 + number).into());
    for number in 0..100_000 {
        workers[0].take(address(number), None, &rate(1, 5), NOW);
    }
    assert!((100_000..100_100).any(|number| workers[0].take(address(number), None, &rate(1, 5), NOW) == Taken::Uncounted));
    assert!((100_000..100_100).all(|number| workers[0].take(address(number), None, &rate(1, 5), NOW + 1000) == Taken::Yes));
}

#[test]
fn whatever_the_memory_holds_is_survived() {
    let mut workers = workers(2, 5);
    let one = client("192.0.2.1");
    for value in [u64::MAX, u64::MAX >> 1, 1, 0xFF, NOW << 8, NOW << COUNT_BITS | 0xFF_FFFF] {
        for cell in FIRST..FIRST + CLIENT_CELLS {
            workers[0].shared.set(cell, value);
        }
        workers[0].shared.set(EPOCH, value);
        let _ = (workers[1].is_behind(NOW), workers[1].worker_died(1, NOW, true, NOW));
        workers[0].handles(Some(Client(value)));
        let _ = workers[1].worker_died(1, NOW, true, NOW);
        if let Entry::Counted(seat) = workers[1].enter(one, NOW) {
            workers[1].enter_again(seat, NOW);
            workers[1].leave(seat);
        }
        assert_ne!(workers[1].take(one, None, &rate(1, 2), NOW), Taken::Wait(2001));
        // A penalty that no crash can have given does not hold.
        workers[0].shared.set(FIRST, value);
    }
    assert_eq!(Penalty::from(u64::MAX, NOW), Penalty::default());
}
