//! Certificates as PEM: read, put in order, and what has to be known of them. Does no I/O.

use crate::config::KeyKind;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};

/// What a certificate file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// DER, the site's own first.
    pub chain: Vec<Vec<u8>>,
    pub kind: KeyKind,
    /// The public key of the first as DER (SubjectPublicKeyInfo).
    pub public: Vec<u8>,
    /// When the first of them is over, in seconds since 1970.
    pub not_after: u64,
    /// What is served in spite of it.
    pub warnings: Vec<String>,
}

/// One certificate and what its place in a chain depends on.
struct Link {
    der: Vec<u8>,
    subject: Vec<u8>,
    issuer: Vec<u8>,
    certificate: Certificate,
}

/// The certificates of a file, the site's own first and behind each the one that vouches for it, whatever their order in the file.
///
/// # Errors
/// Says what is wrong with it.
pub fn read(pem: &[u8]) -> Result<Chain, String> {
    let mut links = read_all(pem)?;
    let count = links.len();
    if count == 0 {
        return Err("it holds no certificate (\"-----BEGIN CERTIFICATE-----\")".to_owned());
    }
    let vouches = |links: &[Link], index: usize| {
        links.iter().enumerate().any(|(other, link)| other != index && link.issuer == links[index].subject && link.subject != link.issuer)
    };
    let own = (0..count).find(|index| !vouches(&links, *index)).unwrap_or(0);
    let mut warnings = Vec::new();
    let is_in_order = own == 0 && links.windows(2).all(|pair| pair[0].issuer == pair[1].subject);
    let mut chain = vec![links.remove(own)];
    while let Some(next) = chain.last().and_then(|last| links.iter().position(|link| link.subject == last.issuer)) {
        chain.push(links.remove(next));
    }
    if !links.is_empty() {
        warnings.push(format!("{} of its {count} certificates vouch for none of the others, and are not sent", links.len()));
    } else if !is_in_order {
        warnings.push("its certificates are in another order than they are sent in: the site's own comes first".to_owned());
    }
    let first = chain.first().ok_or("it holds no certificate")?;
    let key = first.certificate.tbs_certificate().subject_public_key_info();
    let public = key.to_der().map_err(|fault| format!("its public key: {fault}"))?;
    let kind = kind(key.algorithm.oid, key.algorithm.parameters.as_ref().and_then(|parameter| parameter.decode_as().ok()))?;
    let validity = |link: &Link| link.certificate.tbs_certificate().validity().not_after.to_unix_duration().as_secs();
    let not_after = chain.iter().map(validity).min().unwrap_or(0);
    Ok(Chain { kind, public, not_after, warnings, chain: chain.into_iter().map(|link| link.der).collect() })
}

/// Certificates in any order, as DER: of those who vouch for clients.
///
/// # Errors
/// Says what is wrong with the file.
pub fn read_authorities(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let links = read_all(pem)?;
    if links.is_empty() { Err("it holds no certificate".to_owned()) } else { Ok(links.into_iter().map(|link| link.der).collect()) }
}

fn read_all(pem: &[u8]) -> Result<Vec<Link>, String> {
    let mut links: Vec<Link> = Vec::new();
    for (number, found) in CertificateDer::pem_slice_iter(pem).enumerate() {
        let number = number + 1;
        let der = found.map_err(|fault| format!("certificate {number} is no PEM: {fault}"))?;
        let broken = |fault: x509_cert::der::Error| format!("certificate {number} cannot be read: {fault}");
        let certificate = Certificate::from_der(&der).map_err(broken)?;
        let own = certificate.tbs_certificate();
        let (subject, issuer) = (own.subject().to_der().map_err(broken)?, own.issuer().to_der().map_err(broken)?);
        if links.iter().any(|link| link.der == der.as_ref()) {
            continue;
        }
        if links.len() == CERTIFICATES_MAX {
            return Err(format!("it holds more than {CERTIFICATES_MAX} certificates"));
        }
        links.push(Link { der: der.to_vec(), subject, issuer, certificate });
    }
    Ok(links)
}

/// The algorithm of a public key: RFC 5480, RFC 8410, RFC 8017.
fn kind(algorithm: ObjectIdentifier, curve: Option<ObjectIdentifier>) -> Result<KeyKind, String> {
    const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
    const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
    const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
    const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
    const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
    const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
    match (algorithm, curve) {
        (EC, Some(P256)) => Ok(KeyKind::Ecdsa256),
        (EC, Some(P384)) => Ok(KeyKind::Ecdsa384),
        (EC, Some(P521)) => Ok(KeyKind::Ecdsa521),
        (ED25519, _) => Ok(KeyKind::Ed25519),
        (RSA, _) => Ok(KeyKind::Rsa),
        _ => Err("its key is of an algorithm that TLS servers do not use: expected ECDSA (P-256, P-384, P-521), Ed25519 or RSA".to_owned()),
    }
}

/// More than any chain or list of authorities in use has.
const CERTIFICATES_MAX: usize = 512;
