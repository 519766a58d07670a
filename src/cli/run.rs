//! `anchorite run`: the service, in the foreground.

use crate::config;
use crate::parent::{self, Announce, Origin};
use std::path::Path;

pub(super) fn main(file: &Path, resume: Option<i32>, returned: Option<&str>) -> u8 {
    // Absolute, so that a reload finds it whatever the working directory was.
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    if let Some((resume, why)) = resume.zip(returned) {
        return parent::go_on(resume, why);
    }
    match config::load(&file) {
        Ok(config) => parent::run(config, Origin { file: Some(file), resume }, &Announce::Addresses),
        Err(faults) => {
            complain!("{faults}");
            resume.map_or(1, |resume| parent::go_back(resume, &faults.to_string()))
        }
    }
}
