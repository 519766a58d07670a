//! The configuration: every text is read or refused with a message, and what is read means the same when it is written out, or
//! handed to a role.

#![no_main]

use anchorite::config::{self, LogNumbers};
use std::path::Path;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // Other files are not what is tried here.
    if text.contains("include") {
        return;
    }
    let file = Path::new("/nowhere/anchorite.toml");
    let config = match config::parse(text, file) {
        Ok(config) => config,
        Err(diagnostics) => {
            let told = diagnostics.to_string();
            assert!(!told.is_empty() && !told.contains('\0'));
            return;
        }
    };
    let written = config::dump(&config);
    let again = config::parse(&written, file).unwrap_or_else(|fault| panic!("{fault}\n{written}"));
    assert_eq!(config::dump(&again), written);
    let logs = LogNumbers { service: Some(1), sites: config.sites.iter().map(|_| Some(1)).collect() };
    let slice = config.worker_slice(logs);
    assert_eq!(config::decode::<config::WorkerSlice>(&config::encode(&slice)), Ok(slice));
});
