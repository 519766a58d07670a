//! Names of hosts, looked up (getaddrinfo(3)) by a process of its own that has given up every right and does nothing else: modules of NSS and
//! answers of DNS servers are foreign, and either may keep who asks waiting. Used by `connect` before it is confined, and by the command
//! `check`; never by a process that serves.

use super::errand::Errand;
use super::privilege::{self, Identity};
use super::{alarm, clock};
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The addresses of each name with its port, in the order in which they are to be tried; all within [`LIMIT_MS`]. For a process of one thread.
pub fn resolve(names: &[(String, u16)], identity: Identity) -> Vec<Result<Vec<SocketAddr>, String>> {
    if names.is_empty() {
        return Vec::new();
    }
    match ask(names, identity) {
        Ok(answers) => names.iter().enumerate().map(|(index, (_, port))| read_line(answers.lines().nth(index), *port)).collect(),
        Err(fault) => names.iter().map(|_| Err(format!("look-up: {fault}"))).collect(),
    }
}

/// A line for each name.
fn ask(names: &[(String, u16)], identity: Identity) -> io::Result<String> {
    let mut errand = Errand::begin(|pipe| drop(answer(names, identity, pipe)))?;
    let text = read_all(&mut errand);
    errand.end();
    text
}

/// What the child does: without a right, and not for long.
fn answer(names: &[(String, u16)], identity: Identity, mut out: File) -> io::Result<()> {
    privilege::become_identity(identity, &[])?;
    privilege::drop_capabilities()?;
    nix::sys::prctl::set_no_new_privs()?;
    alarm::end_in(LIMIT_MS)?;
    for (name, port) in names {
        writeln!(out, "{}", line((name.as_str(), *port).to_socket_addrs()))?;
    }
    Ok(())
}

fn line(found: io::Result<impl Iterator<Item = SocketAddr>>) -> String {
    match found {
        Ok(addresses) => addresses.map(|address| format!(" {}", address.ip())).collect(),
        Err(fault) => format!("!{}", fault.to_string().replace(char::is_control, " ")),
    }
}

/// Reads such a line; it comes from a process that may be anybody's by now.
fn read_line(line: Option<&str>, port: u16) -> Result<Vec<SocketAddr>, String> {
    let line = line.ok_or_else(|| format!("no answer within {} s", LIMIT_MS / 1000))?;
    if let Some(why) = line.strip_prefix('!') {
        return Err(why.chars().filter(|c| !c.is_control()).take(WHY_MAX).collect());
    }
    let mut addresses = Vec::new();
    for word in line.split_whitespace() {
        let address: IpAddr = word.parse().map_err(|_| "the look-up gave what is no address".to_owned())?;
        let address = SocketAddr::new(address.to_canonical(), port);
        if !address.ip().is_unspecified() && !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err("it has no address".to_owned()) } else { Ok(addresses) }
}

fn read_all(errand: &mut Errand) -> io::Result<String> {
    let (until, mut text) = (clock::monotonic_ms() + u64::from(LIMIT_MS) + GRACE_MS, Vec::new());
    let mut buffer = [0; 4096];
    while text.len() < TEXT_MAX {
        match errand.hear(&mut buffer, until)? {
            None | Some(0) => break,
            Some(count) => text.extend_from_slice(buffer.get(..count).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// How long all look-ups together may take: less than a role may need to start.
pub const LIMIT_MS: u32 = 5_000;
const GRACE_MS: u64 = 500;
const TEXT_MAX: usize = 256 * 1024;
const WHY_MAX: usize = 200;

/// Of one name: more are no help.
const ADDRESSES_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_and_nothing_else_is_believed() {
        let addresses: Vec<SocketAddr> = vec!["[::1]:9".parse().unwrap(), "127.0.0.1:9".parse().unwrap(), "127.0.0.1:9".parse().unwrap()];
        let told = line(Ok(addresses.clone().into_iter()));
        assert_eq!(read_line(Some(&told), 9), Ok(addresses[..2].to_vec()));
        assert_eq!(read_line(Some(" ::ffff:10.0.0.1"), 1), Ok(vec!["10.0.0.1:1".parse().unwrap()]));
        let failed = line(Err::<std::vec::IntoIter<SocketAddr>, _>(io::Error::other("no\nsuch name")));
        assert_eq!(read_line(Some(&failed), 9), Err("no such name".to_owned()));
        for (text, why) in [
            (None, "no answer within 5 s"),
            (Some(""), "it has no address"),
            (Some(" 0.0.0.0 ::"), "it has no address"),
            (Some(" localhost"), "the look-up gave what is no address"),
            (Some(" 127.0.0.1 x"), "the look-up gave what is no address"),
        ] {
            assert_eq!(read_line(text, 9), Err(why.to_owned()), "{text:?}");
        }
        let many: String = (1..=40).map(|last| format!(" 10.0.0.{last}")).collect();
        assert_eq!(read_line(Some(&many), 9).unwrap().len(), ADDRESSES_MAX);
    }
}
