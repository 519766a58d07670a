//! `anchorite check`: every fault of a configuration at once.

use crate::config;
use std::path::Path;

pub(super) fn main(file: &Path) -> u8 {
    match config::load(file) {
        Ok(_) => {
            println!("{}: the configuration is good", file.display());
            0
        }
        Err(faults) => {
            eprintln!("{faults}");
            1
        }
    }
}
