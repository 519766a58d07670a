//! Certificates made for a test, and a client over TLS that does exactly what it is told.

use crate::support::{Configuration, PATIENCE, Response, free_port, shown};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Someone who vouches for certificates, and a directory for all of them.
pub(crate) struct Authority {
    directory: tempfile::TempDir,
}

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Files {
    /// As it stands in the configuration.
    pub(crate) fn pair(&self) -> String {
        format!("{{ certificate = {:?}, key = {:?} }}", self.certificate, self.key)
    }

    /// The line of a site.
    pub(crate) fn line(&self) -> String {
        format!("tls = {}", self.pair())
    }
}

/// Arguments that make a key.
pub(crate) const P256: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub(crate) const P384: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"];
pub(crate) const RSA: &[&str] = &["-newkey", "rsa:2048"];
pub(crate) const ED25519: &[&str] = &["-newkey", "ed25519"];

/// Runs `openssl`; panics with what it says where it fails.
#[track_caller]
pub(crate) fn openssl(arguments: &[&str]) -> String {
    let output = Command::new("openssl").args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Authority {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("anchorite-tls-").tempdir().unwrap();
        let authority = Self { directory };
        let (key, certificate) = (authority.path("ca.key"), authority.certificate());
        let extensions = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"];
        let common = ["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=Test Authority"];
        openssl(&[&common[..], P256, &extensions, &["-keyout", text(&key), "-out", text(&certificate)]].concat());
        authority
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Its own certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// A certificate for these names, with an EC key.
    pub(crate) fn site(&self, file: &str, names: &[&str]) -> Files {
        self.site_with(file, names, P256)
    }

    /// The same with such a key.
    pub(crate) fn site_with(&self, file: &str, names: &[&str], key: &[&str]) -> Files {
        let names: Vec<String> = names.iter().map(|name| format!("DNS:{name}")).collect();
        self.signed(file, &format!("/CN={file}"), &format!("subjectAltName={},IP:127.0.0.1", names.join(",")), key)
    }

    /// A certificate that a client shows.
    pub(crate) fn client(&self, file: &str, subject: &str) -> Files {
        self.signed(file, subject, "extendedKeyUsage=clientAuth", P256)
    }

    fn signed(&self, file: &str, subject: &str, extension: &str, key: &[&str]) -> Files {
        let files = Files { certificate: self.path(&format!("{file}.pem")), key: self.path(&format!("{file}.key")) };
        let common = ["req", "-x509", "-nodes", "-days", "30", "-subj", subject, "-addext", extension];
        let (ca, ca_key) = (self.certificate(), self.path("ca.key"));
        let by = ["-CA", text(&ca), "-CAkey", text(&ca_key), "-addext", "basicConstraints=CA:FALSE"];
        openssl(&[&common[..], key, &by, &["-keyout", text(&files.key), "-out", text(&files.certificate)]].concat());
        files
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A free port for TLS, and the configuration with it.
pub(crate) fn secured(configuration: Configuration) -> (Configuration, SocketAddr) {
    secured_also(configuration, "")
}

/// The same with more lines of the table `[tls]`.
pub(crate) fn secured_also(configuration: Configuration, lines: &str) -> (Configuration, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let table = format!("[tls]\n{lines}\n");
    (configuration.server_also(&format!("tls_listen = [\"{address}\"]")).backend(&table), address)
}

/// How a client goes about it.
#[derive(Clone)]
pub(crate) struct Manner {
    pub(crate) name: &'static str,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) protocols: Vec<&'static str>,
    pub(crate) shows: Option<Files>,
}

impl Manner {
    /// TLS 1.3 for that name.
    pub(crate) fn to(name: &'static str) -> Self {
        Self { name, versions: vec![&TLS13], protocols: Vec::new(), shows: None }
    }

    pub(crate) fn tls12(mut self) -> Self {
        self.versions = vec![&TLS12];
        self
    }

    pub(crate) fn protocols(mut self, protocols: &[&'static str]) -> Self {
        self.protocols = protocols.to_vec();
        self
    }

    pub(crate) fn shows(mut self, files: &Files) -> Self {
        self.shows = Some(files.clone());
        self
    }

    pub(crate) fn configuration(&self, authority: &Authority) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.certificate()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_protocol_versions(&self.versions).unwrap().with_root_certificates(roots);
        let mut configuration = match &self.shows {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let chain = vec![CertificateDer::from_pem_file(&files.certificate).unwrap()];
                builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&files.key).unwrap()).unwrap()
            }
        };
        configuration.alpn_protocols = self.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(configuration)
    }

    /// Connects, and does the whole handshake.
    #[track_caller]
    pub(crate) fn connect(&self, authority: &Authority, address: SocketAddr) -> TlsClient {
        TlsClient::try_connect(self.configuration(authority), self.name, address).unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// The same where that may fail.
    pub(crate) fn try_connect(&self, authority: &Authority, address: SocketAddr) -> io::Result<TlsClient> {
        TlsClient::try_connect(self.configuration(authority), self.name, address)
    }
}

/// A connection over TLS.
pub(crate) struct TlsClient {
    pub(crate) session: ClientConnection,
    pub(crate) socket: TcpStream,
    buffer: Vec<u8>,
}

impl TlsClient {
    /// Connects, and does the whole handshake.
    pub(crate) fn try_connect(configuration: Arc<ClientConfig>, name: &'static str, address: SocketAddr) -> io::Result<Self> {
        let mut client = Self::begin(configuration, name, address);
        while client.session.is_handshaking() {
            client.session.complete_io(&mut client.socket)?;
        }
        Ok(client)
    }

    /// Connects, and says nothing yet.
    pub(crate) fn begin(configuration: Arc<ClientConfig>, name: &'static str, address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        let session = ClientConnection::new(configuration, ServerName::try_from(name).unwrap()).unwrap();
        Self { session, socket, buffer: Vec::new() }
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.try_send(bytes.as_ref()).unwrap_or_else(|fault| panic!("send: {fault}"));
        self
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        rustls::Stream::new(&mut self.session, &mut self.socket).write_all(bytes)
    }

    /// Some bytes of content; none: the server has said that there are no more.
    pub(crate) fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = vec![0; 64 * 1024];
        let count = rustls::Stream::new(&mut self.session, &mut self.socket).read(&mut piece)?;
        piece.truncate(count);
        Ok(piece)
    }

    /// A response with a length, whose head is returned as it is.
    #[track_caller]
    pub(crate) fn response(&mut self) -> Response {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).collect::<Vec<u8>>();
                let lines = String::from_utf8(head.clone()).unwrap();
                let mut lines = lines.trim_end().split("\r\n");
                let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
                let fields = lines.map(|line| line.split_once(": ").unwrap()).map(|(name, value)| (name.to_owned(), value.to_owned()));
                let mut response = Response { status, head, fields: fields.collect(), body: Vec::new() };
                if status / 100 == 1 {
                    continue;
                }
                let length = if status == 304 || status == 204 { 0 } else { usize::try_from(response.length()).unwrap() };
                while self.buffer.len() < length {
                    self.more();
                }
                response.body = self.buffer.drain(..length).collect();
                return response;
            }
            self.more();
        }
    }

    #[track_caller]
    fn more(&mut self) {
        let piece = self.receive().unwrap_or_else(|fault| panic!("{fault}; received: {}", shown(&self.buffer)));
        assert!(!piece.is_empty(), "the server has ended; received: {}", shown(&self.buffer));
        self.buffer.extend_from_slice(&piece);
    }

    /// A request and its response.
    #[track_caller]
    pub(crate) fn ask(&mut self, host: &str, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).response()
    }

    /// Everything that comes until the end; whether the server said that it is the end.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut all = std::mem::take(&mut self.buffer);
        loop {
            match self.receive() {
                Ok(piece) if piece.is_empty() => return (all, true),
                Ok(piece) => all.extend_from_slice(&piece),
                Err(fault) => {
                    assert!(!matches!(fault.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "no end came");
                    return (all, false);
                }
            }
        }
    }
}
