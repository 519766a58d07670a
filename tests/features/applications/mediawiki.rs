//! MediaWiki with short URLs: pages whose titles hold what means something in an address, and a picture, written and read.

use super::{Application, Database, Plan, done, own_path};
use crate::support::{needs_all, needs_root, pictures};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const HOST: &str = "wiki.example.org";

const PLAN: Plan = Plan {
    name: "mediawiki",
    example: "mediawiki-debian.toml",
    own: &[("/etc/mediawiki", false), ("/var/lib/mediawiki/images", true), ("/var/lib/mediawiki/cache", true)],
    fill: |own: &Path, database: &Database, line: &str| {
        // As the example says.
        std::fs::set_permissions(own_path(own, "/var/lib/mediawiki/images"), std::fs::Permissions::from_mode(0o711)).unwrap();
        let server = format!("--dbserver=localhost:{}", database.socket().display());
        let account = ["--dbname=application", "--dbuser=application", "--dbpass=application", "--dbprefix=w", "--scriptpath=/w"];
        let install = ["php", "/usr/share/mediawiki/maintenance/install.php", "--confpath=/etc/mediawiki", "--pass", PASSWORD, &server];
        done(Command::new("bash").args(["-c", line, "bash"]).args(install).args(account).args(["Behind the wall", "Anchorite"]));
        let settings = own_path(own, "/etc/mediawiki").join("LocalSettings.php");
        let installed = std::fs::read_to_string(&settings).unwrap();
        let short = "$wgServer = 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost');\n$wgArticlePath = '/wiki/$1';\n$wgEnableUploads = true;\n$wgJobRunRate = 0;\n$wgUseImageMagick = false;\n";
        std::fs::write(&settings, format!("{installed}\n{short}")).unwrap();
    },
};

#[test]
fn mediawiki_is_written_in_and_read_by_short_addresses() {
    needs_all!();
    needs_root!();
    let mut application = Application::start(&PLAN);
    log_in(&mut application);
    write_pages(&mut application);
    upload(&mut application);
    other_ways_in(&application);
    application.must_be_well();
}

fn log_in(application: &mut Application) {
    let (front, url) = (application.url(HOST, "/"), application.url(HOST, "/wiki/Special:UserLogin"));
    let browser = &mut application.browser;
    browser.open(&front);
    browser.until("location.pathname == '/wiki/Main_Page' && document.querySelector('#firstHeading')");
    assert_eq!(browser.complaints(), [""; 0]);
    application.picture("1-main-page");
    let browser = &mut application.browser;
    browser.open(&url);
    browser.fill_in(&[("#wpName1", "Anchorite"), ("#wpPassword1", PASSWORD)]);
    browser.click("#wpLoginAttempt");
    browser.until("window.mw?.config?.get('wgUserName') == 'Anchorite'");
}

/// Their titles come back as they were meant, whatever they mean in an address.
fn write_pages(application: &mut Application) {
    for (title, address) in [("AT&T", "AT%26T"), ("C++", "C%2B%2B"), ("100% sure?", "100%25_sure%3F"), ("Über/unter", "%C3%9Cber/unter")] {
        let (edit, read) =
            (application.url(HOST, &format!("/wiki/{address}?action=edit")), application.url(HOST, &format!("/wiki/{address}")));
        let browser = &mut application.browser;
        browser.open(&edit);
        browser.fill_in(&[("#wpTextbox1", &format!("This is about ''{title}''."))]);
        browser.click("#wpSave");
        browser.until("window.mw?.config?.get('wgAction') == 'view' && document.querySelector('#mw-content-text i')");
        browser.open(&read);
        let seen = browser
            .until("document.querySelector('#firstHeading').innerText + '|' + document.querySelector('#mw-content-text i').innerText");
        assert_eq!(seen, format!("{title}|{title}"), "{address}");
        assert_eq!(browser.complaints(), [""; 0], "{address}");
    }
    application.picture("2-page");
}

fn upload(application: &mut Application) {
    let file = pictures().join("mediawiki-2-page.png");
    let url = application.url(HOST, "/wiki/Special:Upload");
    let browser = &mut application.browser;
    browser.open(&url);
    browser.choose_file("#wpUploadFile", &file);
    browser.fill_in(&[("#wpDestFile", "A page.png")]);
    browser.click("[name=wpUpload]");
    browser.until("location.pathname == '/wiki/File:A_page.png' && document.querySelector('.fullImageLink img')?.naturalWidth");
    let paths = browser
        .evaluate("document.querySelector('.fullImageLink a').pathname + ' ' + document.querySelector('.fullImageLink img').naturalWidth");
    assert!(paths.as_str().is_some_and(|paths| paths.starts_with("/w/images/") && !paths.ends_with(" 0")), "{paths}");
    // Who looks at the picture of this page wants to see that on it.
    browser.evaluate("void document.querySelector('.fullImageLink img').decode().then(() => window.decoded = true)");
    browser.until("window.decoded");
    assert_eq!(browser.complaints(), [""; 0]);
    application.picture("3-file");
}

/// As programs ask, and what visitors get by other names than those of pages.
fn other_ways_in(application: &Application) {
    let images = own_path(application.own.path(), "/var/lib/mediawiki/images");
    std::fs::write(images.join("x.php"), "<?php echo 'run';").unwrap();
    for (target, status, text) in [
        ("/w/index.php/AT%26T", 200, "AT&amp;T"),
        ("/w/index.php?title=C%2B%2B", 200, "C++"),
        ("/w/rest.php/v1/page/AT%26T", 200, "This is about ''AT&T''."),
        ("/w/api.php?action=query&titles=C%2B%2B&format=json", 200, "\"title\":\"C++\""),
        ("/wiki/Nothing_of_that_name", 404, "There is currently no text in this page"),
        ("/w/resources/assets/poweredby_mediawiki_88x31.png", 200, ""),
        ("/w/LocalSettings.php", 404, ""),
        ("/w/images/x.php", 403, ""),
        ("/w/images/x.php/y", 404, ""),
        ("/w/includes/WebStart.php", 403, ""),
        ("/w/maintenance/install.php", 403, ""),
        ("/index.php", 404, ""),
        ("/LocalSettings.php", 404, ""),
    ] {
        let response = application.get(HOST, target);
        let body = String::from_utf8_lossy(&response.body);
        assert_eq!(response.status, status, "{target}: {body}");
        assert!(body.contains(text) && !body.contains("<?php"), "{target}: {body}");
    }
}

const PASSWORD: &str = "correct horse 7 battery staple";
