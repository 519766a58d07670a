//! The `Basic` scheme of HTTP authentication (RFC 7617): user and password in an `Authorization` field. Does no I/O.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// Who a client says it is, and how it would prove it.
#[derive(PartialEq, Eq)]
pub struct Credentials {
    pub user: Vec<u8>,
    pub password: Zeroizing<Vec<u8>>,
}

/// Reads the value of an `Authorization` field. `None`: another scheme, or not as RFC 7617 has it: base64 with its padding, a colon, no
/// control characters.
pub fn parse(value: &[u8]) -> Option<Credentials> {
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let encoded = rest.trim_ascii_start();
    if !scheme.eq_ignore_ascii_case(SCHEME) || encoded.len() == rest.len() || encoded.len() > ENCODED_MAX {
        return None;
    }
    let decoded = Zeroizing::new(STANDARD.decode(encoded.trim_ascii_end()).ok()?);
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let (user, password) = (decoded.get(..colon)?, decoded.get(colon + 1..)?);
    if user.is_empty() || decoded.iter().any(u8::is_ascii_control) {
        return None;
    }
    Some(Credentials { user: user.to_vec(), password: Zeroizing::new(password.to_vec()) })
}

/// The value of a `WWW-Authenticate` field that asks for a user. `realm` holds no control characters.
pub fn challenge(realm: &str) -> String {
    let mut quoted = String::with_capacity(realm.len());
    for character in realm.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    format!("Basic realm=\"{quoted}\", charset=\"UTF-8\"")
}

impl std::fmt::Debug for Credentials {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.user))
    }
}

const SCHEME: &[u8] = b"basic";
/// More than any user and password that are taken have.
const ENCODED_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<(String, String)> {
        let Credentials { user, password } = parse(value.as_bytes())?;
        Some((String::from_utf8(user).unwrap(), String::from_utf8(password.to_vec()).unwrap()))
    }

    #[test]
    fn user_and_password_are_read() {
        // The examples of RFC 7617.
        for (value, user, password) in [
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", "Aladdin", "open sesame"),
            ("basic   dGVzdDoxMjPCow== ", "test", "123£"),
            ("BASIC YTo=", "a", ""),
            ("Basic YTpiOmM=", "a", "b:c"),
        ] {
            assert_eq!(read(value), Some((user.to_owned(), password.to_owned())), "{value}");
        }
    }

    #[test]
    fn h05_what_is_not_as_the_rfc_has_it_is_nobody() {
        let long = format!("Basic {}", STANDARD.encode(vec![b':'; 1 << 20]));
        for value in [
            "",
            "Basic",
            "Basic ",
            "Bearer YTpi",
            "BasicYTpi",
            "Basic YTpi=",
            "Basic YTo",
            "Basic YTp*",
            "Basic YWI=",
            "Basic OmI=",
            "Basic YQBiOmM=",
            "Basic YTpiAGM=",
            "Basic YTpiCg==",
            "Basic YTpi YTpi",
            &long,
        ] {
            assert_eq!(read(value), None, "{}", &value[..value.len().min(40)]);
        }
    }

    #[test]
    fn a_realm_is_quoted() {
        assert_eq!(challenge("a \"b\" \\c"), r#"Basic realm="a \"b\" \\c", charset="UTF-8""#);
    }
}
