//! The rules of a site, compiled once, and their run over a request.
//!
//! Runs in the `worker` and in `anchorite explain`; does no I/O. Rules run from top to bottom; changes add up; the first act that answers ends
//! the run. Only `allow`, `deny` and `auth` do not wait for their turn: those of all rules, wherever they stand, are tried before the first rule runs
//! and again whenever the path has become another, so that no act, and no rewriting above, takes a path past them.
//!
//! `compiled` is what the rules are made into, `run` their run. A file per act, by its word in the configuration; `matchers` says whether a
//! rule applies, `access` whether it permits.

mod access;
mod alias;
mod backend;
mod compiled;
mod matchers;
mod redirect;
mod respond;
mod rewrite;
mod run;
mod scripts;
mod try_;

pub use compiled::Quota;
pub(super) use compiled::Rules;
pub use run::ResponseChanges;
pub(super) use run::{Lent, Next, Run};

#[cfg(test)]
mod tests;
