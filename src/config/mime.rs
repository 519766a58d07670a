//! `[mime]`: media types and the extensions of their files, read and checked. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::Table;
use super::names;
use std::collections::HashMap;

/// Extension and type, in the order of the files.
pub(super) fn read(top: &Table<'_>, faults: &mut Faults<'_>) -> Vec<(String, String)> {
    let (mut list, mut taken, mut kinds) = (Vec::new(), HashMap::new(), HashMap::new());
    for (kind, item) in top.free_table(&names::MIME, faults) {
        // Within one file the parser has told; a second file would add to the list of the first.
        if let Some(first) = kinds.insert(kind.value, kind.at.start) {
            let help = format!("first given at {}", faults.place_name(first));
            faults.report(kind.at.clone(), format!("{} is given twice", quoted(kind.value)), help);
        }
        if !is_media_type(kind.value) {
            let help = "expected one such as \"application/wasm\"";
            faults.report(kind.at.clone(), format!("{} is not a media type", quoted(kind.value)), help);
        }
        for text in item.texts("a list of extensions, such as [\"wasm\"]", faults).unwrap_or_default() {
            if let Err(help) = check_extension(text.value) {
                faults.report(text.at.clone(), format!("{} is not an extension", quoted(text.value)), help);
                continue;
            }
            let extension = text.value.to_ascii_lowercase();
            if let Some(first) = taken.get(&extension) {
                let help = format!("first given at {}", faults.place_name(*first));
                faults.report(text.at.clone(), format!("{} already has a type", quoted(text.value)), help);
                continue;
            }
            taken.insert(extension.clone(), text.at.start);
            list.push((extension, kind.value.to_owned()));
        }
    }
    list
}

/// `type/subtype`, both tokens, perhaps with parameters: what may stand in `Content-Type` (RFC 9110, section 8.3.1).
fn is_media_type(written: &str) -> bool {
    let (kind, parameters) = written.split_once(';').unwrap_or((written, ""));
    let plain = |text: &str| text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match kind.trim_end().split_once('/') {
        Some((kind, subtype)) => is_token(kind) && is_token(subtype) && plain(parameters) && !parameters.ends_with(' '),
        None => false,
    }
}

fn check_extension(written: &str) -> Result<(), &'static str> {
    if written.starts_with('.') {
        return Err("expected it without its dot");
    }
    if written.is_empty() || !written.bytes().all(|byte| byte.is_ascii_graphic() && !b"/.*".contains(&byte)) {
        return Err("expected what stands behind the last dot of a name, such as \"wasm\"");
    }
    Ok(())
}

/// RFC 9110, section 5.6.2.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};

    fn said(line: &str) -> Vec<String> {
        told(&format!("[mime]\n{line}\n[[site]]\nroot = \"/srv/www\"\n"))
    }

    #[test]
    fn types_are_read_by_extension() {
        let config = with_a_site("[mime]\n\"text/x-log; charset=utf-8\" = [\"LOG\", \"log1\"]\n\"application/wasm\" = [\"wasm\"]");
        let expected = [("log", "text/x-log; charset=utf-8"), ("log1", "text/x-log; charset=utf-8"), ("wasm", "application/wasm")];
        assert_eq!(config.mime, expected.map(|(extension, kind)| (extension.to_owned(), kind.to_owned())));
        assert_eq!(with_a_site("").mime, []);
    }

    #[test]
    fn what_is_no_type_and_what_is_no_extension_is_refused() {
        for (line, said_of_it) in [
            ("wasm = [\"wasm\"]", "2:1: \"wasm\" is not a media type, expected one such as \"application/wasm\""),
            ("\"a/b\\r\\nX: y\" = [\"c\"]", "2:1: \"a/b\\r\\nX: y\" is not a media type, expected one such as \"application/wasm\""),
            ("\"a/b\" = \"c\"", "2:9: \"mime\" in [mime] is a string, expected a list of extensions, such as [\"wasm\"]"),
            ("\"a/b\" = [\".c\"]", "2:10: \".c\" is not an extension, expected it without its dot"),
            (
                "\"a/b\" = [\"tar.gz\"]",
                "2:10: \"tar.gz\" is not an extension, expected what stands behind the last dot of a name, such as \"wasm\"",
            ),
            (
                "\"a/b\" = [\"c\"]\n\"a/d\" = [\"e\", \"C\"]",
                "3:15: \"C\" already has a type, first given at /etc/anchorite/anchorite.toml:2:10",
            ),
        ] {
            assert_eq!(said(line), [said_of_it]);
        }
    }
}
