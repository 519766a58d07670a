//! Content codings, and which of them a client wants (RFC 9110, 8.4.1 and 12.5.3).
//!
//! Runs in the `worker`; does no I/O. Work is linear in the fields, however many members they list.

use super::head::Request;
use serde::{Deserialize, Serialize};

/// A content coding that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Coding {
    Gzip,
    Brotli,
    Zstd,
}

impl Coding {
    /// All of them, in the order of their numbers.
    pub const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// Its registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// What a file that holds content so coded has at the end of its name.
    pub const fn suffix(self) -> &'static str {
        match self {
            Coding::Gzip => ".gz",
            Coding::Brotli => ".br",
            Coding::Zstd => ".zst",
        }
    }

    /// The coding of a name of a list, in any case; `x-gzip` is gzip (RFC 9110, 8.4.1.3).
    fn of(name: &[u8]) -> Option<Coding> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("gzip") || is("x-gzip") => Some(Coding::Gzip),
            () if is("br") => Some(Coding::Brotli),
            () if is("zstd") => Some(Coding::Zstd),
            () => None,
        }
    }
}

/// How much a client wants each coding, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    codings: [u16; Coding::ALL.len()],
    identity: u16,
}

impl Wanted {
    /// Nothing but the content as it is: what a request without the field gets, since many clients without it can decode nothing, and
    /// one with an empty field.
    pub const PLAIN: Wanted = Wanted { codings: [0; Coding::ALL.len()], identity: 0 };

    /// What the `Accept-Encoding` fields of a request say. Of a name that stands twice the first counts; a member with a malformed weight is as
    /// if it were not there.
    pub fn of(request: &Request<'_, '_>) -> Wanted {
        let (mut codings, mut identity, mut others) = ([None; Coding::ALL.len()], None, None);
        for member in request.fields("accept-encoding").flat_map(|value| value.split(|byte| *byte == b',')) {
            let Some((name, weight)) = member_of(member) else { continue };
            let slot = match Coding::of(name) {
                Some(coding) => codings.get_mut(coding as usize),
                None if name == b"*" => Some(&mut others),
                None if name.eq_ignore_ascii_case(b"identity") => Some(&mut identity),
                None => None,
            };
            if let Some(slot) = slot {
                slot.get_or_insert(weight);
            }
        }
        let rest = others.unwrap_or(0);
        // Without a weight of its own, identity is acceptable, and the last choice.
        Wanted { codings: codings.map(|weight| weight.unwrap_or(rest)), identity: identity.unwrap_or(rest) }
    }

    /// Whether nothing but the content as it is can be sent.
    pub fn is_plain(&self) -> bool {
        self.codings.iter().all(|weight| *weight == 0)
    }

    /// The coding that the client wants most of those that there are, of equals the first; `None`: the content as it is, which is sent too
    /// where the client accepts nothing that there is.
    pub fn best(&self, there: impl IntoIterator<Item = Coding>) -> Option<Coding> {
        let weight = |coding: Coding| self.weight(coding);
        let wanted = there.into_iter().filter(|coding| weight(*coding) > 0 && weight(*coding) >= self.identity);
        wanted.fold(None, |best: Option<Coding>, next| match best {
            Some(best) if weight(best) >= weight(next) => Some(best),
            Some(_) | None => Some(next),
        })
    }

    /// The weight of one.
    pub fn weight(&self, coding: Coding) -> u16 {
        self.codings.get(coding as usize).copied().unwrap_or(0)
    }
}

/// Name and weight of a member of the list.
fn member_of(member: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = member.split(|byte| *byte == b';');
    let name = parts.next()?.trim_ascii();
    match (parts.next(), parts.next()) {
        (None, _) => Some((name, 1000)),
        (Some(parameter), None) => {
            let (q, value) = parameter.trim_ascii().split_at_checked(2)?;
            if !q.eq_ignore_ascii_case(b"q=") {
                return None;
            }
            Some((name, weight(value)?))
        }
        (Some(_), Some(_)) => None,
    }
}

/// A qvalue (RFC 9110, 12.4.2) in thousandths.
fn weight(text: &[u8]) -> Option<u16> {
    let (first, rest) = text.split_first()?;
    let digits = match rest.split_first() {
        None => rest,
        Some((b'.', digits)) if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        Some(_) => return None,
    };
    let thousandths = (0..3).fold(0, |sum, at| sum * 10 + digits.get(at).map_or(0, |digit| u16::from(digit - b'0')));
    match first {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::head::{HeadLimits, field_space, parse};

    const LIMITS: HeadLimits = HeadLimits { request_line: 8192, header_bytes: 1 << 20, header_count: 100 };
    const ORDER: [Coding; 3] = [Coding::Brotli, Coding::Zstd, Coding::Gzip];

    fn wanted(fields: &str) -> Wanted {
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let mut space = field_space();
        Wanted::of(&parse(head.as_bytes(), &mut space, &LIMITS).unwrap())
    }

    fn best(value: &str) -> Option<Coding> {
        wanted(&format!("Accept-Encoding: {value}\r\n")).best(ORDER)
    }

    #[test]
    fn without_the_field_the_content_goes_as_it_is() {
        assert_eq!(wanted(""), Wanted::PLAIN);
        assert_eq!(best(""), None);
        assert!(wanted("Accept-Encoding: identity\r\n").is_plain());
    }

    #[test]
    fn the_highest_weight_is_chosen_and_of_equals_the_servers_first() {
        for (value, expected) in [
            ("gzip", Some(Coding::Gzip)),
            ("x-gzip", Some(Coding::Gzip)),
            ("GZIP;Q=1.000", Some(Coding::Gzip)),
            ("gzip, br", Some(Coding::Brotli)),
            ("gzip, deflate, br, zstd", Some(Coding::Brotli)),
            ("br;q=0.5, gzip;q=0.8", Some(Coding::Gzip)),
            ("br ; q=0.999 ,gzip;q=1", Some(Coding::Gzip)),
            ("zstd;q=0.001", Some(Coding::Zstd)),
            ("*", Some(Coding::Brotli)),
            ("*;q=0.1, gzip", Some(Coding::Gzip)),
            (",, gzip ,", Some(Coding::Gzip)),
            ("deflate, compress", None),
        ] {
            assert_eq!(best(value), expected, "{value}");
        }
    }

    #[test]
    fn what_is_excluded_is_not_sent() {
        for (value, expected) in [
            ("gzip;q=0", None),
            ("gzip;q=0.000, br;q=0, zstd;q=0.0", None),
            ("*;q=0", None),
            ("identity;q=0, *;q=0", None),
            ("br;q=0, *", Some(Coding::Zstd)),
            ("identity;q=0, gzip;q=0.1", Some(Coding::Gzip)),
            ("gzip;q=0, gzip", None),
        ] {
            assert_eq!(best(value), expected, "{value}");
        }
    }

    #[test]
    fn identity_wins_where_it_weighs_more() {
        assert_eq!(best("identity, gzip;q=0.5"), None);
        assert_eq!(best("identity;q=0.5, gzip;q=0.5"), Some(Coding::Gzip));
        assert_eq!(wanted("Accept-Encoding: gzip;q=0.5, *\r\n").best([Coding::Gzip]), None);
    }

    #[test]
    fn malformed_members_are_as_if_they_were_not_there() {
        for value in
            ["gzip;q=2", "gzip;q=1.001", "gzip;q=-1", "gzip;q=0.0001", "gzip;q=", "gzip;q", "gzip;x=1", "gzip;q=1;q=1", "gzip;q=.5"]
        {
            assert_eq!(best(value), None, "{value}");
        }
        assert_eq!(best("gzip;q=x, br"), Some(Coding::Brotli));
        assert_eq!(best("\"gzip, br"), Some(Coding::Brotli));
    }

    #[test]
    fn lists_over_several_lines_are_one() {
        let fields = "Accept-Encoding: br;q=0.1\r\nX: y\r\naccept-encoding: gzip;q=0.2\r\n";
        assert_eq!(wanted(fields).best(ORDER), Some(Coding::Gzip));
    }

    #[test]
    fn h04_a_thousand_members_are_read_once() {
        assert_eq!(best(&format!("{}gzip", "x;q=0.1,".repeat(1000))), Some(Coding::Gzip));
        assert_eq!(best(&format!("{}gzip", "\"((((".repeat(2000))), None);
        assert_eq!(best(&format!("gzip{}", ";q=1".repeat(10_000))), None);
    }
}
