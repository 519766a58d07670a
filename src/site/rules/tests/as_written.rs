//! Rules as they are written in a file, from the configuration's reader to the answer.

use super::*;
use crate::config::parse;
use std::path::Path;

/// The first site of a file.
fn written(rules: &str) -> Site {
    let text = format!("[[site]]\nname = [\"a.test\", \"*.test\"]\nroot = \"/srv\"\n{rules}");
    let config = parse(&text, Path::new("/etc/anchorite/anchorite.toml"));
    config.unwrap_or_else(|faults| panic!("{faults}")).sites.remove(0)
}

#[test]
fn report_031_a_front_controller() {
    let site = written(
        r#"
        [[site.rule]]
        path = "/config/*"
        deny = ["0.0.0.0/0", "::/0"]
        [[site.rule]]
        try = ["{path}", "{path}/", "/index.php?q={path}&{query}"]
        [[site.rule]]
        path = "*.php"
        header = { X-Script = "{path}", X-Frame-Options = "DENY" }
        "#,
    );
    check(
        &site,
        &[
            ("/a.txt", "/srv/a.txt"),
            ("/folder", "301 /folder/"),
            ("/folder/", "/srv/folder/index.html"),
            ("/config/secret.ini", "403"),
            ("/config%2Fsecret.ini", "403"),
        ],
    );
    let ran = ask(&site, &Asked::get("/caf%C3%A9%26/x?a=b"));
    assert_eq!((ran.text.as_str(), ran.query.as_deref()), ("/srv/index.php", Some("q=/caf%C3%A9%26/x&a=b")));
    assert_eq!(headers(&ran)[0], ("X-Script".to_owned(), "/index.php".to_owned()));
}

#[test]
fn p16_report_104_aliases_and_redirects() {
    let site = written(
        r#"
        [[site.rule]]
        path = ["/icons/*"]
        alias = "/icons"
        expires = "30d"
        [[site.rule]]
        path = "/favicon.ico"
        alias = "/logo.png"
        [[site.rule]]
        regex = '^/(?i)blog/(\d+)(?:/(.*))?$'
        redirect = "https://{host}/posts/{1}?rest={2}"
        status = 308
        [[site.rule]]
        path = "/gone/*"
        respond = 410
        respond_body = "{path} is gone"
        [[site.rule]]
        path = "/server-status"
        respond = "status"
        "#,
    );
    check(
        &site,
        &[
            ("/icons.html", "/srv/icons.html"),
            ("/icons", "301 /icons/"),
            ("/icons/x.png", "/icons/x.png"),
            ("/icons../secret", "404"),
            ("/favicon.ico", "/logo.png"),
            ("/BLOG/12/a%20b", "308 https://a.test/posts/12?rest=a%20b"),
            ("/blog/12", "308 https://a.test/posts/12?rest="),
            ("/gone/x", "respond 410"),
            ("/server-status", "403"),
        ],
    );
    assert_eq!(ask(&site, &Asked::get("/gone/x")).body.as_deref(), Some("/gone/x is gone"));
}

#[test]
fn captures_of_a_site_name() {
    let text = "[[site]]\nname = \"*.example.org\"\nroot = \"/www/{1}\"\n";
    let site = parse(text, Path::new("/f.toml")).unwrap().sites.remove(0);
    for (host, expected) in [("alice.example.org", "/www/alice/index.html"), ("..example.org", "404")] {
        let mut asked = Asked::get("/");
        asked.host = Some(host);
        assert_eq!(ask(&site, &asked).text, expected, "{host}");
    }
}
