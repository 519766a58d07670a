//! PRIVILEGED: binds, opens logs, starts, verifies and replaces the other processes. The only role that is never confined,
//! and so the one that never reads a byte from the network, never looks into what its children send beyond a few fixed
//! messages, and asks no name service once it serves.
//!
//! `start` is what happens once, `cell` what is decided about each confined process, `listen` the sockets, `child` one
//! process from its start to its verification, `slot` the place it has and gets again, `generation` the workers of one
//! reading of the configuration, `prepare` what they need before they start, `hear` what they say, `hand_over` what they get once they run,
//! `reload` how the next one takes over, `control` and `status` what an administrator asks, `upgrade` the next program in
//! the same process, `legacy` what that is left and `restore` the way back, `stuck` what does not even die, `supervise` the loop.

#![forbid(unsafe_code)]

mod account;
mod backends;
mod cell;
mod check;
mod child;
mod control;
mod generation;
mod hand_over;
mod hear;
mod legacy;
mod listen;
mod logs;
mod passwords;
mod prepare;
mod programs;
mod prove;
mod reload;
mod report;
mod restore;
mod slot;
mod start;
mod status;
mod stuck;
mod supervise;
mod upgrade;

pub use account::{identity, ignored};
pub use check::{Depth, check};
pub use listen::Owner;
pub use passwords::load as passwords;
pub use prepare::look_ahead;
pub use restore::go_on;
pub use start::{Announce, Origin, go_back, run};
