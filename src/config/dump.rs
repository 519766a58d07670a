//! A configuration as the text of a file that means the same, defaults filled in. Does no I/O.

use super::quantity::{show_duration, show_rate, show_size};
use super::{
    Act, Auth, Backend, Cgi, Changes, Coding, Config, Directory, Exists, Jail, JailMode, Limits, Listen, Log, LogFormat, LogTarget,
    Matchers, Network, Page, Protocol, Respond, Rule, ScriptPlace, Server, Site, Template, Tls, TlsFiles, TlsSettings, backends, jail, log,
    site,
};
use std::path::Path;
use std::time::Duration;

/// The effective configuration as TOML. What is at its default is there too; reading it gives the same configuration, but for the places
/// of rules.
pub fn dump(config: &Config) -> String {
    let mut out = Writer { text: String::new() };
    server(&config.server, &mut out);
    jail_table(&config.jail, &mut out);
    log_table(&config.log, &mut out);
    mime(&config.mime, &mut out);
    limits(&config.limits, &mut out);
    tls_table(&config.tls, &mut out);
    config.backends.iter().filter(|backend| backend.protocol != Protocol::Cgi).for_each(|backend| backend_table(backend, &mut out));
    cgi_table(&config.cgi, &mut out);
    config.auths.iter().for_each(|auth| auth_table(auth, &mut out));
    for site in &config.sites {
        site_table(site, &mut out);
    }
    out.text
}

struct Writer {
    text: String,
}

impl Writer {
    fn table(&mut self, header: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(header);
        self.text.push('\n');
    }

    /// A key and its value, which is TOML already.
    fn raw(&mut self, key: &str, value: &str) {
        self.text.push_str(key);
        self.text.push_str(" = ");
        self.text.push_str(value);
        self.text.push('\n');
    }

    fn string(&mut self, key: &str, value: &str) {
        self.raw(key, &quote(value));
    }

    fn path(&mut self, key: &str, path: Option<&Path>) {
        self.string(key, &path.map_or(String::new(), |path| path.to_string_lossy().into_owned()));
    }

    fn list<T: ToString>(&mut self, key: &str, values: &[T]) {
        let values: Vec<String> = values.iter().map(|value| quote(&value.to_string())).collect();
        self.raw(key, &format!("[{}]", values.join(", ")));
    }

    /// Left out when empty.
    fn some<T: ToString>(&mut self, key: &str, values: &[T]) {
        if !values.is_empty() {
            self.list(key, values);
        }
    }

    fn pairs<T: ToString>(&mut self, key: &str, pairs: &[(String, T)]) {
        let pair = |(name, value): &(String, T)| format!("{} = {}", quote(name), quote(&value.to_string()));
        let pairs: Vec<String> = pairs.iter().map(pair).collect();
        if !pairs.is_empty() {
            self.raw(key, &format!("{{ {} }}", pairs.join(", ")));
        }
    }
}

fn server(server: &Server, out: &mut Writer) {
    out.table("[server]");
    if let Some(user) = &server.user {
        out.string("user", user);
    }
    if let Some(group) = &server.group {
        out.string("group", group);
    }
    out.raw("workers", &server.workers.to_string());
    out.list("listen", &server.listen);
    out.list("tls_listen", &server.tls_listen);
    out.path("control_socket", server.control_socket.as_deref());
    out.path("pid_file", server.pid_file.as_deref());
    out.path("spool", Some(&server.spool));
    out.string("spool_max", &show_size(server.spool_max));
    out.string("server_header", &server.server_header);
    out.raw("http2_cleartext", &server.http2_cleartext.to_string());
    out.list("proxy_protocol_from", &server.proxies.speaking);
    out.list("trusted_proxies", &server.proxies.trusted);
}

fn jail_table(jail: &Jail, out: &mut Writer) {
    out.table("[jail]");
    match &jail.mode {
        JailMode::Mount => out.string("mode", "mount"),
        JailMode::Chroot(root) => {
            out.string("mode", "chroot");
            out.path("root", Some(root));
        }
    }
    let also: Vec<_> = jail.also.iter().map(|path| path.to_string_lossy()).collect();
    out.list("also", &also);
    let missing: Vec<&str> = jail.allow_missing.iter().map(|layer| word(&jail::LAYERS, layer)).collect();
    out.list("allow_missing", &missing);
}

fn log_table(log: &Log, out: &mut Writer) {
    out.table("[log]");
    out.string("access", &target(&log.access));
    out.string("error", &target(&log.error));
    match &log.format {
        LogFormat::Template(template) => out.string("format", &template.to_string()),
        format @ (LogFormat::Common | LogFormat::Combined | LogFormat::VhostCombined | LogFormat::Json) => {
            out.string("format", word(&log::FORMATS, format));
        }
    }
    out.string("level", word(&log::LEVELS, &log.level));
}

fn mime(types: &[(String, String)], out: &mut Writer) {
    if types.is_empty() {
        return;
    }
    out.table("[mime]");
    for of_one_type in types.chunk_by(|(_, one), (_, other)| one == other) {
        let extensions: Vec<&String> = of_one_type.iter().map(|(extension, _)| extension).collect();
        if let Some((_, kind)) = of_one_type.first() {
            out.list(&quote(kind), &extensions);
        }
    }
}

fn limits(limits: &Limits, out: &mut Writer) {
    out.table("[limits]");
    out.raw("connections", &limits.connections.to_string());
    out.raw("connections_per_client", &limits.connections_per_client.to_string());
    out.string("request_line", &show_size(limits.request_line.into()));
    out.string("header_bytes", &show_size(limits.header_bytes.into()));
    out.raw("header_count", &limits.header_count.to_string());
    out.string("body", &show_size(limits.body));
    let mut duration = |key, value: Duration| out.string(key, &show_duration(value));
    duration("header_timeout", limits.header_timeout);
    duration("body_timeout", limits.body_timeout);
    duration("write_timeout", limits.write_timeout);
    duration("keepalive_timeout", limits.keepalive_timeout);
    duration("drain_timeout", limits.drain_timeout);
    out.string("min_rate", &show_rate(limits.min_rate));
    out.string("requests", &limits.requests.map_or(String::new(), |rate| rate.to_string()));
    out.raw("keepalive_requests", &limits.keepalive_requests.to_string());
}

fn site_table(site: &Site, out: &mut Writer) {
    out.table("[[site]]");
    out.list("name", &site.name);
    out.list::<Listen>("listen", &site.listen);
    out.list::<Listen>("tls_listen", &site.tls_listen);
    out.raw("http2", &site.http2.to_string());
    out.string("hsts", &site.hsts.map_or(String::new(), show_duration));
    let root = Directory { base: site.root.clone(), rest: site.root_rest.clone() };
    out.string("root", &directory(&root));
    out.list("index", &site.index);
    out.raw("listing", &site.listing.to_string());
    out.list("hidden", &site.hidden);
    out.string("symlinks", word(&site::SYMLINKS, &site.symlinks));
    let error_pages: Vec<(String, &String)> = site.error_pages.iter().map(|(status, path)| (status.to_string(), path)).collect();
    out.pairs("error_pages", &error_pages);
    out.string("charset", &site.charset);
    compress(&site.compress, out);
    out.raw("https_redirect", &site.https_redirect.to_string());
    out.string("access_log", &site.access_log.as_ref().map_or(String::new(), target));
    if let Some(files) = &site.tls {
        tls_of_site(files, out);
    }
    for rule in &site.rules {
        rule_table(rule, out);
    }
}

fn tls_table(tls: &Tls, out: &mut Writer) {
    out.table("[tls]");
    settings(&tls.defaults, out);
    out.raw("session_tickets", &tls.session_tickets.to_string());
    out.path("ticket_keys", tls.ticket_keys.as_deref());
}

fn settings(settings: &TlsSettings, out: &mut Writer) {
    out.string("min_version", settings.min_version.word());
    out.raw("key_isolation", &settings.key_isolation.to_string());
    out.path("client_ca", settings.client_ca.as_deref());
    out.string("client_auth", settings.client_auth.word());
}

/// The first of the pairs holds what is said of the whole site.
fn tls_of_site(files: &TlsFiles, out: &mut Writer) {
    for (index, pair) in files.pairs.iter().enumerate() {
        out.table("[[site.tls]]");
        out.path("certificate", Some(&pair.certificate));
        out.path("key", Some(&pair.key));
        if index == 0 {
            settings(&files.settings, out);
        }
    }
}

fn backend_table(backend: &Backend, out: &mut Writer) {
    out.table(&format!("[backend.{}]", quote(&backend.name)));
    out.string("type", word(&backends::PROTOCOLS, &backend.protocol));
    out.string("group", backend.group.as_deref().unwrap_or(""));
    out.list("address", &backend.addresses);
    out.string("balance", word(&backends::BALANCES, &backend.balance));
    out.path("script_root", backend.script_root.as_deref());
    out.path("sendfile", backend.sendfile.as_deref());
    out.string("connect_timeout", &show_duration(backend.connect_timeout));
    out.string("read_timeout", &show_duration(backend.read_timeout));
    out.raw("max_connections", &backend.max_connections.to_string());
    out.raw("keep", &backend.keep.to_string());
    out.string("keep_idle", &show_duration(backend.keep_idle));
    out.raw("queue", &backend.queue.to_string());
    out.string("buffer", &show_size(u64::from(backend.buffer)));
    out.pairs("env", &backend.env);
    if let Some(spawn) = &backend.spawn {
        out.table(&format!("[backend.{}.spawn]", quote(&backend.name)));
        out.list("command", &spawn.command);
        out.raw("processes", &spawn.processes.to_string());
        out.string("user", &spawn.user);
        if let Some(group) = &spawn.group {
            out.string("group", group);
        }
        out.pairs("env", &spawn.env);
    }
}

fn cgi_table(cgi: &Cgi, out: &mut Writer) {
    out.table("[cgi]");
    out.string("user", cgi.user.as_deref().unwrap_or(""));
    out.string("group", cgi.group.as_deref().unwrap_or(""));
    out.raw("min_uid", &cgi.min_uid.to_string());
    out.raw("max_programs", &cgi.max_programs.to_string());
    out.raw("queue", &cgi.queue.to_string());
    out.string("read_timeout", &show_duration(cgi.read_timeout));
    out.string("run_timeout", &show_duration(cgi.run_timeout));
    out.string("buffer", &show_size(u64::from(cgi.buffer)));
    out.pairs("env", &cgi.env);
    out.string("cpu_time", &show_duration(std::time::Duration::from_secs(cgi.limits.cpu)));
    out.string("memory", &show_size(cgi.limits.memory));
    out.string("file_size", &show_size(cgi.limits.file_size));
    out.raw("max_processes", &cgi.limits.processes.to_string());
}

fn auth_table(auth: &Auth, out: &mut Writer) {
    out.table(&format!("[auth.{}]", quote(&auth.name)));
    out.string("type", "basic");
    out.string("realm", &auth.realm);
    out.path("file", Some(&auth.file));
}

fn rule_table(rule: &Rule, out: &mut Writer) {
    out.table("[[site.rule]]");
    matchers(&rule.matchers, out);
    changes(&rule.changes, out);
    match &rule.act {
        None => {}
        Some(Act::Root(root)) => out.string("root", &directory(root)),
        Some(Act::Alias(alias)) => out.string("alias", &directory(alias)),
        Some(Act::Redirect { to, status }) => {
            out.string("redirect", &to.to_string());
            out.raw("status", &status.to_string());
        }
        Some(Act::Rewrite(to)) => out.string("rewrite", &to.to_string()),
        Some(Act::Try(candidates)) => out.list::<Template>("try", candidates),
        Some(Act::Respond { answer }) => respond(answer, out),
        Some(Act::Backend(to)) => {
            match &to.place {
                _ if !to.cgi => out.string("backend", &to.name),
                Some(ScriptPlace::Alias(alias)) => return out.string("cgi", &directory(alias)),
                Some(ScriptPlace::Root(_)) | None => out.raw("cgi", "true"),
            }
            match &to.place {
                None => {}
                Some(ScriptPlace::Root(root)) => out.string("root", &directory(root)),
                Some(ScriptPlace::Alias(alias)) => out.string("alias", &directory(alias)),
            }
            if let Some(check) = to.check.filter(|_| !to.cgi) {
                out.raw("check", &check.to_string());
            }
        }
    }
}

fn matchers(matchers: &Matchers, out: &mut Writer) {
    out.some("path", &matchers.path);
    if let Some(regex) = &matchers.regex {
        out.string("regex", regex);
    }
    out.some("method", &matchers.method);
    out.some::<Network>("client", &matchers.client);
    out.some("host", &matchers.host);
    out.pairs("request_header", &matchers.request_header);
    if let Some(exists) = matchers.exists {
        let word = match exists {
            Exists::File => "file",
            Exists::Directory => "directory",
            Exists::None => "none",
        };
        out.string("exists", word);
    }
}

fn changes(changes: &Changes, out: &mut Writer) {
    out.pairs("header", &changes.header);
    if let Some(expires) = changes.expires {
        out.string("expires", &show_duration(expires));
    }
    out.some("allow", &changes.allow);
    out.some("deny", &changes.deny);
    if let Some(auth) = &changes.auth {
        out.string("auth", &auth.name);
    }
    if let Some(body) = changes.body {
        out.string("body", &show_size(body));
    }
    if let Some(requests) = changes.requests {
        out.string("requests", &requests.to_string());
    }
    if let Some(listing) = changes.listing {
        out.raw("listing", &listing.to_string());
    }
    if let Some(index) = &changes.index {
        out.list("index", index);
    }
    if let Some(codings) = &changes.compress {
        compress(codings, out);
    }
    if let Some(cache) = changes.cache {
        out.string("cache", &show_duration(cache));
    }
    if let Some(rate) = changes.rate {
        out.string("rate", &show_rate(rate));
    }
}

fn compress(codings: &[Coding], out: &mut Writer) {
    let names: Vec<&str> = codings.iter().map(|coding| coding.name()).collect();
    out.list("compress", &names);
}

fn respond(answer: &Respond, out: &mut Writer) {
    match answer {
        Respond::Status { status, body } => {
            out.raw("respond", &status.to_string());
            if let Some(body) = body {
                out.string("respond_body", &body.to_string());
            }
        }
        Respond::Page(page) => out.string(
            "respond",
            match page {
                Page::Status => "status",
                Page::Metrics => "metrics",
                Page::Health => "health",
            },
        ),
    }
}

/// A directory as the file gives it: braces of the literal part doubled, for they would begin a capture.
fn directory(directory: &Directory) -> String {
    let base = directory.base.to_string_lossy().replace('{', "{{").replace('}', "}}");
    let rest = directory.rest.to_string();
    if rest.is_empty() { base } else { format!("{base}/{rest}") }
}

fn target(target: &LogTarget) -> String {
    match target {
        LogTarget::File(path) => path.to_string_lossy().into_owned(),
        LogTarget::Syslog => "syslog".to_owned(),
        LogTarget::Stderr => "stderr".to_owned(),
        LogTarget::Off => "off".to_owned(),
    }
}

fn word<T: PartialEq>(words: &[(&'static str, T)], value: &T) -> &'static str {
    words.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word)
}

/// A basic string of TOML.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::read::tests::WHOLE;
    use super::super::{RulePlace, parse};
    use super::*;

    /// Without the places of rules, which are other ones in the dump.
    fn read(text: &str) -> Config {
        let mut config = parse(text, Path::new("/etc/anchorite/anchorite.toml")).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
        for rule in config.sites.iter_mut().flat_map(|site| &mut site.rules) {
            rule.place = RulePlace::default();
        }
        config
    }

    fn survives(text: &str) {
        let config = read(text);
        assert_eq!(read(&dump(&config)), config, "{text}");
    }

    #[test]
    fn the_defaults_are_filled_in() {
        let text = dump(&read("[[site]]\nroot = \"www\"\n"));
        for line in [
            "user = \"anchorite\"",
            "listen = [\"[::]:80\"]",
            "format = \"combined\"",
            "drain_timeout = \"10m\"",
            "root = \"/etc/anchorite/www\"",
            "hidden = [\".*\", \"*~\", \"*.bak\", \"#*#\"]",
        ] {
            assert!(text.contains(&format!("\n{line}\n")), "{line} in {text}");
        }
    }

    #[test]
    fn whatever_is_configured_survives_its_dump() {
        survives("[[site]]\nroot = \"/srv\"\n");
        survives(WHOLE);
        survives("[[site]]\nname = \"*.a\"\nroot = \"/srv/{{x/{1}}}-/www\"\n");
        survives("[server]\nuser = \"33\"\ncontrol_socket = \"\"\npid_file = \"\"\n[[site]]\nroot = \"/srv \\\"\\\\\\u007f\\té\"\n");
        survives(
            "[log]\nformat = \"{client} \\\"{{{method}}}\\\" {header.referer}?\"\naccess = \"syslog\"\nerror = \"a.b\"\n[[site]]\nroot = \"/srv\"\n",
        );
    }

    /// Pieces of rules, of which any that go together make one.
    const MATCHERS: [&str; 7] = [
        "",
        "path = \"/a/*\"",
        "path = \"/b\\\\\\\"\\n/*\"\nregex = '^/\\w+/(\\d)\"'",
        "path = [\"/c/*\", \"/d/*\"]\nmethod = [\"GET\"]\nclient = [\"::/0\", \"10.0.0.0/8\"]",
        "path = \"/e/*\"\nhost = \"a\"\nexists = \"file\"",
        "path = \"/e/*\"\nrequest_header = { A = \"{\\\"*\" }\nexists = \"directory\"",
        "path = \"/f/*\"\nexists = \"none\"",
    ];
    const CHANGES: [&str; 5] = [
        "",
        "header = { B = \"\", A = \"{{}}{host}\\t?\" }",
        "expires = \"1500ms\"\nallow = \"::1\"\ndeny = \"127.0.0.1\"",
        "body = \"0\"\nrequests = \"5/m\"\nlisting = true\nindex = []",
        "body = \"1025\"\ncache = \"1500ms\"\nlisting = false\nindex = [\"a b\"]",
    ];
    const ACTS: [&str; 12] = [
        "",
        "root = \"/x{{y\"",
        "alias = \"x\"",
        "root = \"/x/{{{1}}}/z\"",
        "redirect = \"{scheme}://{host}/{1}?a?{query}\"",
        "redirect = \"/{{a#b\"\nstatus = 308",
        "rewrite = \"{1}/ ?{query}\"",
        "try = [\"{path}\", \"/a?b\"]",
        "respond = 200\nrespond_body = \"{{\\r\\n\\\"{time}\\\"}}\"",
        "respond = \"status\"",
        "respond = \"metrics\"",
        "respond = \"health\"",
    ];

    #[test]
    fn every_combination_of_rules_survives_its_dump() {
        let mut text = String::from("[[site]]\nroot = \"/srv\"\n");
        for matchers in MATCHERS {
            for changes in CHANGES {
                for act in ACTS {
                    // Neither captures nor an alias without a path.
                    if matchers.is_empty() && (act.contains("{1}") || act.contains("alias")) {
                        continue;
                    }
                    text.push_str(&format!("[[site.rule]]\n{matchers}\n{changes}\n{act}\n"));
                }
            }
        }
        survives(&text);
    }
}
