//! TLS (RFC 8446, RFC 5246): the crate `rustls` makes and reads its records; the bytes are moved by the worker's own loop.
//!
//! A file per concern: `link` is one client's connection, `identity` what each site proves itself with and how a client's name leads to it,
//! `choice` picks one certificate of several, `tickets` binds what resumes a session to the site that it was made with, `holder` reads what
//! a client's certificate says of its holder.

mod choice;
pub(super) mod holder;
pub(super) mod identity;
pub(super) mod link;
pub(super) mod signer;
mod tickets;
