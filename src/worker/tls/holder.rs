//! What a client's certificate says of its holder.
//!
//! Runs in the worker, on a certificate that was verified.

use crate::site::facts::Holder;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Names as RFC 4514 writes them. `None` of what cannot be read: then the holder has no name, and is none that an application knows.
pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Holder> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let tbs = certificate.tbs_certificate();
    let serial = tbs.serial_number().as_bytes();
    Some(Holder {
        subject: tbs.subject().to_string(),
        issuer: tbs.issuer().to_string(),
        serial: serial.iter().map(|byte| format!("{byte:02X}")).collect(),
    })
}
