//! The page of a status that has no content of its own.
//!
//! Runs in the `worker`; does no I/O. Holds nothing of the request, so nothing in a request can become markup.

use crate::proto::status::Status;
use std::io::Write;

/// Appends a small page (HTML, UTF-8) that states `status`, and nothing of this server.
pub fn render(status: Status, out: &mut Vec<u8>) {
    let (code, reason) = (status.code(), status.reason());
    // Writing to a vector does not fail.
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{code} {reason}</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<main><h1>{code}</h1><p>{reason}</p></main>\n</body>\n</html>\n"
    );
}

const STYLE: &str = "body{margin:0;min-height:90vh;display:grid;place-items:center;text-align:center;\
                     font:1.125rem/1.4 system-ui,sans-serif}h1{margin:0;font-size:4rem;font-weight:300}p{margin:0;opacity:.75}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_states_code_and_reason() {
        let mut out = Vec::new();
        render(Status::NOT_FOUND, &mut out);
        let page = String::from_utf8(out).unwrap();
        assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
        assert!(page.contains("<title>404 Not Found</title>"), "{page}");
        assert!(page.contains("<meta charset=\"utf-8\">"), "{page}");
        assert!(!page.contains("anchorite"), "{page}");
    }
}
