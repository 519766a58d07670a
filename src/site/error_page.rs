//! The page of a status that has no content of its own.
//!
//! Runs in the `worker`; does no I/O. Holds nothing of the request, so nothing in a request can become markup, and nothing of this server.

use super::look;
use crate::proto::status::Status;
use std::io::Write;

/// Appends a small page (HTML, UTF-8) that states `status` and what it means to whoever sees it.
pub fn render(status: Status, out: &mut Vec<u8>) {
    let (code, reason) = (status.code(), status.reason());
    look::begin(&look::MESSAGE, status.to_string().as_bytes(), "", out);
    // Writing to a vector does not fail.
    let _ = writeln!(out, "<h1><span>{code}</span> {reason}</h1>\n<p>{}</p>", meaning(status));
    look::end(out);
}

/// What to make of it, in the words of someone who only wanted to read a page.
fn meaning(status: Status) -> &'static str {
    match status.code() {
        400 => "Your browser sent a request that could not be understood.",
        401 => "You have to sign in to see this page.",
        403 => "You may not see this page.",
        404 => "There is nothing at this address. It may have been moved or removed.",
        405 => "This page does not take that kind of request.",
        408 => "The request took too long to arrive. Please try again.",
        410 => "What was here is gone for good.",
        412 => "The page has changed since your browser last looked at it.",
        413 => "What you sent is too large.",
        414 => "The address is too long.",
        416 => "The part that was asked for does not exist.",
        429 => "That was too much at once. Please wait a moment and try again.",
        431 => "Your browser sent more than is accepted. Deleting the cookies of this site may help.",
        500 => "Something went wrong here. The reason is in the log of this server.",
        501 => "This is not something that can be done here.",
        502 => "The service behind this page gave no proper answer. Please try again later.",
        503 => "This page cannot be served at the moment. Please try again in a little while.",
        504 => "The service behind this page took too long to answer. Please try again later.",
        505 => "Your browser speaks a version of HTTP that is not spoken here.",
        507 => "There is no room left to store what you sent.",
        code => match code / 100 {
            2 => "There is nothing to show.",
            3 => "What was here is now at another address.",
            4 => "This request cannot be answered.",
            _ => "This page cannot be served.",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(status: Status) -> String {
        let mut out = Vec::new();
        render(status, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_page_states_code_and_reason_and_what_it_means() {
        let page = page(Status::NOT_FOUND);
        assert!(page.starts_with("<!DOCTYPE html>"), "{page}");
        assert!(page.contains("<title>404 Not Found</title>"), "{page}");
        assert!(page.contains("<h1><span>404</span> Not Found</h1>\n<p>There is nothing at this address."), "{page}");
        assert!(page.contains("<meta charset=\"utf-8\">"), "{page}");
        assert!(!page.contains("anchorite"), "{page}");
    }

    #[test]
    fn every_status_has_a_page_of_one_sentence_or_two() {
        for status in (200..600).filter_map(Status::of) {
            let page = page(status);
            let sentence = page.split("<p>").nth(1).and_then(|rest| rest.split("</p>").next()).unwrap();
            assert!(sentence.ends_with('.') && sentence.len() < 100 && !sentence.contains('<'), "{status}: {sentence}");
            assert!(page.len() < 2_500, "{status}: {}", page.len());
        }
    }
}
