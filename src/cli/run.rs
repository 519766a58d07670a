//! `anchorite run`: the service, in the foreground.

use crate::config;
use crate::parent::{self, Announce};
use std::path::Path;

pub(super) fn main(file: &Path) -> u8 {
    match config::load(file) {
        Ok(config) => parent::run(config, Some(file.to_owned()), &Announce::Addresses),
        Err(faults) => {
            eprintln!("{faults}");
            1
        }
    }
}
