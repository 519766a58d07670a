//! Password files as htpasswd(1) writes them: a line for each user, `name:hash`.
//!
//! Read by `auth`, by `anchorite check` and by `anchorite password`; does no I/O, and computes no hash. Empty lines and those that begin with
//! `#` say nothing; what stands behind a second colon is left alone, as Apache does.

/// A user of a password file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub user: Vec<u8>,
    /// Printable ASCII.
    pub hash: String,
    pub scheme: Scheme,
}

/// How a password was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// `$apr1$`, Apache's own way with MD5.
    Apr1,
    /// `$5$`
    Sha256,
    /// `$6$`
    Sha512,
    /// `$2a$`, `$2b$` or `$2y$`
    Bcrypt,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: usize,
    pub what: &'static str,
}

/// The users in the order of the file, and what is wrong with the lines that give none. Of two lines for one user the first holds.
pub fn parse(text: &[u8]) -> (Vec<Entry>, Vec<Fault>) {
    let (mut entries, mut faults) = (Vec::<Entry>::new(), Vec::new());
    let mut known = std::collections::HashSet::new();
    for (line, text) in (1..).zip(text.split(|&byte| byte == b'\n')) {
        match entry(text) {
            Ok(None) => {}
            Ok(Some(_)) if entries.len() >= USERS_MAX => {
                faults.push(Fault { line, what: "too many users: a password file has at most 100,000" });
                break;
            }
            Ok(Some(entry)) if known.insert(entry.user.clone()) => entries.push(entry),
            Ok(Some(_)) => faults.push(Fault { line, what: "the user has a line before this one, which holds" }),
            Err(what) => faults.push(Fault { line, what }),
        }
    }
    (entries, faults)
}

/// The name that a line is for; `None`: it is for nobody.
pub fn user_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    let at = memchr::memchr(b':', line)?;
    line.get(..at).filter(|user| !user.is_empty() && !user.starts_with(b"#"))
}

/// Why a name cannot be that of a user.
///
/// # Errors
/// Says what it must be like.
pub fn check_user(user: &[u8]) -> Result<(), &'static str> {
    match user {
        [] => Err("the name of the user is empty"),
        _ if user.contains(&b':') => Err("the name of a user holds no colon: what follows it would be the password"),
        _ if user.len() > USER_MAX => Err("the name of a user has at most 255 bytes"),
        _ if user.iter().any(u8::is_ascii_control) => Err("the name of a user holds no control characters"),
        _ if user.starts_with(b"#") => Err("the name of a user does not begin with \"#\": its line would be a comment"),
        _ if user.trim_ascii() != user => Err("the name of a user neither begins nor ends with a space"),
        _ => Ok(()),
    }
}

fn entry(line: &[u8]) -> Result<Option<Entry>, &'static str> {
    let line = line.trim_ascii();
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let mut parts = line.splitn(3, |&byte| byte == b':');
    let (Some(user), Some(hash)) = (parts.next(), parts.next()) else {
        return Err("no user: a line is NAME:HASH");
    };
    check_user(user)?;
    let hash = std::str::from_utf8(hash).ok().filter(|hash| hash.bytes().all(|byte| byte.is_ascii_graphic())).ok_or(NO_HASH)?;
    let scheme = scheme(hash)?;
    Ok(Some(Entry { user: user.to_vec(), hash: hash.to_owned(), scheme }))
}

/// How a hash was made.
///
/// # Errors
/// Why it is not taken.
pub fn scheme(hash: &str) -> Result<Scheme, &'static str> {
    let mut parts = hash.split('$');
    if parts.next() != Some("") {
        return Err(if hash.starts_with("{SHA}") { UNSALTED } else { NO_HASH });
    }
    let name = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    match name {
        "2a" | "2b" | "2y" => bcrypt(&rest),
        "apr1" => match rest[..] {
            [salt, sum] if salt.len() <= 8 && is_sum(sum, 22) => Ok(Scheme::Apr1),
            _ => Err("the apr1 hash is damaged"),
        },
        "5" => sha(&rest, 43).map(|()| Scheme::Sha256),
        "6" => sha(&rest, 86).map(|()| Scheme::Sha512),
        _ => Err(NO_HASH),
    }
}

fn bcrypt(parts: &[&str]) -> Result<Scheme, &'static str> {
    let [cost, sum] = parts else { return Err("the bcrypt hash is damaged") };
    if !is_sum(sum, 53) || cost.len() != 2 {
        return Err("the bcrypt hash is damaged");
    }
    match cost.parse::<u32>() {
        Ok(cost) if (COST_MIN..=COST_MAX).contains(&cost) => Ok(Scheme::Bcrypt),
        Ok(_) => Err("the cost of a bcrypt hash is 4 to 14: one beyond takes longer than a request waits"),
        Err(_) => Err("the bcrypt hash is damaged"),
    }
}

fn sha(parts: &[&str], length: usize) -> Result<(), &'static str> {
    const DAMAGED: &str = "the SHA-crypt hash is damaged";
    let (rounds, salt, sum) = match *parts {
        [salt, sum] => (None, salt, sum),
        [rounds, salt, sum] => (Some(rounds.strip_prefix("rounds=").ok_or(DAMAGED)?), salt, sum),
        _ => return Err(DAMAGED),
    };
    if salt.len() > 16 || !is_sum(sum, length) {
        return Err(DAMAGED);
    }
    match rounds.map(str::parse::<u32>) {
        None => Ok(()),
        Some(Ok(rounds)) if (ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) => Ok(()),
        Some(Ok(_)) => Err("a SHA-crypt hash has 1,000 to 1,000,000 rounds: with more it takes longer than a request waits"),
        Some(Err(_)) => Err(DAMAGED),
    }
}

/// Whether this can be a sum in the alphabet that all of these ways share.
fn is_sum(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'))
}

const NO_HASH: &str = "no hash that is known here, or a password as it is: bcrypt ($2y$), apr1 ($apr1$) or SHA-crypt ($5$, $6$); make one with anchorite password";
const UNSALTED: &str =
    "{SHA} is not taken: without a salt, a stolen file tells its passwords in seconds; make a hash with anchorite password";

/// Bytes of a user's name.
pub const USER_MAX: usize = 255;

/// Bytes of a file: more than its users take.
pub const FILE_MAX: u64 = 32 << 20;

/// Users of one file.
pub const USERS_MAX: usize = 100_000;

const COST_MIN: u32 = 4;
/// About a second on a machine of these years.
const COST_MAX: u32 = 14;
/// What the specification of SHA-crypt has as the least.
const ROUNDS_MIN: u32 = 1_000;
const ROUNDS_MAX: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const BCRYPT: &str = "$2y$05$wtMYnfGAuEvYyhxSVYnfIOtJWU9rHgAfgdcB3eMoB3u9Nl2BCnQ6i";
    const APR1: &str = "$apr1$abcdefgh$aB0./aB0./aB0./aB0./aB";

    #[test]
    fn users_are_read_and_comments_are_not() {
        let text = format!("# staff\n\nalice:{BCRYPT}\r\n  bob:{APR1}:of accounting\nJörg:{APR1}\n");
        let (entries, faults) = parse(text.as_bytes());
        assert_eq!(faults, []);
        let found: Vec<_> = entries.iter().map(|entry| (String::from_utf8_lossy(&entry.user), entry.scheme)).collect();
        assert_eq!(found, [("alice".into(), Scheme::Bcrypt), ("bob".into(), Scheme::Apr1), ("Jörg".into(), Scheme::Apr1)]);
        assert_eq!(entries[1].hash, APR1);
    }

    #[test]
    fn each_line_that_gives_no_user_is_told_with_its_number() {
        let sha = "x".repeat(43);
        for (line, what) in [
            ("alice".to_owned(), "no user"),
            (":x".to_owned(), "is empty"),
            ("alice:secret".to_owned(), "no hash that is known"),
            ("alice:".to_owned(), "no hash that is known"),
            ("alice:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=".to_owned(), "{SHA} is not taken"),
            ("alice:$1$abc$def".to_owned(), "no hash that is known"),
            (format!("alice:{}", &BCRYPT[..59]), "damaged"),
            (format!("alice:{}", BCRYPT.replace("$05$", "$15$")), "cost"),
            (format!("alice:{}", BCRYPT.replace("$05$", "$03$")), "cost"),
            (format!("alice:{}", BCRYPT.replace("$05$", "$5$")), "damaged"),
            (format!("alice:$5$rounds=1000001$salt${sha}"), "rounds"),
            (format!("alice:$5$rounds=999$salt${sha}"), "rounds"),
            (format!("alice:$5$runden=5000$salt${sha}"), "damaged"),
            (format!("alice:$5${}${sha}", "s".repeat(17)), "damaged"),
            (format!("{}:{BCRYPT}", "a".repeat(USER_MAX + 1)), "at most 255"),
            (format!("a\u{1}b:{BCRYPT}"), "control"),
            (format!("first:{BCRYPT}"), "before this one"),
        ] {
            let (entries, faults) = parse(format!("first:{BCRYPT}\n{line}\nlast:{BCRYPT}\n").as_bytes());
            assert_eq!(entries.len(), 2, "{line}");
            assert!(faults.len() == 1 && faults[0].line == 2 && faults[0].what.contains(what), "{line}: {faults:?}");
        }
        for hash in [format!("$5$rounds=1000$salt${sha}"), format!("$6$rounds=1000000$${}", "x".repeat(86)), BCRYPT.replace("$05$", "$14$")]
        {
            assert!(scheme(&hash).is_ok(), "{hash}");
        }
    }

    #[test]
    fn the_user_of_a_line_is_known_whatever_its_hash() {
        assert_eq!(user_of(b" alice:secret\r"), Some(b"alice".as_slice()));
        for line in ["", "#a:b", "alice", ":x"] {
            assert_eq!(user_of(line.as_bytes()), None, "{line}");
        }
    }
}
