//! What the documents refer to is there: files, tests, commands, options; and nothing in them that only its authors understand.

use crate::source::{files, read, repository};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Everything that users and auditors read.
fn documents() -> Vec<PathBuf> {
    let mut documents: Vec<PathBuf> =
        ["README.md", "SECURITY.md", "CHANGELOG.md", "policy/README.md", "tests/bench/README.md"].map(PathBuf::from).to_vec();
    for section in ["5", "7", "8"] {
        documents.extend(files("man", &format!(".{section}")));
    }
    documents
}

/// What stands in backticks or as the target of a link, on one line.
fn quoted(text: &str) -> Vec<&str> {
    let code = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    code.chain(links).collect()
}

/// Paths of this repository, perhaps with `::name` of a test behind them.
fn is_reference(word: &str) -> bool {
    let is_path = word.chars().all(|c| c.is_ascii_alphanumeric() || "/_.-:".contains(c));
    let begins = ["tests/", "src/", "policy/", "man/", ".ci/"].iter().any(|folder| word.starts_with(folder));
    is_path && (begins || word.ends_with(".md"))
}

#[test]
fn files_and_tests_that_documents_name_are_there() {
    let mut wrong = Vec::new();
    for document in documents() {
        for word in quoted(&read(&document)).into_iter().filter(|word| is_reference(word)) {
            let (path, test) = word.split_once("::").map_or((word, None), |(path, test)| (path, Some(test)));
            let there = repository().join(path).exists();
            if !there || test.is_some_and(|test| !read(path).contains(&format!("fn {test}("))) {
                wrong.push(format!("{}: {word}", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The security document names a test for every boundary.
#[test]
fn every_boundary_has_its_threats_its_mitigation_and_its_tests() {
    let text = read("SECURITY.md");
    let sections: Vec<&str> = text.split("\n## ").skip(1).collect();
    let boundaries: Vec<&&str> = sections.iter().filter(|section| section.contains("*Threats.*")).collect();
    assert!(boundaries.len() >= 9, "{}", boundaries.len());
    for section in boundaries {
        let title = section.lines().next().unwrap_or("");
        let tests = section.split("*Tests.*").nth(1).unwrap_or("");
        assert!(section.contains("*Mitigation.*") && quoted(tests).iter().any(|word| word.starts_with("tests/")), "{title}");
    }
}

/// A row of the table of cases begins with an id, and names the files whose tests carry it or a test with another name.
#[test]
fn the_cases_of_a_hijacked_worker_are_where_the_table_says() {
    let text = read("SECURITY.md");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| K")).collect();
    assert!(rows.len() > 30, "{}", rows.len());
    for row in rows {
        let id = row[2..].split_whitespace().next().unwrap_or("");
        for path in quoted(row).into_iter().filter(|word| word.starts_with("tests/")) {
            let there = path.contains("::") || read(path).to_lowercase().contains(&id.to_lowercase());
            assert!(there, "{id} is not in {path}");
        }
    }
}

#[test]
fn the_quick_start_is_two_commands_that_exist() {
    let text = read("README.md");
    let block = text.split("```").nth(1).expect("the page has code");
    let commands: Vec<&str> = block.lines().skip(1).filter_map(|line| Some(line.split('#').next()?.trim())).collect();
    assert_eq!(commands, ["cargo run --release -- serve .", "tests/run"]);
    assert!(repository().join("tests/run").exists());
}

#[test]
fn the_configuration_of_the_readme_is_accepted() {
    let text = read("README.md");
    let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the page has a configuration");
    anchorite::config::parse(block, std::path::Path::new("/etc/anchorite/site.toml")).unwrap_or_else(|faults| panic!("{faults}"));
}

#[test]
fn manuals_are_clean() {
    let manuals: Vec<PathBuf> = documents().into_iter().filter(|path| path.starts_with("man")).collect();
    assert!(manuals.len() >= 3);
    match Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).args(&manuals).current_dir(repository()).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => eprintln!("mandoc is not here: not checked"),
        Err(fault) => panic!("mandoc: {fault}"),
    }
}

fn help(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_anchorite")).args(arguments).arg("--help").output();
    String::from_utf8(output.expect("the program runs").stdout).expect("help is UTF-8")
}

/// First words of the lines of a section of a help text.
fn section(help: &str, title: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != title).skip(1).take_while(|line| line.starts_with("  "));
    lines.map(str::trim).map(str::to_owned).collect()
}

fn commands() -> BTreeSet<String> {
    let names = section(&help(&[]), "Commands:").into_iter();
    names.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

/// `-x` and `--long` at the beginning of a line of a help text.
fn options(help: &str) -> BTreeSet<String> {
    let lines = section(help, "Options:");
    let words = lines.iter().flat_map(|line| line.split_whitespace().take_while(|word| word.starts_with('-')));
    words.map(|word| word.trim_end_matches(',').to_owned()).collect()
}

/// What the `.It` lines that begin with this macro describe: `Cm serve` a command, `Fl h , Fl Fl help` two names of an option.
fn items(manual: &str, begin: &str) -> BTreeSet<String> {
    let lines = manual.lines().filter_map(|line| line.strip_prefix(".It ")).filter(|line| line.starts_with(begin));
    let names = |line: &str| -> Vec<String> {
        let line = line.replace("Fl Fl ", "--").replace("Fl ", "-");
        let words = line.split_whitespace().filter(|word| *word != ",").map(str::to_owned);
        match begin {
            "Cm " => words.skip(1).take(1).collect(),
            _ => words.take_while(|word| word.starts_with('-')).collect(),
        }
    };
    lines.flat_map(names).collect()
}

#[test]
fn the_manual_has_the_commands_and_options_of_the_program_and_no_others() {
    let manual = read("man/anchorite.8");
    let commands = commands();
    assert_eq!(items(&manual, "Cm "), commands, "left: the manual; right: the program");
    let mut known = options(&help(&[]));
    for command in &commands {
        let of_command = options(&help(&[command]));
        let line = manual.lines().find(|line| line.starts_with(&format!(".It Cm {command}"))).unwrap_or("");
        let line = line.replace("Fl Fl ", "--").replace("Fl ", "-");
        for option in of_command.iter().filter(|option| !["-h", "--help"].contains(&option.as_str())) {
            assert!(line.split_whitespace().any(|word| word == option), "{command}: {option} is not in \"{line}\"");
        }
        known.extend(of_command);
    }
    assert_eq!(items(&manual, "Fl "), known, "left: the manual; right: the program");
}

#[test]
fn documents_say_nothing_of_how_they_were_made() {
    let words = [concat!("/wo", "rk/"), concat!("issue", " #"), concat!("sess", "ion"), concat!("work", "tree"), concat!("/ho", "me/")];
    for document in documents() {
        // A key of the configuration has the word that documents of TLS use.
        let text = read(&document).to_lowercase().replace("session_tickets", "");
        for word in words {
            assert!(!text.contains(word), "{} says \"{word}\"", document.display());
        }
    }
    let sources = ["src", "tests", "policy"].iter().flat_map(|folder| files(folder, ""));
    for path in sources.filter(|path| ["rs", "toml", "json", "md"].iter().any(|kind| path.extension().is_some_and(|e| e == *kind))) {
        let text = read(&path);
        for word in &words[..2] {
            assert!(!text.contains(word), "{} says \"{word}\"", path.display());
        }
    }
}
