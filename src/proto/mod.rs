//! HTTP without I/O: bytes in, decisions and bytes out.
//!
//! Runs in the confined `worker`, on bytes that an attacker chose. Nothing here reads a socket, a file or a clock, nothing panics
//! on foreign bytes, and no work is more than linear in the bytes given. Where the standard leaves a choice between lenient and
//! strict, the strict reading is taken, since what two readers understand differently is how requests are smuggled (RFC 9112, 11.2).

#![forbid(unsafe_code)]

pub mod accept;
pub mod basic;
pub mod body;
pub mod cgi;
pub mod chunked;
pub mod coding;
pub mod conditional;
pub mod date;
pub mod decimal;
pub mod environment;
pub mod fastcgi;
pub mod fault;
mod fields;
pub mod forwarded;
pub mod head;
pub mod http2;
mod piece;
pub mod proxy_protocol;
pub mod range;
mod request_line;
pub mod response_head;
pub mod scgi;
pub mod status;
pub mod target;
pub mod uwsgi;
