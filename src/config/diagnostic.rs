//! What is wrong with a configuration file, and where: file, line, column, the line itself and a caret.
//!
//! Used by the parent and by the commands. Does no I/O. Whatever of the file is shown again has its control
//! characters replaced, so that a file cannot speak to the terminal it is complained about on.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One fault. Displayed as `FILE:LINE:COLUMN: what, and what was expected`, then the line and a caret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub file: PathBuf,
    /// `None` when the fault is the file itself, for example that it does not exist.
    pub place: Option<Place>,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What was expected, or a suggestion; may be empty.
    pub help: String,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1; one beyond the last character when something is missing at the end of a line.
    pub column: usize,
    /// The part of the line that is shown.
    excerpt: String,
    /// Characters of `excerpt` before the caret.
    indent: usize,
    /// Number of carets.
    width: usize,
}

/// Every fault of a file, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    pub list: Vec<Diagnostic>,
    /// How many more there are than `list` holds.
    pub left_out: usize,
}

impl Diagnostics {
    /// The fault of a file that could not even be read.
    pub(super) fn of_file(file: &Path, message: String, help: &str) -> Diagnostics {
        let diagnostic = Diagnostic { file: file.to_owned(), place: None, message, help: help.to_owned() };
        Diagnostics { list: vec![diagnostic], left_out: 0 }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", printable(&self.file.to_string_lossy()))?;
        if let Some(place) = &self.place {
            write!(f, "{}:{}:", place.line, place.column)?;
        }
        write!(f, " {}", printable(&self.message))?;
        if !self.help.is_empty() {
            write!(f, ", {}", printable(&self.help))?;
        }
        match &self.place {
            Some(place) => place.fmt_excerpt(f),
            None => Ok(()),
        }
    }
}

impl Place {
    fn fmt_excerpt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let gutter = " ".repeat(number.len());
        let (indent, carets) = (" ".repeat(self.indent), "^".repeat(self.width));
        write!(f, "\n  {number} | {}\n  {gutter} | {indent}{carets}", self.excerpt)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, diagnostic) in self.list.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            write!(f, "{separator}{diagnostic}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Diagnostic {}
impl std::error::Error for Diagnostics {}

/// The faults of a file and of those it includes, gathered while they are read.
///
/// All texts lie one behind the other in one space of offsets, so that an offset alone says which file it is in: what a
/// parser calls an offset becomes one of these by adding what [`Faults::add`] returned for its text.
pub(super) struct Faults<'t> {
    /// In the order of their offsets; never empty.
    sources: Vec<Source<'t>>,
    list: Vec<Fault>,
}

/// One text.
struct Source<'t> {
    file: PathBuf,
    /// Where its relative paths start; absolute.
    directory: PathBuf,
    text: &'t str,
    /// Offset of its first byte.
    start: usize,
    /// Where each line begins, counted from `start`.
    lines: Vec<usize>,
}

struct Fault {
    kind: Kind,
    at: Range<usize>,
    message: String,
    help: String,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The text is not TOML there, so what else is wrong on that line need not be what the writer meant.
    Syntax,
    /// Something is missing, or is not what its name is for: not to be believed while part of the file could not be read.
    Missing,
    Meaning,
}

impl<'t> Faults<'t> {
    pub(super) fn new(file: &Path, directory: &Path, text: &'t str) -> Faults<'t> {
        let mut faults = Faults { sources: Vec::new(), list: Vec::new() };
        faults.add(file, directory, text);
        faults
    }

    /// One more text; the offset of its first byte.
    pub(super) fn add(&mut self, file: &Path, directory: &Path, text: &'t str) -> usize {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(offset, _)| offset + 1)).collect();
        // One more than the length, so that the end of a text is not the beginning of the next.
        let start = self.sources.last().map_or(0, |last| last.start + last.text.len() + 1);
        self.sources.push(Source { file: file.to_owned(), directory: directory.to_owned(), text, start, lines });
        start
    }

    /// `message` is wrong with the bytes `at`; `help` says what was expected, or is empty.
    pub(super) fn report(&mut self, at: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.push(Kind::Meaning, at, message.into(), help.into());
    }

    pub(super) fn report_syntax(&mut self, at: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.push(Kind::Syntax, at, message.into(), help.into());
    }

    pub(super) fn report_missing(&mut self, at: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.push(Kind::Missing, at, message.into(), help.into());
    }

    fn push(&mut self, kind: Kind, at: Range<usize>, message: String, help: String) {
        self.list.push(Fault { kind, at, message, help });
    }

    /// Forgets what was reported so far, which has been told elsewhere.
    pub(super) fn forget(&mut self) {
        self.list.clear();
    }

    /// `FILE:LINE:COLUMN` of an offset, to name a second place in a message.
    pub(super) fn place_name(&self, offset: usize) -> String {
        let source = self.source(offset);
        let (line, column) = source.position(offset - source.start);
        format!("{}:{line}:{column}", printable(&source.file.to_string_lossy()))
    }

    /// File and line, from 1, of an offset.
    pub(super) fn file_and_line(&self, offset: usize) -> (&Path, usize) {
        let source = self.source(offset);
        (&source.file, source.position(offset - source.start).0)
    }

    /// The directory of the file that holds an offset: where a relative path written there starts.
    pub(super) fn directory(&self, offset: usize) -> &Path {
        &self.source(offset).directory
    }

    /// What is written at a place.
    pub(super) fn written(&self, at: &Range<usize>) -> &'t str {
        let source = self.source(at.start);
        source.text.get(at.start - source.start..at.end.saturating_sub(source.start)).unwrap_or("")
    }

    fn source(&self, offset: usize) -> &Source<'t> {
        &self.sources[self.source_number(offset)]
    }

    fn source_number(&self, offset: usize) -> usize {
        self.sources.partition_point(|source| source.start <= offset).saturating_sub(1)
    }

    /// The file and the index of the line that hold an offset.
    fn line_of(&self, offset: usize) -> (usize, usize) {
        let number = self.source_number(offset);
        let source = &self.sources[number];
        (number, source.line_of(offset - source.start))
    }

    /// `value` when nothing is wrong; otherwise everything that is.
    pub(super) fn finish<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.list.is_empty() { Ok(value) } else { Err(self.into_diagnostics()) }
    }

    /// Everything that is wrong, in the order of the file.
    pub(super) fn into_diagnostics(mut self) -> Diagnostics {
        let mut list = std::mem::take(&mut self.list);
        let broken: HashSet<(usize, usize)> = list.iter().filter(|f| f.kind == Kind::Syntax).map(|f| self.line_of(f.at.start)).collect();
        // A syntax fault itself always stays, so this never empties the list.
        list.retain(|fault| match fault.kind {
            Kind::Syntax => true,
            Kind::Missing => broken.is_empty(),
            Kind::Meaning => !broken.contains(&self.line_of(fault.at.start)),
        });
        list.sort_by_key(|fault| (fault.at.start, fault.kind));
        let left_out = list.len().saturating_sub(SHOWN_MAX);
        let list = list.into_iter().take(SHOWN_MAX).map(|fault| self.diagnostic(fault)).collect();
        Diagnostics { list, left_out }
    }

    fn diagnostic(&self, fault: Fault) -> Diagnostic {
        let source = self.source(fault.at.start);
        let at = fault.at.start - source.start..fault.at.end.saturating_sub(source.start);
        Diagnostic { file: source.file.clone(), place: Some(source.place(at)), message: fault.message, help: fault.help }
    }
}

impl<'t> Source<'t> {
    fn place(&self, at: Range<usize>) -> Place {
        let (line, column) = self.position(at.start);
        let content = self.line_text(line);
        let before = column - 1;
        // A long line is shown from somewhat before the fault.
        let skipped = if before + EXCERPT_BEFORE > EXCERPT_MAX { before - EXCERPT_BEFORE.min(before) } else { 0 };
        let excerpt: String = content.chars().skip(skipped).take(EXCERPT_MAX).map(one_cell).collect();
        let indent = before - skipped;
        let room = excerpt.chars().count().saturating_sub(indent);
        let marked = self.text.get(at).map_or(0, |text| text.chars().take_while(|&c| c != '\n' && c != '\r').take(EXCERPT_MAX).count());
        Place { line, column, excerpt, indent, width: marked.min(room).max(1) }
    }

    /// Index of the line that holds an offset.
    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    /// Line and column, from 1, of an offset; an offset beyond the text counts as its end.
    fn position(&self, offset: usize) -> (usize, usize) {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.line_of(offset);
        let start = self.lines.get(line).copied().unwrap_or(0);
        let column = self.text.get(start..offset).map_or(0, |text| text.chars().count());
        (line + 1, column + 1)
    }

    /// A line, counted from 1, without its line ending.
    fn line_text(&self, line: usize) -> &'t str {
        let start = line.checked_sub(1).and_then(|index| self.lines.get(index)).copied().unwrap_or(0);
        let end = self.lines.get(line).map_or(self.text.len(), |next| next - 1);
        let content = self.text.get(start..end).unwrap_or("");
        content.strip_suffix('\r').unwrap_or(content)
    }
}

/// A string of the file as messages quote it: in quotes, control characters escaped, not endless.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((cut, _)) => format!("{:?}…", text.get(..cut).unwrap_or("")),
        None => format!("{text:?}"),
    }
}

/// Control characters replaced; several characters may come of one.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// A character for the excerpt, one for one so that the caret stays below its column.
fn one_cell(c: char) -> char {
    match c {
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    }
}

/// Faults shown of one file: no one reads more at once, and a file of 16 MiB can hold millions.
const SHOWN_MAX: usize = 200;
/// Characters shown of a line.
const EXCERPT_MAX: usize = 120;
/// Characters shown before the fault when a line is longer than that.
const EXCERPT_BEFORE: usize = 60;
/// Characters of a string that a message quotes.
const QUOTED_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, at: Range<usize>) -> String {
        let file = Path::new("/f.toml");
        let mut faults = Faults::new(file, Path::new("/"), text);
        faults.report(at, "what", "help");
        faults.finish(()).unwrap_err().to_string()
    }

    #[test]
    fn a_fault_shows_its_line_and_carets() {
        assert_eq!(shown("a = 1\nbc = 2\n", 6..8), "/f.toml:2:1: what, help\n  2 | bc = 2\n    | ^^");
    }

    #[test]
    fn columns_count_characters_and_lines_may_end_in_crlf() {
        assert_eq!(shown("é = \"ü\"\r\nx", 5..9), "/f.toml:1:5: what, help\n  1 | é = \"ü\"\n    |     ^^^");
    }

    #[test]
    fn the_end_of_the_text_and_beyond_are_its_last_place() {
        assert_eq!(shown("a", 1..1), "/f.toml:1:2: what, help\n  1 | a\n    |  ^");
        assert_eq!(shown("a", 90..99), "/f.toml:1:2: what, help\n  1 | a\n    |  ^");
        assert_eq!(shown("", 0..0), "/f.toml:1:1: what, help\n  1 | \n    | ^");
    }

    #[test]
    fn a_fault_over_several_lines_is_marked_on_its_first() {
        assert_eq!(shown("[\na\n]", 0..5), "/f.toml:1:1: what, help\n  1 | [\n    | ^");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = shown("\t\x1b[2J = 1", 6..7);
        assert!(!text.contains('\x1b') && !text.contains('\t'), "{text:?}");
        assert_eq!(quoted("a\x1b\n"), r#""a\u{1b}\n""#);
    }

    #[test]
    fn a_long_line_is_shown_around_the_fault() {
        let text = format!("{}X{}", "a".repeat(500), "b".repeat(500));
        let message = shown(&text, 500..501);
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines[0], "/f.toml:1:501: what, help");
        assert_eq!(lines[1].find('X'), lines[2].find('^'));
        assert!(lines[1].len() < 140, "{}", lines[1]);
    }

    #[test]
    fn faults_are_in_the_order_of_the_file_and_bounded() {
        let file = Path::new("f");
        let text = "a\n".repeat(300);
        let mut faults = Faults::new(file, Path::new("/"), &text);
        for line in (0..300).rev() {
            faults.report(line * 2..line * 2 + 1, "what", "");
        }
        let diagnostics = faults.finish(()).unwrap_err();
        let lines: Vec<usize> = diagnostics.list.iter().map(|d| d.place.as_ref().unwrap().line).collect();
        assert_eq!(lines, (1..=SHOWN_MAX).collect::<Vec<_>>());
        assert_eq!(diagnostics.left_out, 100);
        assert!(diagnostics.to_string().ends_with("\nand 100 more"));
    }

    #[test]
    fn what_follows_from_a_broken_line_is_not_reported() {
        let file = Path::new("f");
        let mut faults = Faults::new(file, Path::new("/"), "a b\nc\n");
        faults.report_syntax(2..3, "syntax", "");
        faults.report(0..1, "on the same line", "");
        faults.report_missing(4..5, "missing", "");
        faults.report(4..5, "elsewhere", "");
        let messages: Vec<String> = faults.finish(()).unwrap_err().list.into_iter().map(|d| d.message).collect();
        assert_eq!(messages, ["syntax", "elsewhere"]);
    }
}
