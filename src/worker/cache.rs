//! What was looked up last, by site and path, within a bound of memory and of descriptors.
//!
//! Runs in the worker; makes no system call. When there is no room a hand goes round (the "clock" of page replacement): what was used
//! since it last came by gets another round, the rest goes. So a scan of many files, a robot's, does not drive out what all
//! others ask for, and a look-up costs no more than setting a flag.

use slab::Slab;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

/// Entries of `V`.
pub(super) struct Cache<V> {
    /// By site, then by path: the number of the entry.
    numbers: Vec<HashMap<Rc<[u8]>, usize>>,
    entries: Slab<Entry<V>>,
    /// Where the hand stands.
    hand: usize,
    used: Cost,
    most: Cost,
}

/// What entries cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) bytes: usize,
    pub(super) descriptors: usize,
}

struct Entry<V> {
    value: V,
    cost: Cost,
    site: usize,
    path: Rc<[u8]>,
    /// When it was last known to be right, in monotonic milliseconds.
    validated: Cell<u64>,
    /// Since the hand came by.
    used: Cell<bool>,
}

impl<V> Cache<V> {
    pub(super) fn new(sites: usize, most: Cost) -> Cache<V> {
        let numbers = (0..sites).map(|_| HashMap::new()).collect();
        Cache { numbers, entries: Slab::new(), hand: 0, used: Cost::default(), most }
    }

    /// What a path was known to lead to less than `age` ago.
    pub(super) fn fresh(&self, site: usize, path: &[u8], now: u64, age: u64) -> Option<&V> {
        let entry = self.entries.get(*self.numbers.get(site)?.get(path)?)?;
        if now.saturating_sub(entry.validated.get()) >= age {
            return None;
        }
        entry.used.set(true);
        Some(&entry.value)
    }

    /// What a path led to when it was last looked up, however long ago.
    pub(super) fn last(&self, site: usize, path: &[u8]) -> Option<&V> {
        Some(&self.entries.get(*self.numbers.get(site)?.get(path)?)?.value)
    }

    /// Notes that a path still leads there.
    pub(super) fn validate(&self, site: usize, path: &[u8], now: u64) {
        let number = self.numbers.get(site).and_then(|numbers| numbers.get(path));
        if let Some(entry) = number.and_then(|number| self.entries.get(*number)) {
            entry.validated.set(now);
            entry.used.set(true);
        }
    }

    /// Remembers what a path leads to, if it has room for anything that costs so much.
    pub(super) fn insert(&mut self, site: usize, path: &[u8], value: V, cost: Cost, now: u64) {
        self.remove(site, path);
        let cost = Cost { bytes: cost.bytes + path.len() + OVERHEAD, ..cost };
        if cost.bytes > self.most.bytes || cost.descriptors > self.most.descriptors {
            return;
        }
        self.make_room(cost);
        let Some(numbers) = self.numbers.get_mut(site) else { return };
        let path: Rc<[u8]> = path.into();
        let entry = Entry { value, cost, site, path: Rc::clone(&path), validated: Cell::new(now), used: Cell::new(false) };
        numbers.insert(path, self.entries.insert(entry));
        self.used.bytes += cost.bytes;
        self.used.descriptors += cost.descriptors;
    }

    /// Forgets what a path led to.
    pub(super) fn remove(&mut self, site: usize, path: &[u8]) {
        if let Some(number) = self.numbers.get_mut(site).and_then(|numbers| numbers.remove(path)) {
            self.drop_entry(number);
        }
    }

    fn drop_entry(&mut self, number: usize) {
        if let Some(entry) = self.entries.try_remove(number) {
            self.used.bytes -= entry.cost.bytes;
            self.used.descriptors -= entry.cost.descriptors;
        }
    }

    /// Moves the hand until there is room: at most two rounds, since the first takes every flag away.
    fn make_room(&mut self, cost: Cost) {
        while self.used.bytes + cost.bytes > self.most.bytes || self.used.descriptors + cost.descriptors > self.most.descriptors {
            let full_of_descriptors = self.used.bytes + cost.bytes <= self.most.bytes;
            let number = self.hand;
            self.hand = if number + 1 >= self.entries.capacity() { 0 } else { number + 1 };
            let Some(entry) = self.entries.get(number) else {
                if self.entries.is_empty() {
                    return;
                }
                continue;
            };
            // Where only descriptors are short, what holds none may stay as it is.
            if (full_of_descriptors && entry.cost.descriptors == 0) || entry.used.replace(false) {
                continue;
            }
            let (site, path) = (entry.site, Rc::clone(&entry.path));
            self.remove(site, &path);
        }
    }
}

/// How long a look at a file or a directory is believed.
pub(super) const FRESH_MS: u64 = 1_000;

/// About what an entry costs beside its path and its content, in bytes.
const OVERHEAD: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(bytes: usize, descriptors: usize) -> Cost {
        Cost { bytes, descriptors }
    }

    /// Room for so many entries of path "0000" and no content.
    fn room_for(entries: usize) -> Cache<usize> {
        Cache::new(2, cost(entries * (OVERHEAD + 4), 8))
    }

    fn path(number: usize) -> Vec<u8> {
        format!("{number:04}").into_bytes()
    }

    fn is_whole(cache: &Cache<usize>) {
        let sum = cache
            .entries
            .iter()
            .fold(Cost::default(), |sum, (_, entry)| cost(sum.bytes + entry.cost.bytes, sum.descriptors + entry.cost.descriptors));
        assert_eq!(sum, cache.used);
        assert!(sum.bytes <= cache.most.bytes && sum.descriptors <= cache.most.descriptors, "{sum:?}");
        assert_eq!(cache.entries.len(), cache.numbers.iter().map(HashMap::len).sum::<usize>());
    }

    #[test]
    fn an_entry_is_fresh_until_its_age() {
        let mut cache = room_for(4);
        cache.insert(1, b"0001", 7, Cost::default(), 1_000);
        assert_eq!(cache.fresh(1, b"0001", 1_999, 1_000), Some(&7));
        assert_eq!(cache.fresh(1, b"0001", 2_000, 1_000), None);
        assert_eq!(cache.last(1, b"0001"), Some(&7));
        cache.validate(1, b"0001", 2_000);
        assert_eq!(cache.fresh(1, b"0001", 2_999, 1_000), Some(&7));
        assert_eq!((cache.fresh(0, b"0001", 0, 1), cache.fresh(1, b"0002", 0, 1), cache.fresh(9, b"0001", 0, 1)), (None, None, None));
    }

    #[test]
    fn what_is_used_outlives_a_scan() {
        let mut cache = room_for(100);
        for number in 0..50 {
            cache.insert(0, &path(number), number, Cost::default(), 0);
        }
        for scanned in 1000..5000 {
            for used in 0..50 {
                assert_eq!(cache.fresh(0, &path(used), 0, 1), Some(&used), "gone at {scanned}");
            }
            cache.insert(0, &path(scanned), scanned, Cost::default(), 0);
        }
        is_whole(&cache);
        assert_eq!(cache.entries.len(), 100);
    }

    #[test]
    fn all_that_fits_stays_and_one_more_takes_the_place_of_one() {
        let mut cache = room_for(100);
        for number in 0..100 {
            cache.insert(0, &path(number), number, Cost::default(), 0);
        }
        assert!((0..100).all(|number| cache.last(0, &path(number)).is_some()));
        cache.insert(1, &path(0), 0, Cost::default(), 0);
        assert_eq!((0..100).filter(|number| cache.last(0, &path(*number)).is_none()).count(), 1);
        is_whole(&cache);
    }

    #[test]
    fn what_holds_a_descriptor_makes_room_for_what_needs_one() {
        let mut cache = room_for(100);
        for number in 0..20 {
            cache.insert(0, &path(number), number, cost(0, 1), 0);
            cache.insert(1, &path(number), number, Cost::default(), 0);
        }
        is_whole(&cache);
        assert_eq!(cache.used.descriptors, 8);
        assert!((0..20).all(|number| cache.last(1, &path(number)).is_some()));
    }

    #[test]
    fn what_never_fits_is_not_remembered_and_drives_nothing_out() {
        let mut cache = room_for(10);
        cache.insert(0, b"0001", 1, Cost::default(), 0);
        cache.insert(0, b"0002", 2, cost(1 << 20, 0), 0);
        cache.insert(0, b"0003", 3, cost(0, 9), 0);
        assert_eq!((cache.last(0, b"0001"), cache.last(0, b"0002"), cache.last(0, b"0003")), (Some(&1), None, None));
        cache.insert(0, b"0001", 4, cost(1 << 20, 0), 0);
        assert_eq!(cache.last(0, b"0001"), None, "what was replaced is gone");
        is_whole(&cache);
    }

    #[test]
    fn replacing_and_removing_leave_no_trace() {
        let mut cache = room_for(3);
        for number in 0..1000 {
            cache.insert(number % 2, &path(number % 7), number, Cost::default(), 0);
            if number % 3 == 0 {
                cache.remove(number % 2, &path(number % 5));
            }
            is_whole(&cache);
        }
        assert!(cache.entries.capacity() < 16);
    }
}
