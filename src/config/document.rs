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

/// A table of the document, with the names that it may hold.
#[derive(Clone)]
pub(super) struct Table<'d> {
    names: &'static Names,
    entries: &'d DeTable<'d>,
    /// Where its header stands.
    pub(super) at: Range<usize>,
}

/// The value of a key.
pub(super) struct Item<'d> {
    key: &'static str,
    names: &'static Names,
    value: &'d DeValue<'d>,
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

/// Reads the text as TOML. What cannot be read is reported and left out.
pub(super) fn parse<'t>(text: &'t str, faults: &mut Faults<'_>) -> DeTable<'t> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let document = document.into_inner();
    for error in errors {
        let at = error.span().unwrap_or(0..0);
        if error.message() == "duplicate key" {
            report_duplicate(text, &document, at, faults);
        } else {
            let (message, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
            let help = if expected.is_empty() {
                String::new()
            } else {
                format!("expected {}", expected.replace('`', "\""))
            };
            faults.report_syntax(at, message.replace('`', "\""), help);
        }
    }
    document
}

impl<'d> Table<'d> {
    /// The document itself. Names that it may not hold are reported.
    pub(super) fn top(entries: &'d DeTable<'d>, faults: &mut Faults<'_>) -> Table<'d> {
        Table::checked(&names::FILE, entries, 0..0, faults)
    }

    fn checked(names: &'static Names, entries: &'d DeTable<'d>, at: Range<usize>, faults: &mut Faults<'_>) -> Table<'d> {
        for (key, _) in entries {
            if !names.keys.contains(&key.get_ref().as_ref()) {
                let (message, help) = names::explain_unknown(names, key.get_ref());
                faults.report(key.span(), message, help);
            }
        }
        Table { names, entries, at }
    }

    /// The value of a key, when it is there.
    pub(super) fn item(&self, key: &'static str) -> Option<Item<'d>> {
        debug_assert!(
            self.names.keys.contains(&key),
            "{key} is not among the names of {}",
            self.names.label
        );
        let (written, value) = self.entries.get_key_value(key)?;
        Some(Item {
            key,
            names: self.names,
            value: value.get_ref(),
            at: value.span(),
            key_at: written.span(),
        })
    }

    /// A table within this one. Names that it may not hold are reported.
    pub(super) fn table(&self, names: &'static Names, faults: &mut Faults<'_>) -> Option<Table<'d>> {
        let item = self.item(names.table)?;
        match item.value.as_table() {
            Some(entries) => Some(Table::checked(names, entries, item.at, faults)),
            None => {
                faults.report(
                    item.key_at,
                    format!("{} is {}", quoted(names.table), kind(item.value)),
                    format!("expected a table, {}", names.label),
                );
                None
            }
        }
    }

    /// A list of tables within this one; empty when it is absent or has been reported.
    pub(super) fn tables(&self, names: &'static Names, faults: &mut Faults<'_>) -> Vec<Table<'d>> {
        let Some(item) = self.item(names.table) else { return Vec::new() };
        let Some(list) = item.value.as_array() else {
            let what = format!("{} is {}", quoted(names.table), kind(item.value));
            faults.report(
                item.key_at,
                what,
                format!("expected a list of tables, each begun with {}", names.label),
            );
            return Vec::new();
        };
        let mut tables = Vec::new();
        for element in list {
            match element.get_ref().as_table() {
                Some(entries) => tables.push(Table::checked(names, entries, element.span(), faults)),
                None => faults.report(
                    element.span(),
                    format!("{} holds {}", quoted(names.table), kind(element.get_ref())),
                    format!("expected only tables, each begun with {}", names.label),
                ),
            }
        }
        tables
    }
}

impl<'d> Item<'d> {
    pub(super) fn boolean(&self, faults: &mut Faults<'_>) -> Option<bool> {
        let value = self.value.as_bool();
        if value.is_none() {
            self.wrong_type("true or false", faults);
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
            self.report(
                format!("{} in {} is {written}", quoted(self.key), self.names.label),
                format!("expected {expected}"),
                faults,
            );
        }
        number
    }

    /// A size within a range, both in bytes.
    pub(super) fn size(&self, range: RangeInclusive<u32>, faults: &mut Faults<'_>) -> Option<u32> {
        let show = |bytes: u32| quantity::show_size(u64::from(bytes));
        let size = self.quantity(quantity::size, quantity::SIZE_EXPECTED, faults)?;
        let within = u32::try_from(size.0).ok().filter(|size| range.contains(size));
        if within.is_none() {
            self.out_of_range(size.1.value, &show(*range.start()), &show(*range.end()), faults);
        }
        within
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
        Some(Text {
            value: value?,
            at: self.at.clone(),
        })
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
                Some(value) => texts.push(Text { value, at: element.span() }),
                None => {
                    let what = format!("{} in {} holds {}", quoted(self.key), self.names.label, kind(element.get_ref()));
                    faults.report(element.span(), what, format!("expected {expected}"));
                }
            }
        }
        Some(texts)
    }

    /// A list of strings, or one string that stands for a list of one.
    pub(super) fn text_or_texts(&self, expected: &str, faults: &mut Faults<'_>) -> Option<Vec<Text<'d>>> {
        match self.value.as_str() {
            Some(value) => Some(vec![Text {
                value,
                at: self.at.clone(),
            }]),
            None => self.texts(expected, faults),
        }
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

    fn wrong_type(&self, expected: &str, faults: &mut Faults<'_>) {
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
fn report_duplicate(text: &str, document: &DeTable<'_>, at: Range<usize>, faults: &mut Faults<'_>) {
    let written = text.get(at.clone()).unwrap_or("").trim();
    let key = written.trim_matches(|c| c == '"' || c == '\'');
    let mut first = None;
    last_before(document, key, at.start, &mut first);
    let first = first.or_else(|| same_line_before(text, at.start));
    let help = first.map_or(String::new(), |offset| format!("first given at {}", faults.place_name(offset)));
    faults.report_syntax(at, format!("{} is given twice", quoted(key)), help);
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
