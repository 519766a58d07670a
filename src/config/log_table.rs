//! Which log files there are, by number: workers and `log` know them by it and never by their paths. Does no I/O.

use super::{Config, LogTarget};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Where access lines go, as a worker knows it; `None`: nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogNumbers {
    /// Requests that came to no site.
    pub service: Option<u16>,
    /// By site.
    pub sites: Vec<Option<u16>>,
}

/// The number of the socket to syslog, which is no file.
pub const SYSLOG: u16 = 0;

/// How many logs one service may have: each is a descriptor in two processes, perhaps in several generations.
pub const NUMBERS_MAX: usize = 8192;

impl Config {
    /// Every log that something is written to, each once: what two sites share is one file.
    pub fn log_targets(&self) -> BTreeSet<&LogTarget> {
        let own = self.sites.iter().filter_map(|site| site.access_log.as_ref());
        own.chain([&self.log.access, &self.log.error]).filter(|target| **target != LogTarget::Off).collect()
    }

    /// Numbers for the logs that this configuration names, those of `known` unchanged: a worker of an older generation still uses
    /// them.
    ///
    /// # Errors
    /// There are more than [`NUMBERS_MAX`].
    pub fn number_logs(&self, known: &BTreeMap<LogTarget, u16>) -> Result<BTreeMap<LogTarget, u16>, String> {
        let targets = self.log_targets();
        if targets.len() > NUMBERS_MAX {
            return Err(format!("{} log files are more than the {NUMBERS_MAX} that are possible", targets.len()));
        }
        let taken: BTreeSet<u16> = known.values().copied().collect();
        let mut free = (SYSLOG + 1..u16::MAX).filter(|number| !taken.contains(number));
        let mut numbers = BTreeMap::new();
        for target in targets {
            let number = if *target == LogTarget::Syslog { Some(SYSLOG) } else { known.get(target).copied().or_else(|| free.next()) };
            numbers.insert(target.clone(), number.ok_or("too many log files are in use by older generations")?);
        }
        Ok(numbers)
    }

    /// Where access lines go, by these numbers.
    pub fn log_numbers(&self, numbers: &BTreeMap<LogTarget, u16>) -> LogNumbers {
        let number = |target: &LogTarget| numbers.get(target).copied();
        LogNumbers {
            service: number(&self.log.access),
            sites: self.sites.iter().map(|site| number(site.access_log.as_ref().unwrap_or(&self.log.access))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;
    use std::path::Path;

    fn config(log: &str, sites: &[&str]) -> Config {
        let sites: Vec<String> =
            (0..).zip(sites).map(|(index, own): (u32, _)| format!("[[site]]\nname = \"s{index}\"\nroot = \"/srv\"\n{own}\n")).collect();
        parse(&format!("[log]\n{log}\n{}", sites.concat()), Path::new("/etc/a.toml")).unwrap()
    }

    #[test]
    fn the_same_file_has_one_number_and_off_has_none() {
        let config = config(
            "access = \"/l/access\"\nerror = \"/l/access\"",
            &["", "access_log = \"/l/own\"", "access_log = \"off\"", "access_log = \"/l/access\"", "access_log = \"syslog\""],
        );
        let numbers = config.number_logs(&BTreeMap::new()).unwrap();
        assert_eq!(numbers.len(), 3);
        let LogNumbers { service, sites } = config.log_numbers(&numbers);
        assert_eq!((sites[0], sites[3]), (service, service));
        assert!(service.is_some() && sites[1].is_some() && sites[1] != service);
        assert_eq!((sites[2], sites[4]), (None, Some(SYSLOG)));
    }

    #[test]
    fn a_number_stays_and_none_is_given_twice() {
        let before = config("access = \"/l/b\"\nerror = \"/l/e\"", &[""]);
        let known = before.number_logs(&BTreeMap::new()).unwrap();
        let after = config("access = \"/l/a\"\nerror = \"/l/e\"", &["", "access_log = \"/l/c\""]);
        let numbers = after.number_logs(&known).unwrap();
        let of = |name: &str| numbers[&LogTarget::File(name.into())];
        assert_eq!(of("/l/e"), known[&LogTarget::File("/l/e".into())]);
        let old = known[&LogTarget::File("/l/b".into())];
        assert!(of("/l/a") != old && of("/l/c") != old && of("/l/a") != of("/l/c"));
    }
}
