//! A host name as the configuration may have it, brought into the form that requests are compared with. Does no I/O.

/// A name as it is compared with a request's: lower case, without the root's dot. RFC 1123, section 2.1, and `_`, which is in use.
pub(super) fn host_name(written: &str) -> Result<String, &'static str> {
    let name = written.to_ascii_lowercase();
    if name.is_empty() {
        return Ok(name);
    }
    let name = name.strip_suffix('.').unwrap_or(&name);
    let host = name.strip_prefix("*.").unwrap_or(name);
    if name == "*" {
        return Err("expected \"\" for requests that match no other site");
    }
    if !host.is_ascii() {
        return Err("expected its ASCII form, which begins with \"xn--\"");
    }
    if host.contains('*') {
        return Err("expected \"*\" only as the whole first label, such as \"*.example.org\"");
    }
    if host.contains(':') {
        return Err("expected a name without a port");
    }
    if name.len() > NAME_MAX {
        return Err("expected at most 253 characters");
    }
    if !host.split('.').all(is_label) {
        return Err("expected labels of 1 to 63 letters, digits, \"-\" and \"_\" with dots between them");
    }
    Ok(name.to_owned())
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Characters of a host name without its last dot: RFC 1035, section 2.3.4.
const NAME_MAX: usize = 253;
/// Characters of a label, from the same section.
const LABEL_MAX: usize = 63;
