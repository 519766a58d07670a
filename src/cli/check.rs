//! `anchorite check`: every fault of a configuration at once.

use crate::config;
use std::path::Path;

pub(super) fn main(file: &Path, dump: bool) -> u8 {
    match config::load(file) {
        Ok(config) if dump => {
            print!("{}", config::dump(&config));
            0
        }
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
