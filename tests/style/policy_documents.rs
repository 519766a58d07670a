//! The table of roles in SECURITY.md and anchorite-privsep(7) is the one that the policy makes.
//!
//! The counts are those of `x86_64`; an architecture without some of the calls has fewer.

use crate::source::read;
use anchorite::role::Role;
use anchorite::sys::policy::{Grant, Policy, User};

/// What the table says of a role: title of the column, content. Content may quote names in backticks.
fn facts(policy: &Policy) -> [(&'static str, String); 7] {
    [
        ("user", user(policy).to_owned()),
        ("sees", policy.sees.to_owned()),
        ("may do", policy.purpose.to_owned()),
        ("capabilities", names(policy.capabilities, "none")),
        ("own namespaces", names(policy.namespaces, "none")),
        ("system calls", calls(policy)),
        ("messages", messages(policy)),
    ]
}

fn user(policy: &Policy) -> &'static str {
    match policy.user {
        User::Root => "root, or whoever starts the service",
        User::Service => "the user of the service, never root",
        User::Keys => "`anchorite-keys` where there is such a user, else the user of the service; never root",
    }
}

fn names(grants: &[Grant], none: &str) -> String {
    let names: Vec<&str> = grants.iter().map(|grant| grant.name).collect();
    if names.is_empty() { none.to_owned() } else { names.join(", ") }
}

fn calls(policy: &Policy) -> String {
    let (allowed, answered, denied) = (policy.allow.len(), policy.enosys.len(), policy.deny.len());
    if denied > 0 {
        format!("all but {denied}, which are answered EPERM")
    } else {
        format!("{allowed}; {answered} more are answered ENOSYS, any other ends the process")
    }
}

fn messages(policy: &Policy) -> String {
    let texts: Vec<String> = policy.messages.iter().map(|grant| format!("`{}`: {}", grant.name, grant.reason)).collect();
    texts.join("; ")
}

fn markdown() -> String {
    let mut table = String::new();
    for (index, role) in Role::ALL.into_iter().enumerate() {
        let facts = facts(Policy::of(role));
        if index == 0 {
            let titles: Vec<&str> = facts.iter().map(|(title, _)| *title).collect();
            table.push_str(&format!("| role | {} |\n|{}\n", titles.join(" | "), "---|".repeat(facts.len() + 1)));
        }
        let cells: Vec<&str> = facts.iter().map(|(_, content)| content.as_str()).collect();
        table.push_str(&format!("| `{}` | {} |\n", role.name(), cells.join(" | ")));
    }
    table
}

fn mdoc() -> String {
    let mut list = ".Bl -tag -width Ds\n".to_owned();
    for role in Role::ALL {
        list.push_str(&format!(".It Em {}\n.Bl -tag -width \"own namespaces\" -compact\n", role.name()));
        for (title, content) in facts(Policy::of(role)) {
            let content = content.replace('\\', "\\e").replace('`', "");
            list.push_str(&format!(".It {title}\n{}\n", content.trim_start_matches(['.', '\''])));
        }
        list.push_str(".El\n");
    }
    list + ".El\n"
}

/// The lines between the two that hold the markers.
fn between_markers(document: &str) -> String {
    let text = read(document);
    let after = text.split("role table: begin").nth(1).and_then(|rest| rest.split_once('\n'));
    let table = after.and_then(|(_, rest)| rest.split("role table: end").next());
    let table = table.unwrap_or_else(|| panic!("{document} has no markers \"role table: begin\" and \"role table: end\""));
    table.rsplit_once('\n').map_or(String::new(), |(lines, _)| format!("{lines}\n"))
}

fn compare(document: &str, wanted: &str) {
    let found = between_markers(document);
    assert!(found == wanted, "{document}: between the markers should stand:\n{wanted}\nand not:\n{found}");
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the documents give the counts of x86_64")]
fn the_table_of_roles_in_security_md_is_that_of_the_policy() {
    compare("SECURITY.md", &markdown());
}

#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the documents give the counts of x86_64")]
fn the_table_of_roles_in_the_manual_is_that_of_the_policy() {
    compare("man/anchorite-privsep.7", &mdoc());
}

#[test]
fn the_numbers_in_the_readme_are_those_of_the_policy() {
    let readme = read("README.md");
    let number = |role, field: fn(&Policy) -> usize| field(Policy::of(role));
    for text in [
        format!("list of {} system calls", number(Role::Worker, |policy| policy.allow.len())),
        format!("may     {} system calls", number(Role::Worker, |policy| policy.allow.len())),
        format!("may   {} system calls", number(Role::Log, |policy| policy.allow.len())),
        format!("may   {} system      |", number(Role::Files, |policy| policy.allow.len())),
        format!("root, {} capabilities", number(Role::Parent, |policy| policy.capabilities.len())),
    ] {
        assert!(readme.replace('\n', " ").contains(&text), "README.md does not say \"{text}\"");
    }
}
