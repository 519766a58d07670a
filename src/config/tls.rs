//! TLS: what is configured, read and checked, and what a worker is told once the parent has read the files that it names. Does no I/O.

use super::diagnostic::{Faults, quoted};
use super::document::{Item, Table, Text};
use super::{names, paths};
use serde::{Deserialize, Serialize};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

/// `[tls]`: for every site that says nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub defaults: TlsSettings,
    /// Whether sessions are resumed.
    pub session_tickets: bool,
    /// What several machines make tickets with; `None`: every start makes its own.
    pub ticket_keys: Option<PathBuf>,
}

/// What may differ from site to site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    pub min_version: TlsVersion,
    /// Whether no worker gets a private key.
    pub key_isolation: bool,
    /// The certificates of those who vouch for clients.
    pub client_ca: Option<PathBuf>,
    pub client_auth: ClientAuth,
}

/// What a site with certificates is configured with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// In the order of the file; never empty.
    pub pairs: Vec<PairFiles>,
    pub settings: TlsSettings,
}

/// A certificate and its private key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a worker needs to serve one site over TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTls {
    /// In the order of the file; never empty.
    pub pairs: Vec<Pair>,
    pub min_version: TlsVersion,
    pub client_auth: ClientAuth,
    /// DER, of those who vouch for clients; empty only without client certificates.
    pub client_ca: Vec<Vec<u8>>,
}

/// A certificate and what signs for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// DER, the site's own certificate first, each of the others vouching for the one before it.
    pub chain: Vec<Vec<u8>>,
    /// The number of the private key; sites with the same key file share it.
    pub key: u16,
    pub kind: KeyKind,
    /// PKCS#8, PKCS#1 or SEC1 as DER, only with `key_isolation = false`.
    pub private: Option<Vec<u8>>,
}

/// The algorithm of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyKind {
    Ecdsa256,
    Ecdsa384,
    Ecdsa521,
    Ed25519,
    Rsa,
}

/// The lowest version that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClientAuth {
    None,
    Optional,
    Required,
}

/// `[tls]`
pub(super) fn read(table: &Table<'_>, faults: &mut Faults<'_>) -> Tls {
    let mut tls = default();
    read_settings(table, &mut tls.defaults, faults);
    refuse_without_ca(table.item("client_auth", faults), &tls.defaults, faults);
    if let Some(tickets) = table.item("session_tickets", faults).and_then(|item| item.boolean(faults)) {
        tls.session_tickets = tickets;
    }
    if let Some(item) = table.item("ticket_keys", faults) {
        tls.ticket_keys = read_path(&item, faults);
    }
    tls
}

pub(super) fn default() -> Tls {
    let defaults = TlsSettings { min_version: TlsVersion::Tls12, key_isolation: true, client_ca: None, client_auth: ClientAuth::None };
    Tls { defaults, session_tickets: true, ticket_keys: None }
}

/// `tls` of a site, with what `[tls]` says where the site says nothing. `None`: it has no certificate, or what was wrong is reported.
pub(super) fn read_site(site: &Table<'_>, defaults: &TlsSettings, faults: &mut Faults<'_>) -> Option<TlsFiles> {
    let item = site.item("tls", faults)?;
    if item.as_text().is_some_and(|text| text.value == "auto") {
        item.report("\"auto\" is not supported by this version", EXPECTED, faults);
        return None;
    }
    let tables = item.table_or_tables(&names::SITE_TLS, TABLES_EXPECTED, faults)?;
    if item.is_empty_list() {
        item.report("\"tls\" in [[site]] has no certificate", EXPECTED, faults);
    }
    let mut settings = defaults.clone();
    for key in SETTINGS {
        let given: Vec<Item<'_>> = tables.iter().filter_map(|table| table.item(key, faults)).collect();
        if let [first, second, ..] = given.as_slice() {
            let help = format!("it holds for the whole site, first given at {}", faults.place_name(first.key_at.start));
            faults.report(second.key_at.clone(), format!("{} is given twice", quoted(key)), help);
        }
    }
    tables.iter().for_each(|table| read_settings(table, &mut settings, faults));
    let auth = tables.iter().find_map(|table| table.item("client_auth", faults)).or(Some(item));
    refuse_without_ca(auth, &settings, faults);
    let pairs: Vec<PairFiles> = tables.iter().filter_map(|table| read_pair(table, faults)).collect();
    (!pairs.is_empty()).then_some(TlsFiles { pairs, settings })
}

fn read_settings(table: &Table<'_>, settings: &mut TlsSettings, faults: &mut Faults<'_>) {
    if let Some(version) = table.item("min_version", faults).and_then(|item| item.choice(&VERSIONS, faults)) {
        settings.min_version = version;
    }
    if let Some(isolation) = table.item("key_isolation", faults).and_then(|item| item.boolean(faults)) {
        settings.key_isolation = isolation;
    }
    if let Some(item) = table.item("client_ca", faults) {
        settings.client_ca = read_path(&item, faults);
    }
    if let Some(auth) = table.item("client_auth", faults).and_then(|item| item.choice(&CLIENT_AUTHS, faults)) {
        settings.client_auth = auth;
    }
}

/// Clients whose certificates nobody can vouch for would be let in, or nobody would.
fn refuse_without_ca(item: Option<Item<'_>>, settings: &TlsSettings, faults: &mut Faults<'_>) {
    if let (Some(item), None, true) = (item, &settings.client_ca, settings.client_auth != ClientAuth::None) {
        item.report("client certificates are asked for, and nobody vouches for them", "expected a \"client_ca\" too", faults);
    }
}

/// `""` is none.
fn read_path(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<PathBuf> {
    let text = item.text("a file, or \"\" for none", faults)?;
    if text.value.is_empty() { None } else { paths::regular(&text, faults) }
}

fn read_pair(table: &Table<'_>, faults: &mut Faults<'_>) -> Option<PairFiles> {
    let mut file = |key| {
        let Some(item) = table.item(key, faults) else {
            faults.report_missing(table.at.clone(), format!("\"tls\" in [[site]] has no {}", quoted(key)), EXPECTED);
            return None;
        };
        let text: Text<'_> = item.text("a file", faults)?;
        paths::regular(&text, faults)
    };
    let (certificate, key) = (file("certificate"), file("key"));
    Some(PairFiles { certificate: certificate?, key: key? })
}

/// `hsts`: `""` is none.
pub(super) fn read_hsts(item: &Item<'_>, faults: &mut Faults<'_>) -> Option<Duration> {
    if item.as_text().is_some_and(|text| text.value.is_empty()) {
        return None;
    }
    item.duration(HSTS, faults)
}

/// Where each file is named, so that what is wrong with it can be told there.
pub(super) fn places(top: &Table<'_>, faults: &mut Faults<'_>) -> Vec<(PathBuf, Range<usize>)> {
    let mut items: Vec<Item<'_>> = Vec::new();
    if let Some(table) = top.table(&names::TLS, faults) {
        items.extend(["client_ca", "ticket_keys"].into_iter().filter_map(|key| table.item(key, faults)));
    }
    for site in top.tables(&names::SITE, faults) {
        let Some(item) = site.item("tls", faults).filter(|item| item.as_text().is_none()) else { continue };
        for table in item.table_or_tables(&names::SITE_TLS, TABLES_EXPECTED, faults).unwrap_or_default() {
            items.extend(["certificate", "key", "client_ca"].into_iter().filter_map(|key| table.item(key, faults)));
        }
    }
    items.into_iter().filter_map(|item| Some((paths::regular(&item.as_text()?, faults)?, item.at))).collect()
}

impl TlsVersion {
    /// As it stands in a file.
    pub fn word(self) -> &'static str {
        VERSIONS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| *word)
    }
}

impl ClientAuth {
    /// As it stands in a file.
    pub fn word(self) -> &'static str {
        CLIENT_AUTHS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| *word)
    }
}

/// The keys of `[tls]` that may stand in a site's table too.
const SETTINGS: [&str; 4] = ["min_version", "key_isolation", "client_ca", "client_auth"];
const VERSIONS: [(&str, TlsVersion); 2] = [("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)];
const CLIENT_AUTHS: [(&str, ClientAuth); 3] =
    [("none", ClientAuth::None), ("optional", ClientAuth::Optional), ("required", ClientAuth::Required)];
/// A second, to more than browsers keep.
const HSTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3_650 * 86_400);
const TABLES_EXPECTED: &str = "a certificate and its key, or a list of such pairs";
const EXPECTED: &str = "expected tls = { certificate = \"/etc/ssl/example.pem\", key = \"/etc/ssl/private/example.key\" }";

#[cfg(test)]
mod tests {
    use super::super::read::{told, with_a_site};
    use super::super::{Listen, dump, parse};
    use super::*;
    use std::path::Path;

    fn site(tls: &str) -> Result<TlsFiles, Vec<String>> {
        let text = format!("[[site]]\nroot = \"/srv\"\n{tls}\n");
        let config = parse(&text, Path::new("/etc/anchorite/anchorite.toml")).map_err(|_| told(&text))?;
        let again = parse(&dump(&config), Path::new("/etc/anchorite/anchorite.toml")).unwrap();
        assert_eq!(again.sites[0].tls, config.sites[0].tls, "{}", dump(&config));
        Ok(config.sites[0].tls.clone().unwrap())
    }

    const PAIR: &str = "certificate = \"a.pem\", key = \"/k/a.key\"";

    #[test]
    fn a_site_has_one_pair_or_several_and_what_it_says_goes_before_the_defaults() {
        let one = site(&format!("tls = {{ {PAIR} }}")).unwrap();
        assert_eq!(one.pairs, [PairFiles { certificate: "/etc/anchorite/a.pem".into(), key: "/k/a.key".into() }]);
        assert_eq!(one.settings, default().defaults);
        let two = site(&format!("tls = [{{ {PAIR} }}, {{ certificate = \"/b\", key = \"/c\", min_version = \"1.3\" }}]")).unwrap();
        assert_eq!((two.pairs.len(), two.settings.min_version), (2, TlsVersion::Tls13));
        let own = site(&format!(
            "[site.tls]\n{}\nclient_auth = \"required\"\nclient_ca = \"ca\"\nkey_isolation = false\n[tls]\nmin_version = \"1.3\"",
            PAIR.replace(", ", "\n")
        ));
        let settings = TlsSettings {
            min_version: TlsVersion::Tls13,
            key_isolation: false,
            client_ca: Some("/etc/anchorite/ca".into()),
            client_auth: ClientAuth::Required,
        };
        assert_eq!(own.unwrap().settings, settings);
    }

    #[test]
    fn what_is_no_pair_is_refused_at_its_place() {
        let said = |tls: &str| site(tls).unwrap_err();
        assert_eq!(
            said("tls = {}"),
            [
                format!("3:7: \"tls\" in [[site]] has no \"certificate\", {EXPECTED}"),
                format!("3:7: \"tls\" in [[site]] has no \"key\", {EXPECTED}")
            ]
        );
        assert_eq!(said("tls = []"), [format!("3:7: \"tls\" in [[site]] has no certificate, {EXPECTED}")]);
        assert_eq!(said("tls = true"), [format!("3:7: \"tls\" in [[site]] is a boolean, expected {TABLES_EXPECTED}")]);
        assert_eq!(said("tls = [1]"), [format!("3:8: \"tls\" in [[site]] holds an integer, expected {TABLES_EXPECTED}")]);
        assert_eq!(said("tls = \"auto\""), [format!("3:7: \"auto\" is not supported by this version, {EXPECTED}")]);
        assert_eq!(
            said(&format!("tls = {{ {PAIR}, cert = 1 }}"))[0],
            "3:50: unknown key \"cert\" in [site.tls], did you mean \"certificate\"?"
        );
        assert_eq!(
            said(&format!("tls = [{{ {PAIR}, min_version = \"1.3\" }}, {{ {PAIR}, min_version = \"1.2\" }}]")),
            ["3:117: \"min_version\" is given twice, it holds for the whole site, first given at /etc/anchorite/anchorite.toml:3:51"]
        );
        assert_eq!(
            said(&format!("tls = {{ {PAIR}, min_version = \"1.1\" }}")),
            ["3:64: \"min_version\" in [site.tls] is \"1.1\", did you mean \"1.2\"?"]
        );
        let without = "client certificates are asked for, and nobody vouches for them, expected a \"client_ca\" too";
        assert_eq!(said(&format!("tls = {{ {PAIR}, client_auth = \"optional\" }}")), [format!("3:64: {without}")]);
        assert_eq!(told("[tls]\nclient_auth = \"required\"\n[[site]]\nroot = \"/srv\"\n"), [format!("2:15: {without}")]);
    }

    #[test]
    fn addresses_for_tls_are_opened_only_with_a_certificate_and_are_never_plain() {
        let addresses = |text: &str| with_a_site(text).addresses().iter().map(Listen::to_string).collect::<Vec<_>>();
        assert_eq!(addresses("[server]\ntls_listen = [\"[::]:8443\"]"), ["[::]:80"]);
        let with = |text: &str| addresses(&format!("{text}\n[[site]]\nname = \"a\"\nroot = \"/a\"\ntls = {{ {PAIR} }}"));
        assert_eq!(with(""), ["[::]:80", "[::]:443"]);
        assert_eq!(with("[server]\ntls_listen = [\"127.0.0.1:1\"]"), ["[::]:80", "127.0.0.1:1"]);
        let help = "expected another port than those of \"listen\"";
        assert_eq!(
            told("[server]\nlisten = [\"[::]:80\"]\ntls_listen = [\"127.0.0.1:80\"]\n[[site]]\nroot = \"/srv\"\n"),
            [format!("3:14: \"127.0.0.1:80\" is listened on without TLS, {help}")]
        );
        assert_eq!(
            told(&format!("[server]\nlisten = [\"[::]:443\"]\n[[site]]\nroot = \"/srv\"\ntls = {{ {PAIR} }}\n")),
            [format!("5:7: \"[::]:443\" is listened on without TLS, {help}")]
        );
    }

    #[test]
    fn a_key_is_never_shown() {
        let text = format!("[[site]]\nroot = \"/k\"\ntls = {{ {PAIR} }}\n");
        assert_eq!(
            told(&text),
            [
                "2:8: \"/k\" would be shown to the workers with the private key \"/k/a.key\" in it, expected a directory that holds only what is served"
            ]
        );
    }

    #[test]
    fn hsts_is_a_duration_or_none() {
        let read = |hsts: &str| {
            parse(&format!("[[site]]\nroot = \"/srv\"\nhsts = \"{hsts}\""), Path::new("/f")).map(|config| config.sites[0].hsts)
        };
        assert_eq!(read("365d").unwrap(), Some(Duration::from_secs(365 * 86_400)));
        assert_eq!(read("").unwrap(), None);
        assert!(read("0s").is_err() && read("4000d").is_err() && read("500ms").is_err());
    }
}
