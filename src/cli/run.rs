//! `anchorite run`: the service, in the foreground.

use crate::config;
use crate::parent::{self, Announce, Origin};
use std::path::Path;

pub(super) fn main(file: &Path, resume: Option<i32>) -> u8 {
    // Absolute, so that a reload finds it whatever the working directory was.
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    match config::load(&file) {
        Ok(config) => parent::run(config, Origin { file: Some(file), resume }, &Announce::Addresses),
        Err(faults) => {
            complain!("{faults}");
            resume.map_or(1, parent::go_back)
        }
    }
}
