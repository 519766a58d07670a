//! Probes of the kind that suites for HTTP/1.1 servers send: what is sent, and the one right answer with the section that says so. Written
//! from the RFCs alone; what stands in `tests/features/probes.rs` is not repeated. Where a section leaves a choice, this server's is the stricter.

use crate::support::{Response, Root, Server, shown};
use std::time::{Duration, SystemTime};

/// `statuses; Name: value; -Absent; "body"`: what a response has to be.
type Right = &'static str;

/// Targets of a GET (RFC 9112, 3.2; RFC 3986).
const TARGETS: &[(&str, &str, Right)] = &[
    ("9112 3.2.1", "/f.txt", "200; Content-Length: 10; \"0123456789\""),
    ("9112 3.2.1", "/f.txt?", "200; Content-Length: 10"),
    ("9112 3.2.1", "/f.txt?a=b&c=%20?/", "200; Content-Length: 10"),
    ("9112 3.2.1", "?x", "400"),
    ("9112 3.2.1", "f.txt", "400"),
    ("9112 3.2.1", "./f.txt", "400"),
    ("9112 3.2.2", "http://a/f.txt", "200; Content-Length: 10"),
    ("9112 3.2.2", "HTTP://A/f.txt", "200; Content-Length: 10"),
    ("9112 3.2.2", "http://a", "200; Content-Length: 6"),
    ("9112 3.2.2", "http://a?x", "200; Content-Length: 6"),
    ("9112 3.2.2", "http://a:80/f.txt", "200; Content-Length: 10"),
    ("9112 3.2.2", "http://a:99999/", "400"),
    ("9112 3.2.2", "http://[::1]/f.txt", "200; Content-Length: 10"),
    ("9112 3.2.2", "http://[::1/", "400"),
    ("9112 3.2.2", "http://a b/", "400"),
    ("9112 3.2.2", "http:/a/", "400"),
    ("9112 3.2.2", "http://a/#x", "400"),
    ("9112 3.2.2", "gopher://a/", "400"),
    ("9112 3.2.3", "a:80", "400"),
    ("3986 5.2.4", "/./f.txt", "200; Content-Length: 10"),
    ("3986 5.2.4", "/x/../f.txt", "200|404"),
    ("3986 6.2.2.2", "/%66.txt", "200; Content-Length: 10"),
    ("3986 6.2.2.1", "/f%2Etxt", "200; Content-Length: 10"),
    ("3986 6.2.2.1", "/f%2etxt", "200; Content-Length: 10"),
    ("3986 2.1", "/f.txt%2", "400"),
    ("3986 2.1", "/f.txt%g0", "400"),
    ("3986 2.1", "/%25%36%36.txt", "404"),
    ("3986 2.2", "/f.txt;v=1", "404"),
    ("3986 2.2", "/!$&'()*+,;=:@", "404"),
    ("3986 2.3", "/-._~", "404"),
    // Not in the grammar of a path, but browsers send them so (URL Standard, path percent-encode set), and they separate nothing.
    ("3986 2.2", "/[x]", "404"),
    ("3986 3.4", "/f.txt?<x>", "400"),
    ("3986 3.4", "/f.txt?a b", "400"),
    ("3986 3.4", "/f.txt?\"x\"", "400"),
    ("3986 6.2.2.1", "/F.TXT", "404"),
    ("3986 3.3", "/f.txt.", "404"),
    ("3986 3.3", "/f.txt%20", "404"),
    ("3986 3.3", "/f.txt/", "404"),
    ("3986 3.3", "//f.txt", "200|404"),
    ("3986 5.2.4", "/%2e%2e/f.txt", "400|404"),
    ("3986 2.1", "/%0a", "400|404"),
    ("3986 2.1", "/%7f", "404"),
    ("3986 2.1", "/%ff", "404"),
    ("3986 2.2", "/a%2ff.txt", "404"),
    ("3986 2", "/a\\f.txt", "400"),
    ("3986 2", "/a^b", "400"),
    ("3986 2", "/a`b", "400"),
    ("3986 2", "/a{b}", "400"),
    ("3986 2", "/a|b", "400"),
];

/// Values of `Host` (RFC 9112, 3.2; RFC 9110, 7.2; RFC 3986, 3.2).
const HOSTS: &[(&str, &str, Right)] = &[
    ("9110 4.2.3", "A", "200"),
    ("9110 7.2", "a.", "200"),
    ("9110 7.2", "a:80", "200"),
    ("9110 7.2", "a:65535", "200"),
    ("9110 7.2", "a:65536", "400"),
    ("9110 7.2", "a:x", "400"),
    ("3986 3.2.2", "[::1]", "200"),
    ("3986 3.2.2", "[::1]:80", "200"),
    ("3986 3.2.2", "[1::2::3]", "400"),
    ("3986 3.2.2", "::1", "400"),
    ("3986 3.2.2", "127.0.0.1", "200"),
    ("3986 3.2.2", "xn--bcher-kva.test", "200"),
    ("3986 3.2.2", "a_b", "200"),
    ("9112 3.2", "a b", "400"),
    ("9112 3.2", "a\tb", "400"),
    ("9112 3.2", "a,b", "400"),
    ("9112 3.2", "u@a", "400"),
    ("9112 3.2", "a?x", "400"),
    ("9112 3.2", "a#x", "400"),
    ("9112 3.2", "\u{e9}", "400"),
    ("9112 3.2", "a\\b", "400"),
    ("9112 3.2", "<a>", "400"),
    ("9112 3.2", ":80", "400"),
];

/// Field lines of a request, behind `Host`: the section, the method and target, the lines, and the answer. `{etag}` is that of the file.
const FIELDS: &[(&str, &str, &str, Right)] = &[
    // RFC 9110, 13: conditions. The file is of 1994-11-06 08:49:37.
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: {etag}\r\n", "304; -Content-Type; ETag: {etag}"),
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: W/{etag}\r\n", "304"),
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: \"x\", {etag}\r\n", "304"),
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: \"x\"\r\nIf-None-Match: {etag}\r\n", "304"),
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: ,, {etag} ,\r\n", "304"),
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: *\r\n", "304"),
    ("9110 13.1.2", "HEAD /f.txt", "If-None-Match: {etag}\r\n", "304"),
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: \"x\"\r\n", "200"),
    ("9110 13.1.2", "GET /f.txt", "If-None-Match: x\r\n", "200"),
    ("9110 13.1.2", "GET /none", "If-None-Match: *\r\n", "404"),
    ("9110 13.1.3", "GET /f.txt", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "304"),
    ("9110 13.1.3", "GET /f.txt", "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", "200"),
    ("9110 13.1.3", "GET /f.txt", "If-Modified-Since: Mon, 07 Nov 1994 08:49:37 GMT\r\n", "304"),
    ("9110 5.6.7", "GET /f.txt", "If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT\r\n", "304"),
    ("9110 5.6.7", "GET /f.txt", "If-Modified-Since: Sun Nov  6 08:49:37 1994\r\n", "304"),
    ("9110 5.6.7", "GET /f.txt", "If-Modified-Since: 1994-11-06T08:49:37Z\r\n", "200"),
    ("9110 5.6.7", "GET /f.txt", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 CET\r\n", "200"),
    ("9110 5.6.7", "GET /f.txt", "If-Modified-Since: Sun, 06 Nov 1994 08:61:37 GMT\r\n", "200"),
    ("9110 13.1.3", "GET /f.txt", "If-Modified-Since: \r\n", "200"),
    ("9110 13.2.2", "GET /f.txt", "If-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "200"),
    ("9110 13.2.2", "GET /f.txt", "If-None-Match: {etag}\r\nIf-Modified-Since: Sat, 05 Nov 1994 08:49:37 GMT\r\n", "304"),
    ("9110 13.1.1", "GET /f.txt", "If-Match: {etag}\r\n", "200"),
    ("9110 13.1.1", "GET /f.txt", "If-Match: *\r\n", "200"),
    ("9110 13.1.1", "GET /f.txt", "If-Match: \"x\"\r\n", "412"),
    ("9110 13.1.1", "GET /f.txt", "If-Match: \"x\"\r\nIf-Match: {etag}\r\n", "200"),
    ("9110 13.1.1", "GET /f.txt", "If-Match: W/{etag}\r\n", "412"),
    ("9110 13.1.1", "GET /none", "If-Match: *\r\n", "404|412"),
    ("9110 13.2.2", "GET /f.txt", "If-Match: \"x\"\r\nIf-None-Match: {etag}\r\n", "412"),
    ("9110 13.1.4", "GET /f.txt", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "200"),
    ("9110 13.1.4", "GET /f.txt", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", "412"),
    ("9110 13.1.4", "GET /f.txt", "If-Unmodified-Since: yesterday\r\n", "200"),
    ("9110 13.2.2", "GET /f.txt", "If-Match: {etag}\r\nIf-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n", "200"),
    // RFC 9110, 14: ranges of ten bytes.
    ("9110 14.3", "GET /f.txt", "", "200; Accept-Ranges: bytes; Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=0-3\r\n", "206; Content-Range: bytes 0-3/10; Content-Length: 4; \"0123\""),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=5-\r\n", "206; Content-Range: bytes 5-9/10; \"56789\""),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=-3\r\n", "206; Content-Range: bytes 7-9/10; \"789\""),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=-100\r\n", "200|206; \"0123456789\""),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=9-100\r\n", "206; Content-Range: bytes 9-9/10; \"9\""),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=10-\r\n", "416; Content-Range: bytes */10"),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=3-1\r\n", "200"),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=\r\n", "200"),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=1\r\n", "200"),
    ("9110 14.1.2", "GET /f.txt", "Range: bytes=0x0-0x3\r\n", "200"),
    ("9110 14.1", "GET /f.txt", "Range: items=0-3\r\n", "200"),
    ("9110 14.1", "GET /f.txt", "Range: bytes 0-3\r\n", "200"),
    ("9110 14.2", "HEAD /f.txt", "Range: bytes=0-3\r\n", "200; Content-Length: 10"),
    ("9110 14.2", "GET /none", "Range: bytes=0-3\r\n", "404"),
    ("9110 14.2", "GET /empty", "Range: bytes=0-\r\n", "416; Content-Range: bytes */0"),
    ("9110 5.6.1", "GET /f.txt", "Range: bytes=,1-1,\r\n", "200|206"),
    ("9110 13.1.5", "GET /f.txt", "Range: bytes=0-3\r\nIf-Range: {etag}\r\n", "206; \"0123\""),
    ("9110 13.1.5", "GET /f.txt", "Range: bytes=0-3\r\nIf-Range: \"x\"\r\n", "200; \"0123456789\""),
    ("9110 13.1.5", "GET /f.txt", "Range: bytes=0-3\r\nIf-Range: W/{etag}\r\n", "200; \"0123456789\""),
    ("9110 13.1.5", "GET /f.txt", "Range: bytes=0-3\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "206; \"0123\""),
    ("9110 13.1.5", "GET /f.txt", "Range: bytes=0-3\r\nIf-Range: Mon, 07 Nov 1994 08:49:37 GMT\r\n", "200; \"0123456789\""),
    ("9110 13.1.5", "GET /f.txt", "If-Range: \"x\"\r\n", "200"),
    ("9110 13.2.2", "GET /f.txt", "Range: bytes=0-3\r\nIf-None-Match: {etag}\r\n", "304"),
    // RFC 9110, 9: methods.
    ("9110 9.3.2", "HEAD /", "", "200; Content-Length: 6"),
    ("9110 9.3.2", "HEAD /none", "", "404"),
    ("9110 9.3.7", "OPTIONS /f.txt", "", "204; Allow: GET, HEAD, OPTIONS"),
    ("9110 9.3.7", "OPTIONS *", "", "200|204"),
    ("9110 9.3.3", "POST /f.txt", "Content-Length: 0\r\n", "405; Allow: GET, HEAD, OPTIONS"),
    ("9110 9.3.4", "PUT /f.txt", "Content-Length: 0\r\n", "405; Allow: GET, HEAD, OPTIONS"),
    ("9110 9.3.5", "DELETE /f.txt", "", "405; Allow: GET, HEAD, OPTIONS"),
    ("9110 9.3.8", "TRACE /f.txt", "Cookie: secret\r\n", "405; Allow: GET, HEAD, OPTIONS"),
    ("9110 9.1", "PROPFIND /f.txt", "", "501"),
    ("9110 9.1", "GETX /f.txt", "", "501"),
    ("9110 9.1", "Get /f.txt", "", "501"),
    // RFC 9110, 5 and 12: fields that change nothing.
    ("9110 5.5", "GET /", "X: caf\u{e9}\r\n", "200"),
    ("9110 5.5", "GET /", "X:\r\n", "200"),
    ("9110 5.5", "GET /", "X: a\tb\r\n", "200"),
    ("9110 5.5", "GET /", "X: a:b:c\r\n", "200"),
    ("9110 5.6.2", "GET /", "!#$%&'*+-.^_`|~9: x\r\n", "200"),
    ("9110 5.6.2", "GET /", "X(: a\r\n", "400"),
    ("9110 5.6.2", "GET /", "\"X\": a\r\n", "400"),
    ("9110 5.6.2", "GET /", "X[0]: a\r\n", "400"),
    ("9110 5.6.2", "GET /", "X@: a\r\n", "400"),
    ("9110 5.5", "GET /", "X: a\u{7f}b\r\n", "400"),
    ("9110 12.5.1", "GET /", "Accept: application/json\r\n", "200"),
    ("9110 12.5.1", "GET /", "Accept: ;;q=x,,/\r\n", "200"),
    ("9110 12.5.3", "GET /", "Accept-Encoding: identity;q=0\r\n", "200|406"),
    ("9110 12.5.3", "GET /", "Accept-Encoding: *;q=0\r\n", "200|406"),
    ("9110 12.5.4", "GET /", "Accept-Language: tlh, *;q=0\r\n", "200"),
    ("9110 7.6.3", "GET /", "Via: 1.0 x, 1.1 y\r\n", "200"),
    ("9110 7.8", "GET /", "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n", "200; -Upgrade"),
    ("9110 10.1.1", "GET /", "Expect: other\r\n", "417"),
    ("9111 5.2.1", "GET /", "Cache-Control: no-cache\r\nPragma: no-cache\r\n", "200"),
    ("9111 5.2.1.7", "GET /none", "Cache-Control: only-if-cached\r\n", "404|504"),
    // RFC 9112, 9: the connection.
    ("9112 9.6", "GET /", "Connection: close\r\n", "200; Connection: close"),
    ("9112 9.6", "GET /", "Connection: CLOSE\r\n", "200; Connection: close"),
    ("9112 9.6", "GET /", "Connection: keep-alive, close\r\n", "200; Connection: close"),
    ("9112 9.3", "GET /", "Connection: keep-alive\r\n", "200; -Connection"),
    ("9112 9.3", "GET /", "", "200; -Connection"),
];

/// Bodies of a POST to a file: the section, its field lines, the body, and the answer; a GET of what is not there follows.
const BODIES: &[(&str, &str, &str, Right)] = &[
    ("9112 6.2", "Content-Length: 5\r\n", "hello", "405"),
    ("9112 6.2", "Content-Length: 5 \r\n", "hello", "405"),
    ("9112 6.2", "Content-Length:\t5\r\n", "hello", "405"),
    ("9112 6.3", "Content-Length: 5\r\nContent-Length: 6\r\n", "hello", "400"),
    ("9112 6.3", "Content-Length: 5.\r\n", "hello", "400"),
    ("9112 6.3", "Content-Length: five\r\n", "hello", "400"),
    ("9112 6.3", "Content-Length: \u{665}\r\n", "hello", "400"),
    ("9110 15.5.14", "Content-Length: 999999999\r\n", "", "413"),
    ("9110 8.4", "Content-Length: 5\r\nContent-Encoding: gzip\r\n", "hello", "405"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", "405"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "A\r\n0123456789\r\n0\r\n\r\n", "405"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "a\r\n0123456789\r\n0\r\n\r\n", "405"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "1\r\na\r\n1\r\nb\r\n0\r\n\r\n", "405"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "00\r\n\r\n", "405"),
    ("9112 7.1.1", "Transfer-Encoding: chunked\r\n", "5;a=b\r\nhello\r\n0\r\n\r\n", "405"),
    ("9112 7.1.1", "Transfer-Encoding: chunked\r\n", "5;a=\"b;c\"\r\nhello\r\n0;x\r\n\r\n", "405"),
    ("9112 7.1.2", "Transfer-Encoding: chunked\r\n", "0\r\nX: y\r\nZ: \r\n\r\n", "405"),
    ("9112 7.1.2", "Transfer-Encoding: chunked\r\n", "0\r\nX: y\n\r\n", "400"),
    ("9112 7.1.2", "Transfer-Encoding: chunked\r\n", "0\r\nno colon\r\n\r\n", "400"),
    ("9112 7.1.2", "Transfer-Encoding: chunked\r\n", "0\r\nX : y\r\n\r\n", "400"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "5\r\nhello0\r\n\r\n", "400"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "5\r\nhelloo\r\n0\r\n\r\n", "400"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "5\r\nhell\r\n0\r\n\r\n", "400"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "g\r\n\r\n", "400"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "5\nhello\r\n0\r\n\r\n", "400"),
    ("9112 7.1", "Transfer-Encoding: chunked\r\n", "\r\n", "400"),
    ("9112 6.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n", "400"),
    ("9112 6.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n", "400"),
    ("9112 6.1", "Transfer-Encoding: deflate\r\n", "", "400|501"),
    ("9112 6.1", "Transfer-Encoding: identity\r\n", "", "400|501"),
    ("9112 6.1", "Transfer-Encoding: chunked, deflate\r\n", "0\r\n\r\n", "400|501"),
    ("9112 6.1", "Transfer-Encoding: chunke\r\n", "0\r\n\r\n", "400|501"),
    ("9112 6.1", "Transfer-Encoding: chunkedd\r\n", "0\r\n\r\n", "400|501"),
    ("9112 6.1", "Transfer-Encoding: chun ked\r\n", "0\r\n\r\n", "400|501"),
];

/// Whole messages: the section, the bytes, and the answers in their order.
const MESSAGES: &[(&str, &str, &[Right])] = &[
    ("9112 2.2", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &["200"]),
    ("9112 2.2", "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &["400"]),
    ("9112 2.2", "GET / HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n", &["200", "404"]),
    ("9112 3", "GET / HTTP/1.1", &["400"]),
    ("9112 3", "GET / HTTP/1.1\r\nHost: a\r\n", &["400"]),
    ("9112 3", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", &["400"]),
    ("9112 3", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", &["400"]),
    ("9112 3", "GET /\r\n\r\n", &["400"]),
    ("9112 3", "\u{0}\u{0}\u{0}\u{0}\r\n\r\n", &["400"]),
    ("9110 2.5", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", &["400|505"]),
    ("9110 2.5", "GET / HTTP/0.9\r\nHost: a\r\n\r\n", &["400|505"]),
    ("9110 2.5", "GET / HTTP/11.1\r\nHost: a\r\n\r\n", &["400|505"]),
    ("9110 2.5", "GET / HTTPS/1.1\r\nHost: a\r\n\r\n", &["400|505"]),
    ("9112 9.3", "GET / HTTP/1.0\r\n\r\n", &["200; Connection: close; \"index\n\""]),
    (
        "9112 9.3",
        "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /none HTTP/1.0\r\n\r\n",
        &["200; Connection: keep-alive", "404; Connection: close"],
    ),
    ("9112 9.3", "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", &["200; Connection: close"]),
    (
        "9112 9.3",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n",
        &["200; Connection: close"],
    ),
    ("9112 3.2", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", &["400"]),
    ("9112 6.1", "POST /f.txt HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &["400"]),
    ("9112 6.3", "POST /f.txt HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", &["405; Connection: close"]),
    ("9110 10.1.1", "GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", &["200"]),
    ("9110 10.1.1", "POST /f.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", &["405"]),
    ("9112 6.3", "POST /f.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel", &["400"]),
    ("9112 8", "POST /f.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", &["400"]),
    ("9112 6.3", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /none HTTP/1.1\r\nHost: a\r\n\r\n", &["200", "404"]),
    ("9112 6.3", "HEAD /none HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n", &["404", "200"]),
    ("9112 9.3.2", "BAD\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", &["400; Connection: close"]),
    ("9112 11.2", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\rGET /none HTTP/1.1\r\nHost: a\r\n\r\n", &["400"]),
    ("9113 3.4", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &["400|505"]),
];

/// Its section, what is sent, and the answers in their order.
type Probe = (&'static str, String, Vec<Right>);

fn probes() -> Vec<Probe> {
    let mut all: Vec<Probe> = Vec::new();
    all.extend(
        TARGETS.iter().map(|(section, target, right)| (*section, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"), vec![*right])),
    );
    all.extend(HOSTS.iter().map(|(section, host, right)| (*section, format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), vec![*right])));
    all.extend(
        FIELDS.iter().map(|(section, what, lines, right)| (*section, format!("{what} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"), vec![*right])),
    );
    all.extend(BODIES.iter().map(|(section, lines, body, right)| {
        let bytes = format!("POST /f.txt HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
        // What is refused ends the connection.
        (*section, bytes, if *right == "405" { vec![*right, "404"] } else { vec![*right] })
    }));
    all.extend(MESSAGES.iter().map(|(section, bytes, right)| (*section, (*bytes).to_owned(), right.to_vec())));
    all
}

/// What of a response is not as it has to be.
fn fault(response: &Response, right: &str) -> Option<String> {
    let mut parts = right.split("; ");
    let statuses = parts.next().unwrap();
    if !statuses.split('|').any(|status| status == response.status.to_string()) {
        return Some(format!("{} is not {statuses}", response.status));
    }
    parts.find_map(|part| {
        if let Some(body) = part.strip_prefix('"') {
            let expected = body.strip_suffix('"').unwrap();
            return (response.body != expected.as_bytes()).then(|| format!("body {}", shown(&response.body)));
        }
        let (name, value) = match part.strip_prefix('-') {
            Some(name) => (name, None),
            None => part.split_once(": ").map(|(name, value)| (name, Some(value))).unwrap(),
        };
        let seen = response.field(name);
        (seen != value).then(|| format!("{name}: {seen:?}, not {value:?}"))
    })
}

#[test]
fn each_section_gets_its_answer() {
    let root = Root::with_index();
    let file = root.file("f.txt", "0123456789");
    root.file("empty", "");
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    std::fs::File::options().write(true).open(file).unwrap().set_modified(modified).unwrap();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let etag = server.get("/f.txt").field("ETag").unwrap().to_owned();
    let probes = probes();
    println!("{} probes", probes.len());
    assert!(probes.len() >= 215, "{}", probes.len());
    let (mut wrong, mut responses) = (Vec::new(), 1);
    for (section, sent, right) in probes {
        let sent = sent.replace("{etag}", &etag);
        let mut client = server.connect();
        let _ = client.try_send(&sent);
        client.half_close();
        for (number, right) in right.iter().enumerate() {
            let method = if number == 0 && sent.starts_with("HEAD") { "HEAD" } else { "GET" };
            responses += 1;
            let fault = match client.try_response(method) {
                Ok(response) => fault(&response, &right.replace("{etag}", &etag)),
                Err(fault) => Some(fault),
            };
            if let Some(fault) = fault {
                wrong.push(format!("RFC {section}, response {}: {fault}: {}", number + 1, shown(sent.as_bytes())));
            }
        }
        match client.rest() {
            Ok(rest) if rest.is_empty() => {}
            Ok(rest) => wrong.push(format!("RFC {section}: afterwards came {}: {}", shown(&rest), shown(sent.as_bytes()))),
            Err(fault) => wrong.push(format!("RFC {section}: {fault}: {}", shown(sent.as_bytes()))),
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    server.must_be_well(&workers, "probes");
    assert_eq!(server.wait_for_access_lines(responses + 1).len(), responses + 1, "one access line for each response");
}
