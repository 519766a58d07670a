//! A TOML document whose values know where they stand, read type by type. Does no I/O.
//!
//! The grammar is the `toml` crate's; what is added here is that a wrong value is reported with its place and reading
//! goes on. A method that answers `None` has reported why, or has found nothing to read.

use super::diagnostic::{Faults, quoted};
use super::names::{self, Names};
use super::quantity::{self, Wrong};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use toml::de::{DeInteger, DeTable, DeValue};

/// A table of the document, with the names that it may hold. Several files may each hold a part of it.
#[derive(Clone)]
pub(super) struct Table<'d> {
    names: &'static Names,
    parts: Vec<Part<'d>>,
    /// Where its header stands first.
    pub(super) at: Range<usize>,
}

/// What one file holds of a table.
#[derive(Clone, Copy)]
pub(super) struct Part<'d> {
    pub(super) entries: &'d DeTable<'d>,
    /// Where that file's text starts.
    pub(super) shift: usize,
}

/// The value of a key.
pub(super) struct Item<'d> {
    key: &'static str,
    names: &'static Names,
    value: &'d DeValue<'d>,
    /// Where the text starts that holds it.
    shift: usize,
    pub(super) at: Range<usize>,
    /// Where the key stands.
    pub(super) key_at: Range<usize>,
}

/// A string of the document.
#[derive(Clone)]
pub(super) struct Text<'d> {
    pub(super) value: &'d str,
    pub(super) at: Range<usize>,
}

/// Reads the text, which starts at `shift`, as TOML. What cannot be read is reported and left out.
pub(super) fn parse<'t>(text: &'t str, shift: usize, faults: &mut Faults<'_>) -> DeTable<'t> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let document = document.into_inner();
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        if error.message() == "duplicate key" {
            report_duplicate(text, &document, at, shift, faults);
        } else {
            let (message, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
            let help = if expected.is_empty() { String::new() } else { format!("expected {}", expected.replace('`', "\"")) };
            faults.report_syntax(shifted(at, shift), message.replace('`', "\""), help);
        }
    }
    document
}

impl<'d> Table<'d> {
    /// The document itself, of one part for each file. Names that it may not hold are reported.
    pub(super) fn top(parts: Vec<Part<'d>>, faults: &mut Faults<'_>) -> Table<'d> {
        Table::checked(&names::FILE, parts, 0..0, faults)
    }

    /// Whatever names it holds.
    pub(super) fn unchecked(names: &'static Names, parts: Vec<Part<'d>>) -> Table<'d> {
        Table { names, parts, at: 0..0 }
    }

    fn checked(names: &'static Names, parts: Vec<Part<'d>>, at: Range<usize>, faults: &mut Faults<'_>) -> Table<'d> {
        for part in &parts {
            for (key, value) in part.entries {
                let is_nothing = names.planned.contains(&key.get_ref().as_ref()) && asks_nothing(key.get_ref(), value.get_ref());
                if !names.keys.contains(&key.get_ref().as_ref()) && !is_nothing {
                    let (message, help) = names::explain_unknown(names, key.get_ref());
                    faults.report(shifted(key.span(), part.shift), message, help);
                }
            }
        }
        Table { names, parts, at }
    }

    /// The value of a key, when it is there; a value that a second file gives is reported.
    pub(super) fn item(&self, key: &'static str, faults: &mut Faults<'_>) -> Option<Item<'d>> {
        let mut items = self.items(key).into_iter();
        let first = items.next()?;
        for other in items {
            let help = format!("first given at {}", faults.place_name(first.key_at.start));
            faults.report(other.key_at, format!("{} is given twice", quoted(key)), help);
        }
        Some(first)
    }

    /// The values that all files together give a key.
    pub(super) fn items(&self, key: &'static str) -> Vec<Item<'d>> {
        debug_assert!(self.names.keys.contains(&key), "{key} is not among the names of {}", self.names.label);
        let item = |part: &Part<'d>| {
            let (written, value) = part.entries.get_key_value(key)?;
            Some(Item {
                key,
                names: self.names,
                value: value.get_ref(),
                shift: part.shift,
                at: shifted(value.span(), part.shift),
                key_at: shifted(written.span(), part.shift),
            })
        };
        self.parts.iter().filter_map(item).collect()
    }

    /// Where a key stands first in a list of tables within this one.
    pub(super) fn inside(&self, list: &'static str, key: &str) -> Option<usize> {
        let place = |item: &Item<'_>| {
            let tables = item.value.as_array()?.iter().filter_map(|element| element.get_ref().as_table());
            let mut keys = tables.filter_map(|table| table.get_key_value(key));
            keys.next().map(|(key, _)| key.span().start + item.shift)
        };
        self.items(list).iter().find_map(place)
    }

    /// A table within this one. Names that it may not hold are reported.
    pub(super) fn table(&self, names: &'static Names, faults: &mut Faults<'_>) -> Option<Table<'d>> {
        let (at, parts) = self.parts_of(names, faults)?;
        Some(Table::checked(names, parts, at, faults))
    }

    /// A table within this one that may hold any name: each name and its value, in the order of the files.
    pub(super) fn free_table(&self, names: &'static Names, faults: &mut Faults<'_>) -> Vec<(Text<'d>, Item<'d>)> {
        let parts = self.parts_of(names, faults).map_or_else(Vec::new, |(_, parts)| parts);
        parts.iter().flat_map(|part| free_entries(part.entries, part.shift, names.table, names)).collect()
    }

    /// The tables within a table that may hold any name, such as `[backend.php]`: a name that two files have is reported.
    pub(super) fn named_tables(&self, all: &'static Names, each: &'static Names, faults: &mut Faults<'_>) -> Vec<(Text<'d>, Table<'d>)> {
        let mut tables: Vec<(Text<'d>, Table<'d>)> = Vec::new();
        for (name, item) in self.free_table(all, faults) {
            let Some(entries) = item.value.as_table() else {
                let what = format!("{} is {}", quoted(name.value), kind(item.value));
                faults.report(item.key_at, what, format!("expected a table, {}", each.label));
                continue;
            };
            if let Some((first, _)) = tables.iter().find(|(known, _)| known.value == name.value) {
                let help = format!("first given at {}", faults.place_name(first.at.start));
                faults.report(name.at.clone(), format!("{} is given twice", quoted(name.value)), help);
                continue;
            }
            let part = Part { entries, shift: item.shift };
            let at = name.at.clone();
            tables.push((name, Table::checked(each, vec![part], at, faults)));
        }
        tables
    }

    fn parts_of(&self, names: &'static Names, faults: &mut Faults<'_>) -> Option<(Range<usize>, Vec<Part<'d>>)> {
        let (mut at, mut parts) = (None, Vec::new());
        for item in self.items(names.table) {
            match item.value.as_table() {
                Some(entries) => {
                    at.get_or_insert(item.at);
                    parts.push(Part { entries, shift: item.shift });
                }
                // Where a header is broken, those that follow are not what they seem.
                None => faults.report_missing(
                    item.key_at,
                    format!("{} is {}", quoted(names.table), kind(item.value)),
                    format!("expected a table, {}", names.label),
                ),
            }
        }
        Some((at?, parts))
    }

    /// A list of tables within this one, those of all files; empty when it is absent or has been reported.
    pub(super) fn tables(&self, names: &'static Names, faults: &mut Faults<'_>) -> Vec<Table<'d>> {
        let mut tables = Vec::new();
        for item in self.items(names.table) {
            let Some(list) = item.value.as_array() else {
                let what = format!("{} is {}", quoted(names.table), kind(item.value));
                let help = format!("expected a list of tables, each begun with {}", names.label);
                faults.report_missing(item.key_at, what, help);
                continue;
            };
            for element in list {
                let at = shifted(element.span(), item.shift);
                match element.get_ref().as_table() {
                    Some(entries) => {
                        let shift = item.shift;
                        tables.push(Table::checked(names, vec![Part { entries, shift }], at, faults));
                    }
                    None => faults.report(
                        at,
                        format!("{} holds {}", quoted(names.table), kind(element.get_ref())),
                        format!("expected only tables, each begun with {}", names.label),
                    ),
                }
            }
        }
        tables
    }
}

/// Whether a key of later versions has a value that asks for nothing: what this version does anyway. `users` of a site says only whether the
/// pages of users are there too, of which there are none.
fn asks_nothing(key: &str, value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Boolean(asked) => !asked || key == "users",
        DeValue::String(text) => text.is_empty(),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => false,
    }
}

/// Names and values of a table that may hold any name, in the order of the file.
fn free_entries<'d>(entries: &'d DeTable<'d>, shift: usize, key: &'static str, names: &'static Names) -> Vec<(Text<'d>, Item<'d>)> {
    let mut list: Vec<(Text<'d>, Item<'d>)> = entries
        .iter()
        .map(|(name, value)| {
            let key_at = shifted(name.span(), shift);
            let item = Item { key, names, value: value.get_ref(), shift, at: shifted(value.span(), shift), key_at: key_at.clone() };
            let name = Text { value: name.get_ref().as_ref(), at: key_at };
            (name, item)
        })
        .collect();
    list.sort_by_key(|(name, _)| name.at.start);
    list
}

fn shifted(at: Range<usize>, shift: usize) -> Range<usize> {
    at.start + shift..at.end + shift
}

impl Text<'_> {
    /// Where a part of the string, given in bytes of its value, stands; all of it where escapes make that unclear.
    pub(super) fn part(&self, part: Range<usize>, faults: &Faults<'_>) -> Range<usize> {
        let written = faults.written(&self.at);
        let inner = written.get(1..written.len().saturating_sub(1));
        if inner == Some(self.value) { self.at.start + 1 + part.start..self.at.start + 1 + part.end } else { self.at.clone() }
    }
}

impl<'d> Item<'d> {
    pub(super) fn boolean(&self, faults: &mut Faults<'_>) -> Option<bool> {
        self.boolean_or("true or false", faults)
    }

    /// A boolean where something else may stand too.
    pub(super) fn boolean_or(&self, expected: &str, faults: &mut Faults<'_>) -> Option<bool> {
        let value = self.value.as_bool();
        if value.is_none() {
            self.wrong_type(expected, faults);
        }
        value
    }

    /// An integer within a range.
    pub(super) fn number(&self, range: RangeInclusive<u32>, faults: &mut Faults<'_>) -> Option<u32> {
        let expected = format!("an integer from {} to {}", range.start(), range.end());
        let Some(written) = self.value.as_integer() else {
            self.wrong_type(&expected, faults);
            return None;
        };
        let number = integer(written).filter(|number| range.contains(number));
        if number.is_none() {
            self.report(format!("{} in {} is {written}", quoted(self.key), self.names.label), format!("expected {expected}"), faults);
        }
        number
    }

    /// A size within a range, both in bytes.
    pub(super) fn size(&self, range: RangeInclusive<u32>, faults: &mut Faults<'_>) -> Option<u32> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        self.large_size(range, faults).and_then(|size| u32::try_from(size).ok())
    }

    /// A size that may be beyond 32 bits.
    pub(super) fn large_size(&self, range: RangeInclusive<u64>, faults: &mut Faults<'_>) -> Option<u64> {
        let (size, written) = self.quantity(quantity::size, quantity::SIZE_EXPECTED, faults)?;
        if range.contains(&size) {
            return Some(size);
        }
        let (from, to) = (quantity::show_size(*range.start()), quantity::show_size(*range.end()));
        self.out_of_range(written.value, &from, &to, faults);
        None
    }

    /// A duration within a range.
    pub(super) fn duration(&self, range: RangeInclusive<Duration>, faults: &mut Faults<'_>) -> Option<Duration> {
        let (duration, written) = self.quantity(quantity::duration, quantity::DURATION_EXPECTED, faults)?;
        if range.contains(&duration) {
            return Some(duration);
        }
        let (from, to) = (quantity::show_duration(*range.start()), quantity::show_duration(*range.end()));
        self.out_of_range(written.value, &from, &to, faults);
        None
    }

    /// A rate within a range, both in bytes a second.
    pub(super) fn rate(&self, range: RangeInclusive<u64>, faults: &mut Faults<'_>) -> Option<u64> {
        let (rate, written) = self.quantity(quantity::rate, quantity::RATE_EXPECTED, faults)?;
        if range.contains(&rate) {
            return Some(rate);
        }
        let (from, to) = (quantity::show_rate(*range.start()), quantity::show_rate(*range.end()));
        self.out_of_range(written.value, &from, &to, faults);
        None
    }

    /// A table or a list of tables, each with names of its own. Names that they may not hold are reported.
    pub(super) fn table_or_tables(&self, names: &'static Names, expected: &str, faults: &mut Faults<'_>) -> Option<Vec<Table<'d>>> {
        let shift = self.shift;
        if let Some(entries) = self.value.as_table() {
            return Some(vec![Table::checked(names, vec![Part { entries, shift }], self.at.clone(), faults)]);
        }
        let Some(list) = self.value.as_array() else {
            self.wrong_type(expected, faults);
            return None;
        };
        let mut tables = Vec::new();
        for element in list {
            let at = shifted(element.span(), shift);
            match element.get_ref().as_table() {
                Some(entries) => tables.push(Table::checked(names, vec![Part { entries, shift }], at, faults)),
                None => {
                    let what = format!("{} in {} holds {}", quoted(self.key), self.names.label, kind(element.get_ref()));
                    faults.report(at, what, format!("expected {expected}"));
                }
            }
        }
        Some(tables)
    }

    fn quantity<Q>(&self, read: fn(&str) -> Result<Q, Wrong>, expected: &str, faults: &mut Faults<'_>) -> Option<(Q, Text<'d>)> {
        let text = self.text(expected, faults)?;
        match read(text.value) {
            Ok(quantity) => Some((quantity, text)),
            Err((what, expected)) => {
                self.report(what, expected, faults);
                None
            }
        }
    }

    fn out_of_range(&self, written: &str, from: &str, to: &str, faults: &mut Faults<'_>) {
        let what = format!("{} in {} is {}", quoted(self.key), self.names.label, quoted(written));
        self.report(what, format!("expected {from:?} to {to:?}"), faults);
    }

    /// A string; `expected` says which, for one who wrote another type.
    pub(super) fn text(&self, expected: &str, faults: &mut Faults<'_>) -> Option<Text<'d>> {
        let value = self.value.as_str();
        if value.is_none() {
            self.wrong_type(expected, faults);
        }
        Some(Text { value: value?, at: self.at.clone() })
    }

    /// A list of strings.
    pub(super) fn texts(&self, expected: &str, faults: &mut Faults<'_>) -> Option<Vec<Text<'d>>> {
        let Some(list) = self.value.as_array() else {
            self.wrong_type(expected, faults);
            return None;
        };
        let mut texts = Vec::new();
        for element in list {
            match element.get_ref().as_str() {
                Some(value) => texts.push(Text { value, at: shifted(element.span(), self.shift) }),
                None => {
                    let what = format!("{} in {} holds {}", quoted(self.key), self.names.label, kind(element.get_ref()));
                    let at = shifted(element.span(), self.shift);
                    faults.report(at, what, format!("expected {expected}"));
                }
            }
        }
        Some(texts)
    }

    /// A list of strings, or one string that stands for a list of one.
    pub(super) fn text_or_texts(&self, expected: &str, faults: &mut Faults<'_>) -> Option<Vec<Text<'d>>> {
        match self.value.as_str() {
            Some(value) => Some(vec![Text { value, at: self.at.clone() }]),
            None => self.texts(expected, faults),
        }
    }

    /// A table of names and strings, in the order of the file.
    pub(super) fn pairs(&self, expected: &str, faults: &mut Faults<'_>) -> Option<Vec<(Text<'d>, Text<'d>)>> {
        let Some(entries) = self.value.as_table() else {
            self.wrong_type(expected, faults);
            return None;
        };
        let mut pairs = Vec::new();
        for (name, item) in free_entries(entries, self.shift, self.key, self.names) {
            match item.value.as_str() {
                Some(value) => pairs.push((name, Text { value, at: item.at })),
                None => {
                    let what = format!("{} in {} holds {}", quoted(self.key), self.names.label, kind(item.value));
                    faults.report(item.at, what, format!("expected {expected}"));
                }
            }
        }
        Some(pairs)
    }

    /// The string that this is, if it is one.
    pub(super) fn as_text(&self) -> Option<Text<'d>> {
        let at = self.at.clone();
        self.value.as_str().map(|value| Text { value, at })
    }

    /// Whether another file than the first holds it.
    pub(super) fn is_of_included_file(&self) -> bool {
        self.shift != 0
    }

    /// The integer, if it is one of 16 bits.
    pub(super) fn small_number(&self) -> Option<u16> {
        self.value.as_integer().and_then(integer).and_then(|number| u16::try_from(number).ok())
    }

    /// Whether this is an integer.
    pub(super) fn is_integer(&self) -> bool {
        self.value.as_integer().is_some()
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, words: &[(&'static str, T)], faults: &mut Faults<'_>) -> Option<T> {
        let text = self.text(&one_of(words), faults)?;
        choose(&text, words, &format!("{} in {}", quoted(self.key), self.names.label), faults)
    }

    /// Each of a list of strings one of a few words.
    pub(super) fn choices<T: Copy>(&self, words: &[(&'static str, T)], faults: &mut Faults<'_>) -> Option<Vec<T>> {
        let texts = self.texts(&format!("a list of {}", one_of(words)), faults)?;
        let what = format!("a value of {} in {}", quoted(self.key), self.names.label);
        Some(texts.iter().filter_map(|text| choose(text, words, &what, faults)).collect())
    }

    /// The value is of another type than `expected`.
    pub(super) fn wrong_type(&self, expected: &str, faults: &mut Faults<'_>) {
        let what = format!("{} in {} is {}", quoted(self.key), self.names.label, kind(self.value));
        self.report(what, format!("expected {expected}"), faults);
    }

    /// Whether this is a list without elements.
    pub(super) fn is_empty_list(&self) -> bool {
        self.value.as_array().is_some_and(|list| list.is_empty())
    }

    /// Something is wrong with the value.
    pub(super) fn report(&self, message: impl Into<String>, help: impl Into<String>, faults: &mut Faults<'_>) {
        faults.report(self.at.clone(), message, help);
    }
}

fn choose<T: Copy>(text: &Text<'_>, words: &[(&'static str, T)], what: &str, faults: &mut Faults<'_>) -> Option<T> {
    let found = words.iter().find(|(word, _)| *word == text.value).map(|(_, value)| *value);
    if found.is_none() {
        let help = match names::nearest(text.value, words.iter().map(|(word, _)| *word)) {
            Some(word) => format!("did you mean {word:?}?"),
            None => format!("expected {}", one_of(words)),
        };
        faults.report(text.at.clone(), format!("{what} is {}", quoted(text.value)), help);
    }
    found
}

/// `"a", "b" or "c"`
fn one_of<T>(words: &[(&'static str, T)]) -> String {
    let quoted: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// The type of a value, as a sentence names it.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// `None`: negative or beyond 32 bits; every integer of the configuration is smaller.
fn integer(written: &DeInteger<'_>) -> Option<u32> {
    u32::from_str_radix(written.as_str(), written.radix()).ok()
}

/// The parser says where a key stands a second time; the first place is found in what it has kept.
fn report_duplicate(text: &str, document: &DeTable<'_>, at: Range<usize>, shift: usize, faults: &mut Faults<'_>) {
    let written = text.get(at.clone()).unwrap_or("").trim();
    let key = written.trim_matches(|c| c == '"' || c == '\'');
    let mut first = None;
    last_before(document, key, at.start, &mut first);
    let first = first.or_else(|| same_line_before(text, at.start));
    let help = first.map_or(String::new(), |offset| format!("first given at {}", faults.place_name(offset + shift)));
    faults.report_syntax(shifted(at, shift), format!("{} is given twice", quoted(key)), help);
}

/// A table given twice has in the document the place of its second header; the first is the same line before it.
fn same_line_before(text: &str, offset: usize) -> Option<usize> {
    let start = text.get(..offset)?.rfind('\n')? + 1;
    let header = text.get(start..)?.lines().next()?.trim();
    let mut next = 0;
    for line in text.get(..start)?.split_inclusive('\n') {
        if line.trim() == header {
            return Some(next);
        }
        next += line.len();
    }
    None
}

/// The last place before `limit` where a key of that name stands: the first of a pair, since a table keeps its first.
fn last_before(table: &DeTable<'_>, key: &str, limit: usize, found: &mut Option<usize>) {
    for (name, value) in table {
        let at = name.span().start;
        if name.get_ref() == key && at < limit && found.is_none_or(|other| other < at) {
            *found = Some(at);
        }
        let tables: Vec<&DeTable<'_>> = match value.get_ref() {
            DeValue::Table(inner) => vec![inner],
            DeValue::Array(list) => list.iter().filter_map(|element| element.get_ref().as_table()).collect(),
            DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => Vec::new(),
        };
        for inner in tables {
            last_before(inner, key, limit, found);
        }
    }
}
