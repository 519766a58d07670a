//! The path of a target: no dot segment, NUL or separator gets through, and what is written of it reads back as the same.

#![no_main]

use anchorite::proto::target::{self, Path};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut path = Path::default();
    if target::parse_into(data, &mut path).is_err() || !data.starts_with(b"/") {
        return;
    }
    let segments: Vec<&[u8]> = path.segments().collect();
    assert!(path.bytes().starts_with(b"/") && path.is_directory() == (path.bytes().ends_with(b"/") && is_separator(&path)));
    for segment in &segments {
        assert!(!segment.is_empty() && *segment != b"." && *segment != b".." && !segment.contains(&0), "{segment:?}");
        assert!(!(path.names_file() && segment.contains(&b'/')), "{segment:?}");
    }
    let mut joined = segments.iter().flat_map(|segment| [b"/".as_slice(), segment].concat()).collect::<Vec<u8>>();
    if path.is_directory() {
        joined.push(b'/');
    }
    assert_eq!(joined, path.bytes());
    let mut written = Vec::new();
    path.encode_part(0..path.bytes().len(), &mut written);
    assert!(written.iter().all(|byte| byte.is_ascii_graphic() && !b"\"<>?#\\`{}|^".contains(byte)), "{}", String::from_utf8_lossy(&written));
    let mut again = Path::default();
    target::parse_into(&written, &mut again).expect("what was written can be read");
    assert_eq!((again.bytes(), again.is_directory()), (path.bytes(), path.is_directory()));
    // A path that went through a segment with a slash and out again names no file; what is written of it does not tell.
    let has_slash = segments.iter().any(|segment| segment.contains(&b'/'));
    assert!(again.names_file() != has_slash && (again.names_file() || !path.names_file()));
    assert_eq!(again.segments().collect::<Vec<_>>(), segments);
});

/// Whether the last slash of the path is none that came encoded.
fn is_separator(path: &Path) -> bool {
    path.is_directory() || !path.segments().last().is_some_and(|segment| segment.ends_with(b"/"))
}
