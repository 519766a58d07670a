//! The order of a list, as the query of the request says it, and the entries that are put into it.

use super::entry::Entry;
use std::cmp::Ordering;

/// What entries are compared by. Directories stand before files whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Without regard to ASCII case.
    Name,
    /// Directories have none, and stand by name.
    Size,
    Time,
}

/// The order of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub key: Key,
    pub descending: bool,
}

/// Entries, packed: a directory may hold many.
#[derive(Debug, Default)]
pub struct Entries {
    names: Vec<u8>,
    list: Vec<Packed>,
}

#[derive(Clone, Copy, Debug)]
struct Packed {
    /// Where in `names` the name stands.
    at: u32,
    length: u16,
    directory: bool,
    size: u64,
    modified: i64,
}

impl Key {
    pub const ALL: [Key; 3] = [Key::Name, Key::Size, Key::Time];

    /// As it stands in a query.
    pub fn word(self) -> &'static str {
        match self {
            Key::Name => "name",
            Key::Size => "size",
            Key::Time => "time",
        }
    }
}

impl Order {
    /// By name, ascending.
    pub const DEFAULT: Order = Order { key: Key::Name, descending: false };

    /// Reads `sort=name`, `sort=size` or `sort=time`, and `order=asc` or `order=desc`; what is anything else is as if it were not there.
    pub fn of_query(query: Option<&[u8]>) -> Order {
        let mut order = Order::DEFAULT;
        for parameter in query.unwrap_or_default().split(|byte| *byte == b'&') {
            match parameter {
                b"order=asc" => order.descending = false,
                b"order=desc" => order.descending = true,
                _ => {
                    let word = parameter.strip_prefix(b"sort=").unwrap_or_default();
                    order.key = Key::ALL.into_iter().find(|key| key.word().as_bytes() == word).unwrap_or(order.key);
                }
            }
        }
        order
    }

    /// As it stands in a query.
    pub fn word(self) -> &'static str {
        if self.descending { "desc" } else { "asc" }
    }

    fn compare(self, a: &Entry<'_>, b: &Entry<'_>) -> Ordering {
        let turned = |ordering: Ordering| if self.descending { ordering.reverse() } else { ordering };
        let folded = |entry: &Entry<'_>| entry.name.iter().map(u8::to_ascii_lowercase).cmp(b.name.iter().map(u8::to_ascii_lowercase));
        let by_name = || folded(a).then_with(|| a.name.cmp(b.name));
        let by_key = match self.key {
            Key::Name => return b.directory.cmp(&a.directory).then_with(|| turned(by_name())),
            Key::Size if a.directory => Ordering::Equal,
            Key::Size => a.size.cmp(&b.size),
            Key::Time => a.modified.cmp(&b.modified),
        };
        b.directory.cmp(&a.directory).then(turned(by_key)).then_with(by_name)
    }
}

impl Entries {
    /// Takes in an entry. Names beyond 4 GiB together, which nothing keeps in memory, would be lost.
    pub fn push(&mut self, entry: &Entry<'_>) {
        let (Ok(at), Ok(length)) = (u32::try_from(self.names.len()), u16::try_from(entry.name.len())) else {
            return;
        };
        self.names.extend_from_slice(entry.name);
        self.list.push(Packed { at, length, directory: entry.directory, size: entry.size, modified: entry.modified });
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.names.capacity() + self.list.capacity() * size_of::<Packed>()
    }

    pub fn get(&self, index: usize) -> Option<Entry<'_>> {
        self.list.get(index).map(|packed| packed.entry(&self.names))
    }

    pub fn sort(&mut self, order: Order) {
        let names = &self.names;
        self.list.sort_unstable_by(|a, b| order.compare(&a.entry(names), &b.entry(names)));
    }
}

impl Packed {
    fn entry<'n>(&self, names: &'n [u8]) -> Entry<'n> {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let name = names.get(at..at.saturating_add(usize::from(self.length))).unwrap_or_default();
        Entry { name, directory: self.directory, size: self.size, modified: self.modified }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(query: &str) -> Vec<String> {
        let entry = |name: &'static str, directory, size, modified| Entry { name: name.as_bytes(), directory, size, modified };
        let mut entries = Entries::default();
        for entry in [
            entry("b", false, 5, 30),
            entry("A", false, 7, 20),
            entry("z", true, 99, 10),
            entry("a", false, 7, 20),
            entry("Y", true, 1, 50),
            entry("", false, 6, 40),
        ] {
            entries.push(&entry);
        }
        entries.sort(Order::of_query(Some(query.as_bytes())));
        (0..entries.len()).map(|index| String::from_utf8(entries.get(index).unwrap().name.to_vec()).unwrap()).collect()
    }

    #[test]
    fn directories_come_first_whatever_the_order() {
        let table: &[(&str, [&str; 6])] = &[
            ("", ["Y", "z", "", "A", "a", "b"]),
            ("sort=name&order=desc", ["z", "Y", "b", "a", "A", ""]),
            ("sort=size", ["Y", "z", "b", "", "A", "a"]),
            ("order=desc&sort=size", ["Y", "z", "A", "a", "", "b"]),
            ("sort=time&order=asc", ["z", "Y", "A", "a", "b", ""]),
            ("sort=time&order=desc", ["Y", "z", "", "b", "A", "a"]),
        ];
        for (query, right) in table {
            assert_eq!(sorted(query), right, "{query}");
        }
    }

    #[test]
    fn what_is_unknown_in_a_query_is_as_if_it_were_not_there() {
        for query in
            ["sort=", "sort=Name", "sort=age&order=up", "order=DESC", "x", "&&=", "sort", "sort=size%26", "SORT=size", "a?sort=size"]
        {
            assert_eq!(Order::of_query(Some(query.as_bytes())), Order::DEFAULT, "{query}");
        }
        let by_size = Order { key: Key::Size, descending: true };
        for query in ["sort=size&order=desc", "x=y&order=desc&sort=size&z", "sort=size&sort=none&order=desc&order="] {
            assert_eq!(Order::of_query(Some(query.as_bytes())), by_size, "{query}");
        }
        assert_eq!(Order::of_query(None), Order::DEFAULT);
        assert_eq!(Order::of_query(Some(&b"&".repeat(100_000))), Order::DEFAULT);
    }

    #[test]
    fn every_order_is_total() {
        let names = ["a", "A", "b", "B", ""];
        let all: Vec<Entry<'_>> = names
            .iter()
            .flat_map(|name| {
                [(true, 1, 1), (false, 1, 1), (false, 2, 1), (false, 1, 2)].map(|(directory, size, modified)| Entry {
                    name: name.as_bytes(),
                    directory,
                    size,
                    modified,
                })
            })
            .collect();
        for key in Key::ALL {
            for descending in [false, true] {
                let order = Order { key, descending };
                for a in &all {
                    for b in &all {
                        assert_eq!(order.compare(a, b), order.compare(b, a).reverse(), "{order:?} {a:?} {b:?}");
                    }
                }
            }
        }
    }
}
