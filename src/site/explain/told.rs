//! What a backend would be told of a request: each parameter, or each line of its head; and where from it may have files sent.
//!
//! Runs in `anchorite explain`; does no I/O.

use super::line::{Behind, Line, shown};
use crate::config::{Backend, Protocol};
use crate::proto::head::Framing;
use crate::site::facts::Facts;
use crate::site::lookup::RootRef;
use crate::site::parameters::{Conveyed, Parameters, Program, server_name};
use crate::site::plan::Plan;
use crate::site::relay::{self, Relayed};
use crate::site::script::Script;
use crate::site::{Compiled, Sites};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Everything that it is told, a line each.
pub(super) fn lines(
    (sites, site): (&Sites, &Compiled),
    plan: &Plan,
    facts: &Facts<'_>,
    framing: Framing,
    behind: &Behind<'_>,
) -> Vec<Line> {
    let Some((script, backend)) = plan.script().and_then(|script| Some((script, behind.backends.get(usize::from(script.backend))?))) else {
        return Vec::new();
    };
    let mut lines = match backend.protocol {
        Protocol::Http => head(site, plan, facts, framing, (behind, backend)),
        Protocol::FastCgi | Protocol::Scgi | Protocol::Uwsgi => parameters((sites, site), plan, facts, framing, (behind, backend, script)),
        Protocol::Cgi => {
            let mut lines = vec![whom(sites, behind, script)];
            lines.extend(parameters((sites, site), plan, facts, framing, (behind, backend, script)));
            lines
        }
    };
    lines.extend(backend.sendfile.as_deref().map(|path| {
        let directory = path.as_os_str().as_bytes();
        let text = format!("a file that it names by X-Sendfile is sent from beneath \"{}\"", shown(directory));
        Line::new("sendfile", text).with("directory", directory)
    }));
    lines
}

/// Whom a program runs as, or why it does not.
fn whom(sites: &Sites, behind: &Behind<'_>, script: &Script) -> Line {
    let base = sites.directories().get(script.root.0).map_or_else(PathBuf::new, |base| (behind.resolve)(&base.path));
    let path = if script.file.is_empty() { base } else { base.join(std::ffi::OsStr::from_bytes(&script.file)) };
    let program = shown(path.as_os_str().as_bytes());
    match (behind.examine)(&path) {
        Ok(user) => Line::new("program", format!("program \"{program}\" runs as user id {user}")).with("user", user.to_string()),
        Err(why) => Line::new("program", format!("program \"{program}\" is not run: {why}")).with("why", why),
    }
}

fn head(site: &Compiled, plan: &Plan, facts: &Facts<'_>, framing: Framing, (behind, backend): (&Behind<'_>, &Backend)) -> Vec<Line> {
    let relayed = Relayed {
        path: plan.path(facts),
        query: plan.query(facts),
        server_name: &server_name(&site.site.name, behind.server.map(|(address, _)| address)),
        framing,
        upgrade: relay::upgrade(facts, true, framing),
        chain: behind.chain,
        trusted: behind.trusted,
        keep: backend.keep > 0,
    };
    let mut bytes = Vec::new();
    relay::head(facts, &relayed, &mut bytes);
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty());
    lines.map(|line| Line::new("head", format!("head {}", shown(line))).with("line", line)).collect()
}

fn parameters(
    (sites, site): (&Sites, &Compiled),
    plan: &Plan,
    facts: &Facts<'_>,
    framing: Framing,
    (behind, backend, script): (&Behind<'_>, &Backend, &Script),
) -> Vec<Line> {
    let resolved: Vec<PathBuf> = sites.directories().iter().map(|base| (behind.resolve)(&base.path)).collect();
    let base = |root: RootRef| resolved.get(root.0).map_or(&b""[..], |path| path.as_os_str().as_bytes());
    let places = script.places(base, backend.script_root.as_ref().map(|root| root.as_os_str().as_bytes()));
    let path = plan.path(facts).bytes();
    let (name, path_info) = path.split_at_checked(script.name).unwrap_or((path, b""));
    let program = Program { name, path_info, file: &places.file, document_root: &places.document_root };
    let conveyed = Conveyed {
        protocol: "HTTP/1.1",
        query: plan.query(facts).unwrap_or_default(),
        // That of a body in chunks is known when all of it has come.
        content_length: if let Framing::Length(length) = framing { Some(length) } else { None },
        server_name: &server_name(&site.site.name, behind.server.map(|(address, _)| address)),
        server: behind.server,
        client_port: None,
        software: behind.software,
        env: &backend.env,
    };
    let mut parameters = Parameters::default();
    parameters.collect(facts, &program, &conveyed);
    let line = |(name, value): (&[u8], &[u8])| {
        let text = format!("parameter {} = \"{}\"", shown(name), shown(value));
        Line::new("parameter", text).with("name", name).with("value", value)
    };
    parameters.iter().map(line).collect()
}
