//! Why a request is answered as it is: the decision that the worker would make, made offline with each step told.
//!
//! Used by `anchorite explain`; does no I/O: whoever calls answers the look-ups.

mod coding;
mod condition;
mod fields;
mod line;
mod told;

pub use line::{Behind, Circumstances, NotListed, Seen, shown};

use super::facts::{Facts, Scheme};
use super::listing::{Format, Order};
use super::lookup::{Base, Stands};
use super::plan::{Answer, Lookup, Outcome, Plan, Step};
use super::template::{Client, STATUS};
use super::trace::{Answered, Event, Mismatch};
use super::{Chosen, Compiled, Door, Sites, https};
use crate::config::{Act, Page};
use crate::proto::body::{Body, BodyLimits};
use crate::proto::status::Status;
use line::{Line, full, place};
use std::os::unix::ffi::OsStrExt;

/// What came of a request, and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The number of the site.
    pub site: usize,
    /// What the answer is.
    pub outcome: Outcome<()>,
    lines: Vec<Line>,
}

/// Decides about a request that came in at a door. `look` answers what is asked of the disk, perhaps with a note for the reader: the error, and the component of the
/// path that refuses.
pub fn explain(
    sites: &Sites,
    door: Door,
    facts: &Facts<'_>,
    circumstances: &Circumstances<'_>,
    behind: &Behind<'_>,
    mut look: impl FnMut(&Base, Lookup<'_>) -> (Answer<Seen>, Option<String>),
) -> Explanation {
    let (number, chosen) = sites.choose(door, facts.host);
    let site = sites.compiled(number);
    let (mut plan, mut events, mut notes) = (Plan::default(), Vec::new(), Vec::new());
    let mut step = plan.begin_traced::<Seen>(site, facts, &mut events);
    let outcome = loop {
        match step {
            Step::Done(outcome) => break outcome,
            Step::Ask => {
                let lookup = plan.lookup();
                let (answer, note) = match sites.directories().get(lookup.root.0) {
                    Some(base) => look(base, lookup),
                    None => (Answer::Missing, None),
                };
                notes.push(note);
                step = plan.resume_traced(site, facts, answer, &mut events);
            }
        }
    };
    let mut lines = vec![site_line(site, number, chosen), path_line(facts)];
    lines.extend(client_line(facts));
    if !facts.user.is_empty() {
        let text = format!("takes user \"{}\" for one whose password is right, which is not looked at", shown(facts.user));
        lines.push(Line::new("user", text).with("user", facts.user));
    }
    let mut notes = notes.into_iter();
    lines.extend(events.iter().map(|event| {
        let note = if matches!(event, Event::Answered(_)) { notes.next().flatten() } else { None };
        event_line(event, note, sites, site, facts)
    }));
    let content = plan.changes().body.unwrap_or(circumstances.body_max);
    let seen = if let Outcome::File(seen) = &outcome { Some(*seen) } else { None };
    let outcome = match Body::begin(circumstances.framing, &BodyLimits { content, trailer_bytes: 0, trailer_count: 0 }) {
        Ok(_) => outcome.without_file(),
        Err(reject) => {
            lines.push(Line::new("too_large", format!("takes a body of at most {content} bytes")).number("bytes", content));
            Outcome::Status(reject.status)
        }
    };
    let base = sites.directories().get(plan.lookup().root.0).filter(|_| outcome == Outcome::Listing);
    let outcome = base.and_then(|base| (behind.not_listed)(base, plan.lookup())).map_or(outcome, |(status, why)| {
        lines.push(Line::new("not_listed", format!("cannot list: {why}")).with("note", why));
        Outcome::Status(status)
    });
    let seen = seen.filter(|_| outcome == Outcome::File(()));
    let sent = seen.map(|seen| coding::of_file((sites, site), &mut plan, facts, circumstances, seen, &mut look));
    let condition = sent.as_ref().and_then(|sent| condition::of_file(circumstances, plan.changes(), sent, behind.now));
    lines.push(outcome_line(sites, site, &plan, facts, outcome, condition));
    if let Some(sent) = sent.as_ref().filter(|_| condition.is_none()) {
        lines.extend(fields::of_file((sites, site), &plan, circumstances, sent, behind.now));
    }
    lines.extend(match sent {
        Some(sent) => sent.line,
        None if outcome == Outcome::Listing => coding::of_listing(site, &plan, circumstances),
        None => None,
    });
    let status = condition.map_or(outcome.status(), |(status, _)| Some(status));
    lines.extend(change_lines(&plan, status));
    lines.extend(hsts_line(site, &plan, facts));
    if outcome == Outcome::Backend {
        lines.extend(told::lines((sites, site), &plan, facts, circumstances.framing, behind));
    }
    let outcome = condition.filter(|(status, _)| status.code() >= 400).map_or(outcome, |(status, _)| Outcome::Status(status));
    // That a range cannot be had is said without a page.
    if outcome != Outcome::Status(Status::RANGE_NOT_SATISFIABLE) {
        lines.extend(error_page_line(sites, site, &mut plan, facts, outcome, look));
    }
    Explanation { site: number, outcome, lines }
}

impl Explanation {
    /// A line for each step, for people.
    pub fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{}\n", line.text)).collect()
    }

    /// A JSON object on a line for each step; `what` says which kind of step it is.
    pub fn json(&self) -> String {
        let mut out = Vec::new();
        for line in &self.lines {
            for (at, (name, member)) in line.members.iter().enumerate() {
                out.extend_from_slice(if at == 0 { b"{\"" } else { b",\"" });
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
                member.write(&mut out);
            }
            out.extend_from_slice(b"}\n");
        }
        out.into_iter().map(char::from).collect()
    }

    /// Whether the request gets what it asked for: neither an error nor a refusal.
    pub fn is_answered(&self) -> bool {
        match self.outcome {
            Outcome::File(()) | Outcome::Listing | Outcome::Redirect(_) | Outcome::Page(_) | Outcome::Allow | Outcome::Backend => true,
            Outcome::Status(status) | Outcome::ErrorPage(status, ()) | Outcome::Respond(status) => status.code() < 400,
            Outcome::MethodNotAllowed | Outcome::Source | Outcome::Login(_) => false,
        }
    }
}

impl<F> Outcome<F> {
    /// That of the answer; `None`: a backend says it.
    fn status(&self) -> Option<Status> {
        match self {
            Outcome::File(_) | Outcome::Listing | Outcome::Page(_) => Some(Status::OK),
            Outcome::Redirect(status) | Outcome::Status(status) | Outcome::ErrorPage(status, _) | Outcome::Respond(status) => Some(*status),
            Outcome::Source => Some(Status::FORBIDDEN),
            Outcome::Login(_) => Some(Status::UNAUTHORIZED),
            Outcome::Allow => Some(Status::NO_CONTENT),
            Outcome::MethodNotAllowed => Some(Status::METHOD_NOT_ALLOWED),
            Outcome::Backend => None,
        }
    }

    fn without_file(self) -> Outcome<()> {
        match self {
            Outcome::File(_) => Outcome::File(()),
            Outcome::Listing => Outcome::Listing,
            Outcome::Redirect(status) => Outcome::Redirect(status),
            Outcome::Status(status) | Outcome::ErrorPage(status, _) => Outcome::Status(status),
            Outcome::Respond(status) => Outcome::Respond(status),
            Outcome::Page(page) => Outcome::Page(page),
            Outcome::Backend => Outcome::Backend,
            Outcome::Source => Outcome::Source,
            Outcome::Login(realm) => Outcome::Login(realm),
            Outcome::Allow => Outcome::Allow,
            Outcome::MethodNotAllowed => Outcome::MethodNotAllowed,
        }
    }
}

fn site_line(site: &Compiled, number: usize, chosen: Chosen) -> Line {
    let name = site.site.name.first().map_or("", String::as_str);
    let why = match chosen {
        Chosen::Name => "has the host's name",
        Chosen::Wildcard => "has a wildcard for the host",
        Chosen::Default => "takes hosts that no site names",
    };
    Line::new("site", format!("site {} \"{}\": {why}", number + 1, shown(name.as_bytes())))
        .number("site", number + 1)
        .with("name", name)
        .with("because", why)
        .with("root", site.site.root.as_os_str().as_bytes())
}

/// Who asks, where that is not whoever was said to.
fn client_line(facts: &Facts<'_>) -> Option<Line> {
    let (client, scheme) = (client(facts), facts.scheme.name());
    let is_local = facts.client.is_unspecified();
    let text = match (facts.forwarded, is_local) {
        (true, _) => format!("asked by {client} over {scheme}, as a trusted proxy says"),
        (false, true) => {
            format!("asked over a socket in the file system: \"allow\", \"deny\" and \"client\" take {} for the client", facts.client)
        }
        (false, false) => return None,
    };
    Some(Line::new("client", text).with("client", client).with("scheme", scheme))
}

fn client(facts: &Facts<'_>) -> String {
    Client(facts.client.to_canonical()).to_string()
}

fn path_line(facts: &Facts<'_>) -> Line {
    Line::new("path", format!("path \"{}\"", shown(facts.path.bytes()))).with("path", facts.path.bytes())
}

fn event_line(event: &Event, note: Option<String>, sites: &Sites, site: &Compiled, facts: &Facts<'_>) -> Line {
    let named = |rule: usize| format!("rule {} ({})", rule + 1, place(site, rule));
    match event {
        Event::Access { rule, refuses } => {
            let client = client(facts);
            let verb = if *refuses { "refuses" } else { "permits" };
            Line::new("access", format!("{} {verb} client {client}", named(*rule))).rule(site, *rule).truth("permits", !refuses)
        }
        Event::Login { rule } => {
            let realm = site.site.rules.get(*rule).and_then(|rule| rule.changes.auth.as_ref()).map_or("", |auth| auth.name.as_str());
            Line::new("login", format!("{} asks for a user of [auth.{realm}]", named(*rule))).rule(site, *rule).with("auth", realm)
        }
        Event::Rule { rule, mismatch: None } => {
            Line::new("rule", format!("{} matches", named(*rule))).rule(site, *rule).truth("matches", true)
        }
        Event::Rule { rule, mismatch: Some(mismatch) } => {
            let because = because(mismatch);
            Line::new("rule", format!("{} does not match: {because}", named(*rule)))
                .rule(site, *rule)
                .truth("matches", false)
                .with("because", because)
        }
        Event::Act { rule, act } => Line::new("act", format!("{} does \"{act}\"", named(*rule))).rule(site, *rule).with("act", act),
        Event::Rewritten { rule, path, query } => {
            let mut text = format!("{} makes the path \"{}\"", named(*rule), shown(path));
            if let Some(query) = query {
                text.push_str(&format!(", the query \"{}\"", shown(query)));
            }
            let line = Line::new("rewritten", text).rule(site, *rule).with("path", path);
            match query {
                Some(query) => line.with("query", query),
                None => line,
            }
        }
        Event::Candidate { rule, path, taken } => {
            let verb = if *taken { "takes" } else { "passes over" };
            Line::new("candidate", format!("{} {verb} \"{}\"", named(*rule), shown(path)))
                .rule(site, *rule)
                .with("path", path)
                .truth("taken", *taken)
        }
        Event::Asked { root, path } => {
            let full = full(sites, Lookup { root: *root, path });
            Line::new("asked", format!("looks up \"{}\"", shown(&full))).with("file", full)
        }
        Event::Answered(answer) => {
            let word = answer.word();
            let text = note.as_ref().map_or_else(|| format!("finds {word}"), |note| format!("finds {word}: {note}"));
            let line = Line::new("answered", text).with("found", word);
            match note {
                Some(note) => line.with("note", note),
                None => line,
            }
        }
        Event::Script { rule, backend, name, info, checked } => {
            let (script, rest) = (shown(name), shown(info));
            let found = if *checked { "" } else { ", not looked up" };
            let text = format!("{} hands it to backend \"{backend}\": SCRIPT_NAME \"{script}\", PATH_INFO \"{rest}\"{found}", named(*rule));
            Line::new("script", text)
                .rule(site, *rule)
                .with("backend", backend)
                .with("script_name", name)
                .with("path_info", info)
                .truth("looked_up", *checked)
        }
        Event::ScriptIndex { path } => {
            Line::new("script_index", format!("the index is a script: the rules run again with \"{}\"", shown(path))).with("path", path)
        }
        Event::Plain => Line::new("plain", "the request is plain, and \"https_redirect\" sends it to https".to_owned()),
        Event::Hidden => Line::new("hidden", "a name in the path is hidden by \"hidden\"".to_owned()),
        Event::NamesNoFile => {
            Line::new("nameless", "the path names no file: a segment of it holds a slash, or may not be put into a name".to_owned())
        }
    }
}

fn outcome_line(
    sites: &Sites,
    site: &Compiled,
    plan: &Plan,
    facts: &Facts<'_>,
    outcome: Outcome<()>,
    condition: Option<(Status, &'static str)>,
) -> Line {
    let file = full(sites, plan.lookup());
    let line = |text: String| Line::new("answer", format!("answers {text}"));
    let status = |status: Status| line(status.to_string()).number("status", status.code());
    if let Some((code, why)) = condition {
        return line(format!("{code}, of the file \"{}\": {why}", shown(&file))).number("status", code.code()).with("file", file);
    }
    match outcome {
        Outcome::File(()) => line(format!("with the file \"{}\"", shown(&file))).number("status", 200u16).with("file", file),
        Outcome::Listing => {
            let (format, order) = (Format::wanted(facts.fields), Order::of_query(plan.query(facts)));
            let how = format!("as {}, by {} ({})", format.name(), order.key.word(), order.word());
            let by = plan.listing_rule();
            let allowed = by.map_or_else(|| "the site".to_owned(), |rule| format!("rule {} ({})", rule + 1, place(site, rule)));
            let line = line(format!("with the listing of \"{}\", {how}, which {allowed} allows", shown(&file)))
                .number("status", 200u16)
                .with("listing", file)
                .with("format", format.name())
                .with("sort", order.key.word())
                .with("order", order.word());
            match by {
                Some(rule) => line.rule(site, rule),
                None => line,
            }
        }
        Outcome::Redirect(code) => {
            let mut location = Vec::new();
            plan.location(site, facts, &mut location);
            line(format!("{code}, Location: {}", shown(&location))).number("status", code.code()).with("location", location)
        }
        Outcome::Status(code) | Outcome::ErrorPage(code, ()) => status(code),
        Outcome::Respond(code) => match plan.body() {
            Some(body) => status(code).with("body", body),
            None => status(code),
        },
        Outcome::Page(page) => {
            let name = match page {
                Page::Status => "status",
                Page::Metrics => "metrics",
                Page::Health => "health",
            };
            line(format!("with the page \"{name}\"")).number("status", 200u16).with("page", name)
        }
        Outcome::Backend => {
            let to = backend(site, plan);
            line(format!("with what backend \"{to}\" makes of \"{}\"", shown(&file))).with("backend", to).with("script", file)
        }
        Outcome::Source => {
            let what = format!("{}: \"{}\" is the source of a script, and no rule hands it to a backend", Status::FORBIDDEN, shown(&file));
            line(what).number("status", Status::FORBIDDEN.code()).with("source", file)
        }
        Outcome::Login(_) => status(Status::UNAUTHORIZED),
        Outcome::Allow => status(Status::NO_CONTENT).with("allow", super::plan::ALLOW),
        Outcome::MethodNotAllowed => status(Status::METHOD_NOT_ALLOWED).with("allow", super::plan::ALLOW),
    }
}

/// The name of the backend that a plan ended with.
fn backend<'s>(site: &'s Compiled, plan: &Plan) -> &'s str {
    let number = plan.script().map(|script| script.backend);
    let to = site.site.rules.iter().find_map(|rule| match &rule.act {
        Some(Act::Backend(to)) if Some(to.backend) == number => Some(to),
        Some(
            Act::Root(_) | Act::Alias(_) | Act::Redirect { .. } | Act::Rewrite(_) | Act::Try(_) | Act::Respond { .. } | Act::Backend(_),
        )
        | None => None,
    });
    to.map_or("", |to| to.name.as_str())
}

/// Whether the site has a page for the error, and whether a client gets it, looked for as the worker does.
fn error_page_line<F>(
    sites: &Sites,
    site: &Compiled,
    plan: &mut Plan,
    facts: &Facts<'_>,
    outcome: Outcome<()>,
    mut look: impl FnMut(&Base, Lookup<'_>) -> (Answer<F>, Option<String>),
) -> Option<Line> {
    let code = plan.page_of(&outcome)?;
    let Step::Ask = plan.begin_error_page::<F>(site, facts, code)? else { return None };
    let file = full(sites, plan.lookup());
    let (answer, note) = look(sites.directories().get(plan.lookup().root.0)?, plan.lookup());
    let mut events = Vec::new();
    let sent = matches!(plan.resume_traced(site, facts, answer, &mut events), Step::Done(Outcome::ErrorPage(..)));
    let found = events.iter().find_map(|event| if let Event::Answered(answer) = event { Some(answer.word()) } else { None });
    let page = shown(&file);
    let text = if sent {
        format!("its page is \"{page}\"")
    } else {
        let why = note.unwrap_or_else(|| found.unwrap_or_default().to_owned());
        format!("its page \"{page}\" cannot be had: {why}; the client gets the built-in one")
    };
    Some(Line::new("error_page", text).number("status", code.code()).with("file", file).truth("sent", sent))
}

/// What the site says to browsers of later visits, unless a rule says something else.
fn hsts_line(site: &Compiled, plan: &Plan, facts: &Facts<'_>) -> Option<Line> {
    let by_rule = plan.changes().headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(https::HSTS));
    let value = https::hsts(site.site.hsts.filter(|_| facts.scheme == Scheme::Https && !by_rule)?);
    let text = format!("sets header {}: {}", https::HSTS, shown(&value));
    Some(Line::new("header", text).with("name", https::HSTS).with("value", &value))
}

fn change_lines(plan: &Plan, status: Option<Status>) -> Vec<Line> {
    let changes = plan.changes();
    let status = status.map_or_else(|| "{status}".to_owned(), |status| status.code().to_string());
    let header = |(name, value): &(std::sync::Arc<str>, std::sync::Arc<[u8]>)| {
        let value = value.split(|byte| *byte == STATUS).collect::<Vec<_>>().join(status.as_bytes());
        let text = match value.is_empty() {
            true => format!("removes header {name}"),
            false => format!("sets header {name}: {}", shown(&value)),
        };
        Line::new("header", text).with("name", name.as_bytes()).with("value", value)
    };
    let mut lines: Vec<Line> = changes.headers.iter().map(header).collect();
    if let Some(expires) = changes.expires {
        lines.push(Line::new("expires", format!("expires in {} s", expires.as_secs())).number("seconds", expires.as_secs()));
    }
    if let Some(body) = changes.body {
        lines.push(Line::new("body", format!("takes a body of at most {body} bytes")).number("bytes", body));
    }
    if let Some(rate) = changes.rate {
        lines.push(Line::new("rate", format!("sends at most {rate} bytes a second")).number("rate", rate));
    }
    if let Some(cache) = changes.cache {
        let text = match cache.is_zero() {
            true => "looks at the disk for each request".to_owned(),
            false => format!("answers from memory for {cache:?} before it looks at the disk again"),
        };
        lines.push(Line::new("cache", text).number("milliseconds", cache.as_millis()));
    }
    if let Some(codings) = &changes.compress {
        let names: Vec<&str> = codings.iter().map(|coding| coding.name()).collect();
        let text = if names.is_empty() { "is not encoded".to_owned() } else { format!("may be encoded with {}", names.join(", ")) };
        lines.push(Line::new("compress", text).with("compress", names.join(" ")));
    }
    lines.extend(changes.requests.iter().map(|quota| {
        let rate = quota.rate.to_string();
        Line::new("requests", format!("takes {rate} requests of each client")).with("rate", rate)
    }));
    lines
}

fn because(mismatch: &Mismatch) -> String {
    match mismatch {
        Mismatch::Method => "method".to_owned(),
        Mismatch::Client => "client".to_owned(),
        Mismatch::Host => "host".to_owned(),
        Mismatch::RequestHeader(name) => format!("request_header {name}"),
        Mismatch::Path => "path".to_owned(),
        Mismatch::Regex => "regex".to_owned(),
        Mismatch::Exists => "exists".to_owned(),
    }
}

impl Answered {
    fn word(self) -> &'static str {
        match self {
            Answered::Stands(Stands::File) => "a regular file",
            Answered::Stands(Stands::Directory) => "a directory",
            Answered::Stands(Stands::Nothing) => "nothing",
            Answered::Stands(Stands::Other) => "neither file nor directory",
            Answered::Denied => "permission denied",
            Answered::Busy => "no answer now",
            Answered::Failed => "an error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Act, Directory, Network, Rule, RulePlace, Template};
    use crate::proto::coding::Wanted;
    use crate::proto::head::Framing;
    use crate::site::facts::tests::Asked;
    use crate::site::template::tests::template;
    use crate::site::tests::site;
    use std::path::Path;

    fn rule(line: u32, path: &str, act: Option<Act>) -> Rule {
        let mut rule = Rule { act, place: RulePlace { file: "a.toml".into(), line }, ..Rule::default() };
        rule.matchers.path = vec![path.into()];
        rule
    }

    fn explained(target: &str) -> Explanation {
        let mut first = site(&["b.test"]);
        first.rules = Vec::new();
        let mut second = site(&["*.test", "a.test"]);
        let mut header = rule(3, "/*", None);
        header.changes.header.push(("X-A".into(), template("{path}\u{1b}")));
        let mut deny = rule(5, "/secret/*", None);
        deny.changes.deny = vec![Network { address: [192, 0, 2, 0].into(), bits: 24 }];
        let icons = Directory { base: "/icons".into(), rest: Template::default() };
        second.rules =
            vec![header, deny, rule(9, "/icons/*", Some(Act::Alias(icons))), rule(12, "*.old", Some(Act::Rewrite(template("/new?a=1"))))];
        let sites = Sites::new(vec![first, second]);
        let asked = Asked::get(target);
        let behind = Behind {
            now: 0,
            backends: &[],
            server: None,
            software: b"",
            chain: &[],
            trusted: false,
            resolve: &Path::to_owned,
            examine: &|_| Ok(0),
            not_listed: &|_, _| None,
        };
        let circumstances = Circumstances { framing: Framing::None, body_max: 0, wanted: Wanted::PLAIN, request: None, mime: &[] };
        explain(&sites, Door::default(), &asked.facts(), &circumstances, &behind, |base, lookup| match (base.path.to_str(), lookup.path) {
            (Some("/icons"), b"x.png") => (Answer::File(Seen { size: 1, modified: 0, modified_ns: 0 }), None),
            (Some("/icons"), b"no") => (Answer::Denied, Some("open \"/icons\": permission denied".into())),
            _ => (Answer::Missing, None),
        })
    }

    #[test]
    fn every_step_is_told() {
        assert_eq!(
            explained("/icons/x.png").text(),
            "site 2 \"*.test\": has the host's name\n\
             path \"/icons/x.png\"\n\
             rule 1 (a.toml:3) matches\n\
             rule 2 (a.toml:5) does not match: path\n\
             rule 3 (a.toml:9) matches\n\
             rule 3 (a.toml:9) does \"alias\"\n\
             looks up \"/icons/x.png\"\n\
             finds a regular file\n\
             answers with the file \"/icons/x.png\"\n\
             sends header Content-Type: image/png\n\
             sends header ETag: \"0.0-1\"\n\
             sends header Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\n\
             sends header Content-Length: 1\n\
             sets header X-A: /icons/x.png%1B\n"
        );
        let text = explained("/icons/no").text();
        assert!(text.contains("finds permission denied: open \"/icons\": permission denied\nanswers 403 Forbidden\n"), "{text}");
        let text = explained("/x.old").text();
        assert!(text.contains("rule 4 (a.toml:12) makes the path \"/new\", the query \"a=1\"\n"), "{text}");
        let text = explained("/secret/x").text();
        assert!(text.contains("rule 2 (a.toml:5) refuses client 192.0.2.1\n"), "{text}");
        assert!(text.contains("answers 403 Forbidden\n"), "{text}");
        assert!(explained("/.git").text().contains("hidden"));
        assert!(explained("/a%2Fb").text().contains("names no file"));
        assert!(!explained("/%1b%5b2J%0d%0a%22").text().contains(['\u{1b}', '\r']));
    }

    #[test]
    fn every_line_is_json() {
        for target in ["/icons/x.png", "/icons/no", "/icons", "/x.old", "/secret/x", "/.git", "/a%2Fb", "/%ff%22%0d"] {
            let explanation = explained(target);
            for line in explanation.json().lines() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|fault| panic!("{line}: {fault}"));
                assert!(value["what"].is_string(), "{line}");
            }
        }
        assert!(explained("/icons/x.png").is_answered());
        assert!(!explained("/nothing").is_answered());
    }
}
