//! The decision about a request: it ends whatever the disk says, never asks for what lies outside, and redirects nowhere else.

#![no_main]

use anchorite::config;
use anchorite::proto::head::{self, HeadLimits, Request};
use anchorite::proto::target::{self, Path};
use anchorite::site::facts::{Facts, Origin};
use anchorite::site::plan::{Answer, Outcome, Plan, Step};
use anchorite::site::{Compiled, Door, Sites};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

const LIMITS: HeadLimits = HeadLimits { request_line: 4096, header_bytes: 4096, header_count: 32 };

/// Questions for one request: rules and index files are few, so that more is going in circles.
const QUESTIONS_MAX: usize = 200;

static SITES: LazyLock<Sites> = LazyLock::new(|| {
    let text = include_str!("plan.toml");
    let config = config::parse(text, std::path::Path::new("/nowhere/a.toml")).unwrap_or_else(|fault| panic!("{fault}"));
    Sites::new(config.sites)
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((answers, bytes)) = data.split_first_chunk::<8>() else { return };
    let mut space = head::field_space();
    let Ok(request) = head::parse(bytes, &mut space, &LIMITS) else { return };
    let mut path = Path::default();
    if target::parse_into(request.path, &mut path).is_err() {
        return;
    }
    let site = SITES.select_at(Door::default(), request.host);
    decide(SITES.compiled(site), &request, &path, u64::from_le_bytes(*answers));
});

fn decide(site: &Compiled, request: &Request<'_, '_>, path: &Path, answers: u64) {
    let client = IpAddr::V4(Ipv4Addr::from(u32::try_from(answers & 0xFFFF_FFFF).unwrap_or(0)));
    let facts = Facts { request_id: b"0123456789abcdef", ..Facts::of(request, path, Origin::direct(client)) };
    let mut plan = Plan::default();
    let step = plan.begin::<()>(site, &facts);
    let outcome = finish(site, &facts, &mut plan, step, answers);
    check(site, &facts, &plan, outcome);
    if let Outcome::Status(status) = outcome
        && let Some(step) = plan.begin_error_page::<()>(site, &facts, status)
    {
        let outcome = finish(site, &facts, &mut plan, step, answers.rotate_right(7));
        check(site, &facts, &plan, outcome);
    }
}

fn finish(site: &Compiled, facts: &Facts<'_>, plan: &mut Plan, mut step: Step<()>, mut answers: u64) -> Outcome<()> {
    for _ in 0..QUESTIONS_MAX {
        match step {
            Step::Done(outcome) => return outcome,
            Step::Ask => {
                let asked = plan.lookup().path.to_vec();
                assert!(!asked.starts_with(b"/") && !asked.contains(&0), "{}", String::from_utf8_lossy(&asked));
                assert!(!asked.split(|byte| *byte == b'/').any(|segment| segment == b".."), "{}", String::from_utf8_lossy(&asked));
                let answer = match answers % 8 {
                    0 | 1 => Answer::File(()),
                    2 | 3 => Answer::Directory,
                    4 => Answer::Denied,
                    5 => Answer::NotRegular,
                    _ => Answer::Missing,
                };
                answers = answers.rotate_right(3);
                step = plan.resume(site, facts, answer);
            }
        }
    }
    panic!("{QUESTIONS_MAX} questions for one request");
}

fn check(site: &Compiled, facts: &Facts<'_>, plan: &Plan, outcome: Outcome<()>) {
    if let Outcome::Redirect(status) = outcome {
        let mut location = Vec::new();
        plan.location(site, facts, &mut location);
        let text = String::from_utf8_lossy(&location);
        assert!((301..=308).contains(&status.code()), "{status:?}");
        assert!(location.iter().all(|byte| matches!(byte, b'!'..=b'~')), "{text}");
        let own = location.first() == Some(&b'/') && !matches!(location.get(1), Some(b'/' | b'\\'));
        assert!(own || text.starts_with("https://fixed.example/") || text.starts_with("https://www.example.org/"), "{text}");
    }
    for (name, value) in &plan.changes().headers {
        assert!(value.iter().all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7F)), "{name}: {}", String::from_utf8_lossy(value));
    }
}
