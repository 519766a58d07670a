//! From the request target to a file: nothing outside the root, and one meaning for every spelling.

use crate::support::{Root, Server, request, shown};

const SECRET: &str = "outside-the-root";

fn site() -> Root {
    let root = Root::with_index();
    root.file("../secret", SECRET);
    root.file("../etc/passwd", SECRET);
    root.file("file.txt", "file\n");
    root.file("sub/inner.txt", "inner\n");
    root.file("DIR/index.html", "dir\n");
    root.file("alias/a.txt", "a\n");
    root.file("evil.example/index.html", "evil\n");
    root.file("semi;x=1/index.html", "semi\n");
    root.file(".well-known/security.txt", "known\n");
    root.file(".git/config", SECRET);
    root.file("%2e%2e%2fetc", "literal\n");
    root.file("a\r\nSet-Cookie:x/index.html", "crlf\n");
    root
}

#[test]
fn p01_p21_every_spelling_has_one_meaning() {
    let root = site();
    let server = Server::serve(&root.path());
    let workers = server.workers();
    let long = |count: usize| format!("/{}", "x".repeat(count - 1));
    let (deep, back, flat) = ("/a".repeat(4000), "/a/..".repeat(1600), "/a".repeat(5000));
    let table: Vec<(&str, Vec<u8>, &[u16])> = [
        ("P01", "/../../../../etc/passwd", [400].as_slice()),
        ("P01", "/sub/../../secret", &[400]),
        ("P01", "/..", &[400]),
        ("P01", "/../site/file.txt", &[400]),
        ("P01", "/sub/../file.txt", &[200]),
        ("P01", "/./sub/./inner.txt", &[200]),
        ("P01", "/sub/..", &[200]),
        ("P01", "/sub/.", &[301, 308, 200, 403]),
        ("P02", "/%2e%2e/%2e%2e/etc/passwd", &[400]),
        ("P02", "/.%2e/etc/passwd", &[400]),
        ("P02", "/%2E./etc/passwd", &[400]),
        ("P02", "/sub/%2e%2E/file.txt", &[200]),
        ("P03", "/cgi-bin/.%%32%65/.%%32%65/etc/passwd", &[400]),
        ("P04", "/%252e%252e%252fetc/passwd", &[404]),
        ("P04", "/%252e%252e%252fetc", &[200]),
        ("P05", "/..%2f..%2fetc/passwd", &[404]),
        ("P05", "/..%2Fsecret", &[404]),
        ("P05", "/sub%2finner.txt", &[404]),
        ("P05", "/a%2fb", &[404]),
        ("P06", "/..%5c..%5cetc%5cpasswd", &[404]),
        ("P06", "/..\\..\\etc", &[400, 404]),
        ("P07", "/%c0%ae%c0%ae/secret", &[400, 404]),
        ("P07", "/..%c0%afsecret", &[400, 404]),
        ("P07", "/%e0%80%ae%e0%80%ae/secret", &[400, 404]),
        ("P08", "/index.html%00.jpg", &[400]),
        ("P08", "/%00", &[400]),
        ("P10", "/%", &[400]),
        ("P10", "/%4", &[400]),
        ("P10", "/%zz", &[400]),
        ("P10", "/%u002e", &[400]),
        ("P10", "/file.txt%", &[400]),
        ("P10", "/file.txt?%zz", &[200]),
        ("P11", "//etc/passwd", &[404]),
        ("P11", "////", &[200]),
        ("P11", "//file.txt", &[200, 404]),
        ("P13", "/semi;x=1/../secret", &[404]),
        ("P13", "/semi;x=1/", &[200]),
        ("P13", "/semi/", &[404]),
        ("P13", "/.;/file.txt", &[404]),
        ("P13", "/..;/secret", &[404]),
        ("P15", &deep, &[404]),
        ("P15", &back, &[200, 404]),
        ("P15", &flat, &[414]),
        ("P16", "/alias../secret", &[404]),
        ("P17", "/file.txt/", &[404]),
        ("P17", "/file.txt/x", &[404]),
        ("P17", "/file.txt/..", &[200, 404]),
        ("P18", "/.git/config", &[404]),
        ("P18", "/%2egit/config", &[404]),
        ("P18", "/.well-known/security.txt", &[200]),
        ("P19", "/DIR%20/", &[404]),
        ("P19", "/dir/", &[404]),
        ("P19", "/file.txt%20", &[404]),
        ("P19", "/file.txt.", &[404]),
        ("P19", "/file.txt%0a", &[404]),
        ("P21", "/proc/self/environ", &[404]),
        ("", "/file.txt?a=../../secret", &[200]),
        ("", "/?", &[200]),
        ("", "/sub/inner.txt", &[200]),
    ]
    .into_iter()
    .map(|(id, target, right)| (id, target.as_bytes().to_vec(), right))
    .chain([
        ("P14", long(1).into_bytes(), [200].as_slice()),
        ("P14", long(255).into_bytes(), &[404]),
        ("P14", long(256).into_bytes(), &[404, 414]),
        ("P14", long(257).into_bytes(), &[404, 414]),
        ("P14", long(4095).into_bytes(), &[404, 414]),
        ("P14", long(4096).into_bytes(), &[404, 414]),
        ("P14", long(65_536).into_bytes(), &[414]),
        ("P08", b"/a\0b".to_vec(), &[400]),
    ])
    .collect();
    let mut wrong = Vec::new();
    for (id, target, right) in &table {
        let mut client = server.connect();
        let _ = client.try_send(request("GET", target, &["Connection: close"]));
        let seen = match client.try_response("GET") {
            Err(fault) => Some(fault),
            Ok(response) if !right.contains(&response.status) => Some(format!("status {}, not {right:?}", response.status)),
            Ok(response) if String::from_utf8_lossy(&response.body).contains(SECRET) => Some("leaked what is outside".to_owned()),
            Ok(response) if response.field("Location").is_some_and(|to| to.starts_with("//")) => {
                Some(format!("redirect to {:?}", response.field("Location")))
            }
            Ok(_) => None,
        };
        if let Some(fault) = seen {
            wrong.push(format!("{id} {}: {fault}", shown(target)));
        }
        server.must_be_well(&workers, id);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn p09_a_redirect_never_holds_a_line_end() {
    let root = site();
    let server = Server::serve(&root.path());
    // P09: the directory is there, so that a redirect follows.
    let response = server.get("/a%0d%0aSet-Cookie:x").must_be(&[301, 308, 400]);
    assert!(response.field("Set-Cookie").is_none());
    if let Some(location) = response.field("Location") {
        assert!(location.to_ascii_uppercase().contains("%0D%0A"), "{location}");
        let path = location.strip_prefix("http://a").unwrap_or(location).to_owned();
        assert_eq!(server.get(&path).must_be(&[200]).text(), "crlf\n");
    }
    // A query with an encoded line end is kept as it is.
    let response = server.get("/sub?a%0d%0aSet-Cookie:x").must_be(&[301, 308]);
    assert!(response.field("Location").unwrap().ends_with("/sub/?a%0d%0aSet-Cookie:x"));
}

#[test]
fn p11_p12_a_redirect_never_leads_to_another_host() {
    let root = site();
    let server = Server::serve(&root.path());
    // P11, P12
    for target in [
        "//evil.example",
        "///evil.example",
        "/.//evil.example",
        "/sub/..//evil.example",
        "//evil.example?x",
        "/%2fevil.example",
        "//evil.example/..",
    ] {
        let response = server.get(target);
        if let Some(location) = response.field("Location") {
            assert!(
                location.starts_with("http://a/")
                    || (location.starts_with('/') && !location.starts_with("//") && !location.starts_with("/\\")),
                "{target} leads to {location}"
            );
        }
    }
    // A Host of the client's choice must not turn into markup or another scheme.
    let response = server.exchange("GET /sub HTTP/1.1\r\nHost: a\r\nX-Forwarded-Host: evil\r\nConnection: close\r\n\r\n", "GET");
    assert!(!response.field("Location").unwrap().contains("evil"));
}

#[test]
fn error_pages_do_not_repeat_the_target() {
    let root = site();
    let server = Server::serve(&root.path());
    for target in ["/%3Cscript%3Ealert(1)%3C/script%3E", "/none?%3Cscript%3E"] {
        let response = server.get(target).must_be(&[404]);
        assert!(!response.text().contains("<script>"));
    }
}
