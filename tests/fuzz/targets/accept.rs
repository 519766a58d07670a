//! `Accept`: what stands on one line means the same on several, and nothing is wanted that was not named.

#![no_main]

use anchorite::proto::accept::Preference;

const TYPES: [&str; 3] = ["text/html", "application/json", "text/plain"];

fn qualities<'v>(values: impl Iterator<Item = &'v [u8]>) -> [u16; 3] {
    let mut preference = Preference::new(TYPES);
    values.for_each(|value| preference.read(value));
    preference.qualities()
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let whole = qualities(std::iter::once(data));
    assert_eq!(qualities(data.split(|byte| *byte == b',')), whole, "one line or several");
    assert!(whole.iter().all(|quality| *quality <= 1000));
    let named = |name: &str| data.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name.as_bytes()));
    for (media, quality) in TYPES.iter().zip(whole) {
        let kind = &media[..=media.find('/').unwrap()];
        assert!(quality == 0 || named(media) || named(&format!("{kind}*")) || named("*/*"), "{media} was not named");
    }
    // The order of the members does not matter.
    let mut members: Vec<&[u8]> = data.split(|byte| *byte == b',').collect();
    members.reverse();
    assert_eq!(qualities(members.into_iter()), whole, "turned around");
});
