//! What TLS is served with: certificates and keys, read from the files that the configuration names, and the shapes of what is signed.
//!
//! Used by the parent and by `anchorite check`, which read the files, and by `keys`, which alone reads private ones.

#![forbid(unsafe_code)]

pub mod certificates;
pub mod private;
pub mod shape;
pub mod tickets;

use crate::config::{ClientAuth, Config, Pair, PairFiles, SiteTls, TicketSource, TlsFiles};
use crate::sys::privilege::Identity;
use crate::sys::{clock, file, log_file};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use zeroize::Zeroizing;

/// What the files of a configuration hold.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// By the number of the site; empty: none has a certificate.
    pub sites: Vec<Option<SiteTls>>,
    /// The private keys by their numbers.
    pub keys: Vec<KeyFile>,
    /// Where keys of tickets come from; `None`: there are none.
    pub tickets: Option<TicketSource>,
    /// The file that several machines share, where it is one.
    pub ticket_file: Option<Rc<OwnedFd>>,
    /// The certificates' files, and when what they hold is over, in seconds since 1970.
    pub ends: Vec<(PathBuf, u64)>,
    /// What is served in spite of it.
    pub warnings: Vec<String>,
}

/// A private key that nobody here has read.
#[derive(Clone, Debug)]
pub struct KeyFile {
    pub path: PathBuf,
    pub file: Rc<OwnedFd>,
    /// Of the certificate that it must belong to: SubjectPublicKeyInfo as DER.
    pub public: Vec<u8>,
    /// Whether a worker has it too, and `keys` need not.
    pub given_away: bool,
}

/// Opens and reads the certificates that a configuration names, and opens the keys.
///
/// # Errors
/// Every file that is not as it must be, and why.
pub fn load(config: &Config, identity: Identity) -> Result<Loaded, Vec<(PathBuf, String)>> {
    let mut loading = Loading {
        service: (!identity.rootless).then_some((identity.uid, identity.gid)),
        loaded: Loaded::default(),
        numbers: BTreeMap::new(),
        faults: Vec::new(),
    };
    if config.sites.iter().any(|site| site.tls.is_some()) {
        loading.loaded.sites = config.sites.iter().map(|site| loading.site(site.tls.as_ref()?)).collect();
        if config.tls.session_tickets {
            loading.tickets(config.tls.ticket_keys.as_deref());
        }
    }
    if loading.faults.is_empty() { Ok(loading.loaded) } else { Err(loading.faults) }
}

/// Whether the keys are those of the certificates; for `anchorite check`, in whose memory they lie for that moment. In a service, `keys` does it.
///
/// # Errors
/// Every key that is not, and why.
pub fn check_keys(loaded: &Loaded) -> Result<(), Vec<(PathBuf, String)>> {
    let check = |key: &KeyFile| {
        let outcome = read_all(&key.file).and_then(|pem| private::read(&pem, &key.public).map(drop));
        outcome.err().map(|why| (key.path.clone(), why))
    };
    let of_tickets = match (&loaded.tickets, &loaded.ticket_file) {
        (Some(TicketSource::File(path)), Some(file)) => {
            let outcome = read_all(file).and_then(|content| tickets::check_file(&content));
            outcome.err().map(|why| (PathBuf::from(path), why))
        }
        (Some(_) | None, _) => None,
    };
    let faults: Vec<_> = loaded.keys.iter().filter_map(check).chain(of_tickets).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

struct Loading {
    service: Option<(u32, u32)>,
    loaded: Loaded,
    /// The number of a key by its file and the public key that it must have.
    numbers: BTreeMap<(PathBuf, Vec<u8>), u16>,
    faults: Vec<(PathBuf, String)>,
}

impl Loading {
    fn site(&mut self, files: &TlsFiles) -> Option<SiteTls> {
        let settings = &files.settings;
        let pairs: Vec<Pair> = files.pairs.iter().filter_map(|pair| self.pair(pair, settings.key_isolation)).collect();
        let client_ca = match &settings.client_ca {
            Some(path) if settings.client_auth != ClientAuth::None => {
                self.read(path, false).and_then(|(_, pem)| self.noted(path, certificates::read_authorities(&pem)))?
            }
            Some(_) | None => Vec::new(),
        };
        Some(SiteTls { pairs, min_version: settings.min_version, client_auth: settings.client_auth, client_ca })
    }

    fn pair(&mut self, pair: &PairFiles, isolated: bool) -> Option<Pair> {
        let (_, pem) = self.read(&pair.certificate, false)?;
        let chain = self.noted(&pair.certificate, certificates::read(&pem));
        let file = self.open(&pair.key, true);
        let (chain, file) = (chain?, file?);
        let shown = pair.certificate.display();
        self.loaded.warnings.extend(chain.warnings.iter().map(|text| format!("certificate \"{shown}\": {text}")));
        self.loaded.ends.push((pair.certificate.clone(), chain.not_after));
        let private = if isolated {
            None
        } else {
            let read = read_all(&file).and_then(|pem| private::read_der(&pem, &chain.public));
            Some(self.noted(&pair.key, read)?.to_vec())
        };
        let count = self.loaded.keys.len();
        let next = u16::try_from(count).unwrap_or(u16::MAX);
        let key = *self.numbers.entry((pair.key.clone(), chain.public.clone())).or_insert(next);
        if usize::from(key) == count {
            let (path, public) = (pair.key.clone(), chain.public.clone());
            self.loaded.keys.push(KeyFile { path, file: Rc::new(file), public, given_away: !isolated });
        } else if let Some(known) = self.loaded.keys.get_mut(usize::from(key)) {
            known.given_away &= !isolated;
        }
        Some(Pair { chain: chain.chain, key, kind: chain.kind, private })
    }

    fn tickets(&mut self, file: Option<&Path>) {
        match file {
            None => {
                self.loaded.tickets = self.noted(Path::new("/dev/urandom"), tickets::make(this_hour()));
            }
            Some(path) => {
                let file = self.open(path, true);
                self.loaded.ticket_file = file.map(Rc::new);
                self.loaded.tickets = Some(TicketSource::File(path.to_string_lossy().into_owned()));
            }
        }
    }

    fn open(&mut self, path: &Path, private: bool) -> Option<OwnedFd> {
        let opened = log_file::open_trusted(path, self.service, private).map_err(|fault| fault.to_string());
        self.noted(path, opened)
    }

    fn read(&mut self, path: &Path, private: bool) -> Option<(OwnedFd, Zeroizing<Vec<u8>>)> {
        let file = self.open(path, private)?;
        let pem = self.noted(path, read_all(&file))?;
        Some((file, pem))
    }

    fn noted<T>(&mut self, path: &Path, outcome: Result<T, String>) -> Option<T> {
        outcome.map_err(|why| self.faults.push((path.to_owned(), why))).ok()
    }
}

/// The hour whose keys of tickets are in use, in hours since 1970.
pub fn this_hour() -> u64 {
    tickets::hour(u64::try_from(clock::unix_seconds()).unwrap_or(0))
}

/// All of a file, from its beginning.
///
/// # Errors
/// Says why not.
pub fn read_all(file: &OwnedFd) -> Result<Zeroizing<Vec<u8>>, String> {
    let mut content = Zeroizing::new(vec![0; FILE_FIRST]);
    let mut length = 0;
    loop {
        if length == content.len() {
            if length >= FILE_MAX {
                return Err("it is too large for certificates and keys".to_owned());
            }
            // Moved by hand: one that grows by itself leaves copies behind.
            let mut larger = Zeroizing::new(vec![0; length * 8]);
            larger.get_mut(..length).unwrap_or_default().copy_from_slice(&content);
            content = larger;
        }
        let rest = content.get_mut(length..).unwrap_or_default();
        match file::read_at(file, u64::try_from(length).unwrap_or(u64::MAX), rest).map_err(|fault| fault.to_string())? {
            0 => {
                content.truncate(length);
                return Ok(content);
            }
            count => length += count,
        }
    }
}

/// What is to be said of certificates that are over, or will be within [`EXPIRY_DAYS`]; `ends` as in [`Loaded`].
pub fn expiring(ends: &[(PathBuf, u64)]) -> Vec<String> {
    let now = u64::try_from(clock::unix_seconds()).unwrap_or(0);
    ends.iter().filter_map(|(path, end)| Some(format!("certificate \"{}\" {}", path.display(), expiry(*end, now)?))).collect()
}

fn expiry(end: u64, now: u64) -> Option<String> {
    const DAY: u64 = 86_400;
    match end.checked_sub(now) {
        None | Some(0) => Some(format!("expired {} days ago: clients refuse it", now.saturating_sub(end) / DAY)),
        Some(left) if left < EXPIRY_DAYS * DAY => Some(format!("expires in {} days", left / DAY)),
        Some(_) => None,
    }
}

/// Days before the end of a certificate from which on it is told.
pub const EXPIRY_DAYS: u64 = 14;

/// Bytes of a file: enough for every authority that browsers know, with comments.
const FILE_MAX: usize = 1 << 20;
/// Bytes that are read at first: enough for most.
const FILE_FIRST: usize = 16 << 10;
