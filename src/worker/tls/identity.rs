//! What each site proves itself with over TLS, and which of them a client's name leads to.
//!
//! Runs in the worker. Made once, of what the parent read; nothing here opens a file.

use super::choice::Choice;
use super::signer::{Keeper, Remote, Tickets};
use super::tickets::{Bound, GROUP};
use crate::config::{ClientAuth, Pair, SiteTls, TlsVersion, WorkerSlice};
use crate::site::{Chosen, Door, Sites};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite};
use std::cell::RefCell;
use std::sync::Arc;

/// The sites that are served over TLS.
pub(in crate::worker) struct Identities {
    /// By the number of the site; `None`: it is not served over TLS.
    sites: Vec<Option<Identity>>,
    keeper: Option<Arc<Keeper>>,
    /// Scratch space for what goes between a socket and `rustls`, of one connection at a time.
    pub(super) scratch: RefCell<Vec<u8>>,
}

/// What a site proves itself with.
struct Identity {
    config: Arc<ServerConfig>,
    group: [u8; GROUP],
    asks: ClientAuth,
}

/// Where the name that a client named leads.
pub(super) struct Found {
    pub(super) site: usize,
    pub(super) config: Arc<ServerConfig>,
    /// What it asks of clients.
    pub(super) asks: ClientAuth,
    /// No site has that name, or only one that is not served over TLS.
    pub(super) is_default: bool,
}

impl Identities {
    /// Takes what a slice says of each site.
    ///
    /// # Errors
    /// The site that cannot be served so, and why. The parent has looked at certificates and keys, so that this is not about them.
    pub(in crate::worker) fn new(slice: &WorkerSlice, keeper: Option<Arc<Keeper>>) -> Result<Identities, String> {
        let provider = Arc::new(provider());
        let tickets = keeper.as_ref().filter(|_| slice.session_tickets);
        let tickets = tickets.map(|keeper| Arc::new(Tickets(Arc::clone(keeper))) as Arc<dyn ProducesTickets>);
        let sites = slice.sites.iter().enumerate().map(|(number, site)| {
            let Some(tls) = slice.tls.get(number).and_then(Option::as_ref) else { return Ok(None) };
            let name = site.name.first().map_or("", String::as_str);
            let identity = identity(tls, site.http2, &provider, keeper.as_ref(), tickets.as_ref());
            identity.map(Some).map_err(|why| format!("site \"{name}\": tls: {why}"))
        });
        Ok(Identities { sites: sites.collect::<Result<_, String>>()?, keeper, scratch: RefCell::default() })
    }

    /// Whether the parent is to be told that `keys` sent what it may not.
    pub(in crate::worker) fn accuses_keys(&self) -> bool {
        self.keeper.as_ref().is_some_and(|keeper| keeper.accuses())
    }

    /// Whether no site is served over TLS.
    pub(in crate::worker) fn is_empty(&self) -> bool {
        self.sites.iter().all(Option::is_none)
    }

    /// Whom a client that names this site, or none, wants to talk to.
    pub(super) fn find(&self, sites: &Sites, door: Door, name: Option<&str>) -> Option<Found> {
        let found = |site: usize, is_default| {
            let Identity { config, asks, .. } = self.sites.get(site)?.as_ref()?;
            Some(Found { site, config: Arc::clone(config), asks: *asks, is_default })
        };
        let (site, chosen) = sites.choose(door, name.map(str::as_bytes));
        let is_default = chosen == Chosen::Default;
        // Without a certificate of the site itself: that of the door's default, else of the first site there that has one.
        found(site, is_default).or_else(|| found(sites.select_at(door, None), true)).or_else(|| {
            let answers = |number: &usize| {
                let names = &sites.get(*number).name;
                names.iter().any(|name| sites.select_at(door, Some(name.as_bytes())) == *number)
            };
            (0..sites.len()).filter(answers).find_map(|number| found(number, true))
        })
    }

    /// Whether a request for one site may come over a connection that was made with another: both prove themselves with the same, and ask
    /// the same of clients (RFC 9110, 7.4; RFC 9113, 9.1.1).
    pub(in crate::worker) fn may_share(&self, connected: usize, asked: usize) -> bool {
        let group = |site: usize| Some(self.sites.get(site)?.as_ref()?.group);
        connected == asked || (group(connected).is_some() && group(connected) == group(asked))
    }
}

fn identity(
    tls: &SiteTls,
    http2: bool,
    provider: &Arc<CryptoProvider>,
    keeper: Option<&Arc<Keeper>>,
    tickets: Option<&Arc<dyn ProducesTickets>>,
) -> Result<Identity, String> {
    let versions: &[_] = match tls.min_version {
        TlsVersion::Tls12 => &[&TLS13, &TLS12],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_protocol_versions(versions).map_err(|fault| fault.to_string())?;
    let builder = match tls.client_auth {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Optional | ClientAuth::Required => {
            let mut roots = RootCertStore::empty();
            for authority in &tls.client_ca {
                roots.add(CertificateDer::from(authority.clone())).map_err(|fault| format!("client_ca: {fault}"))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
            let verifier = if tls.client_auth == ClientAuth::Optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|fault| format!("client_ca: {fault}"))?)
        }
    };
    let pairs = tls.pairs.iter().map(|pair| {
        let chain = pair.chain.iter().cloned().map(CertificateDer::from).collect();
        Ok((pair.kind, Arc::new(CertifiedKey::new(chain, signing_key(pair, provider, keeper)?))))
    });
    let mut config = builder.with_cert_resolver(Arc::new(Choice::new(pairs.collect::<Result<_, String>>()?)));
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1", b"http/1.0"] } else { &[b"http/1.1", b"http/1.0"] };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let group = group(tls)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match tickets {
        Some(tickets) => config.ticketer = Arc::new(Bound::new(Arc::clone(tickets), group)),
        None => config.send_tls13_tickets = 0,
    }
    // Of what both know the server's first choice is spoken, whatever a client's order is: all are good, and this one costs least.
    config.ignore_client_order = true;
    // What a client says before its handshake is whole can be said again by anyone (RFC 8470).
    config.max_early_data_size = 0;
    Ok(Identity { config: Arc::new(config), group, asks: tls.client_auth })
}

/// What `aws-lc` knows, AES with keys of 128 bits first: where processors know AES it is the fastest, and nobody breaks it.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let is_first = |suite: &SupportedCipherSuite| suite.suite().as_str().is_some_and(|name| name.contains("AES_128_GCM"));
    // The sort keeps the order of equals.
    provider.cipher_suites.sort_by_key(|suite| !is_first(suite));
    provider
}

/// What signs for a certificate.
fn signing_key(pair: &Pair, provider: &CryptoProvider, keeper: Option<&Arc<Keeper>>) -> Result<Arc<dyn SigningKey>, String> {
    let Some(private) = pair.private.as_deref() else {
        return Ok(Arc::new(Remote::new(keeper.ok_or("there is no key")?, pair)));
    };
    let key = PrivateKeyDer::try_from(private).map_err(str::to_owned)?.clone_key();
    provider.key_provider.load_private_key(key).map_err(|fault| fault.to_string())
}

/// A name for what a site proves itself with and asks of clients: the same for two sites only if all of that is.
fn group(tls: &SiteTls) -> Result<[u8; GROUP], String> {
    let SupportedCipherSuite::Tls13(suite) = cipher_suite::TLS13_AES_128_GCM_SHA256 else { return Err("no hash".to_owned()) };
    let mut text = vec![tls.client_auth as u8, tls.min_version as u8];
    let mut add = |list: &[Vec<u8>]| {
        for bytes in list {
            text.extend_from_slice(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
            text.extend_from_slice(bytes);
        }
        text.extend_from_slice(&u64::MAX.to_be_bytes());
    };
    tls.pairs.iter().for_each(|pair| add(&pair.chain));
    add(&tls.client_ca);
    <[u8; GROUP]>::try_from(suite.common.hash_provider.hash(&text).as_ref()).map_err(|_| "no hash".to_owned())
}
