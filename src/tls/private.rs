//! Private keys as PEM: PKCS#8, PKCS#1 or SEC1. Does no I/O, and leaves no copy of what it read.

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::SigningKey;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The key that a file holds, which has this public key (SubjectPublicKeyInfo as DER).
///
/// # Errors
/// Says what is wrong with it; nothing of the key is in the text.
pub fn read(pem: &[u8], public: &[u8]) -> Result<Arc<dyn SigningKey>, String> {
    let key =
        any_supported_type(&parse(pem)?).map_err(|_| "its key cannot be used: it is damaged, or of an algorithm that is not known")?;
    match key.public_key() {
        Some(own) if own.as_ref() == public => Ok(key),
        Some(_) => Err("the key is not that of the certificate".to_owned()),
        None => Err("its public key cannot be told".to_owned()),
    }
}

/// The key as DER, for a worker that signs itself, made sure of as by [`read`].
///
/// # Errors
/// As [`read`].
pub fn read_der(pem: &[u8], public: &[u8]) -> Result<Zeroizing<Vec<u8>>, String> {
    read(pem, public)?;
    Ok(Zeroizing::new(parse(pem)?.secret_der().to_vec()))
}

fn parse(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    if find(pem, b"ENCRYPTED") {
        return Err("its key is encrypted, and nobody is there to be asked for the passphrase (openssl pkey removes it)".to_owned());
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| "it holds no private key (\"-----BEGIN PRIVATE KEY-----\")".to_owned())
}

fn find(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}
