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
    match parent::look_ahead(&file).and_then(|()| config::load(&file).map_err(|faults| faults.to_string())) {
        Ok(config) => parent::run(config, Origin { file: Some(file), resume }, &Announce::Addresses),
        Err(why) => {
            complain!("{why}");
            resume.map_or(1, |resume| parent::go_back(resume, &why))
        }
    }
}
