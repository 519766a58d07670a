//! HTTP/2 (RFC 9113): the crate `h2` reads and writes its frames, polled from the worker's own loop.
//!
//! A connection of HTTP/2 is a session, which owns the socket; each of its streams is a [`Connection`](super::connection::Connection) as any
//! client's, over a [`Stream`](stream::Stream) where others have a socket: its head is written down as text, its content read and written as
//! bytes. So everything that answers requests of HTTP/1.1 answers these. A file per concern: `session` is the connection, `pipe` what `h2`
//! takes for its socket, `meter` counts what a client may not send without end, `stream` is one request's bytes in and out, `shared` what
//! streams and their session tell each other, `bell` how `h2` wakes streams.
//!
//! Nothing waits for anything here: what `h2` calls a task is a token in the loop's queue.

pub(super) mod bell;
mod meter;
mod pipe;
pub(super) mod session;
pub(super) mod shared;
pub(super) mod stream;
