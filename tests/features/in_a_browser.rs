//! What a person sees: the pages of the server, and a page of one's own, in a real browser. Only with `tests/run --all`.

use super::look::pages;
use crate::support::{Browser, Configuration, Root, Server, needs_all, pictures};
use crate::tls_clients::{Authority, secured};

/// Texts whose contrast with what is behind them is below 4.5, or 3 where they are large (WCAG 2.2, 1.4.3).
const FAINT: &str = r#"(() => {
    const channels = color => color.match(/[\d.]+/g).map(Number);
    const linear = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const behind = element => {
        for (; element; element = element.parentElement) {
            const color = channels(getComputedStyle(element).backgroundColor);
            if (color.length < 4 || color[3] > 0) return color;
        }
        return [255, 255, 255];
    };
    const faint = [];
    for (const element of document.body.querySelectorAll("*")) {
        if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
        const style = getComputedStyle(element);
        const [a, b] = [luminance(channels(style.color)), luminance(behind(element))].sort((x, y) => y - x);
        const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
        if ((a + 0.05) / (b + 0.05) < least) faint.push(element.outerHTML.slice(0, 80));
    }
    return faint;
})()"#;

#[test]
fn pages_look_right_on_a_phone_and_a_desktop_by_day_and_by_night() {
    needs_all!();
    let (_root, server, targets) = pages();
    let mut browser = Browser::start();
    for (name, target) in targets {
        let url = format!("http://{}{target}", server.address());
        let mut grounds = Vec::new();
        for (width, height) in [(390, 844), (1280, 900), (360, 740)] {
            for (scheme, dark) in [("light", false), ("dark", true)] {
                browser.show_as(width, height, dark);
                browser.open(&url);
                browser.picture(&pictures().join(format!("{name}-{width}x{height}-{scheme}.png")));
                assert_eq!(browser.complaints(), [""; 0], "{name}");
                let wide = browser.evaluate("document.documentElement.scrollWidth");
                assert!(wide.as_u64().unwrap() <= u64::from(width), "{name} is {wide} wide at {width}");
                let faint = browser.evaluate(FAINT);
                assert_eq!(faint.as_array().unwrap().len(), 0, "{name} {scheme}: {faint}");
                grounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
            }
        }
        // The style was taken, and the scheme heeded.
        assert_eq!(grounds[0], "rgb(255, 255, 255)", "{name}");
        assert_ne!(grounds[0], grounds[1], "{name}");
    }
}

#[test]
fn links_that_sort_are_followed() {
    needs_all!();
    let (_root, server, _) = pages();
    let mut browser = Browser::start();
    browser.show_as(1280, 900, false);
    let url = |path: &str| format!("http://{}{path}", server.address());
    browser.open(&url("/"));
    let first = |browser: &mut Browser| {
        let script = "[...document.querySelectorAll('tbody a:not([rel])')].map(a => a.textContent).find(text => !text.endsWith('/')) ?? document.body.innerText";
        browser.evaluate(script).as_str().unwrap().to_owned()
    };
    let sorted = |browser: &mut Browser| {
        let script = "[...document.querySelectorAll('th[aria-sort]')].map(th => th.textContent + ' ' + th.ariaSort).join()";
        browser.evaluate(script).as_str().unwrap().to_owned()
    };
    assert_eq!((first(&mut browser), sorted(&mut browser)), ("picture-01.jpg".to_owned(), "Name ascending".to_owned()));
    let click = |column: u8| format!("document.querySelectorAll('thead a')[{column}].click()");
    for (column, name, state) in [
        (0, "picture-40.jpg", "Name descending"),
        (1, "picture-40.jpg", "Size descending"),
        (1, "picture-01.jpg", "Size ascending"),
        (2, "picture-01.jpg", "Modified (UTC) ascending"),
        (1, "picture-01.jpg", "Size ascending"),
        (1, "picture-40.jpg", "Size descending"),
    ] {
        browser.follow(&click(column));
        assert_eq!(sorted(&mut browser), state);
        if column != 2 {
            assert_eq!(first(&mut browser), name, "{state}");
        }
    }
    // The order is kept on the way down and up again.
    browser.follow("document.querySelector('tbody a[href^=\"./d/\"]').click()");
    assert_eq!((sorted(&mut browser).as_str(), first(&mut browser).as_str()), ("Size descending", "large.iso"));
    browser.follow("document.querySelector('a[rel=up]').click()");
    assert_eq!((sorted(&mut browser).as_str(), first(&mut browser).as_str()), ("Size descending", "picture-40.jpg"));
    assert!(browser.evaluate("location.pathname") == "/", "{}", browser.evaluate("location.href"));
    // A name that looks like a script is a file: following it shows its content.
    browser.open(&url("/d/"));
    browser.follow("[...document.querySelectorAll('tbody a')].find(a => a.textContent.startsWith('javascript')).click()");
    assert_eq!(browser.evaluate("location.pathname"), "/d/javascript:alert(1).txt");
    // Who has only a keyboard sees where it is.
    browser.open(&url("/d/"));
    browser.press("Tab", 9);
    let focus = browser.evaluate("document.activeElement.tagName + ' ' + getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(focus, "A solid");
    // The head of the table stays in sight.
    browser.open(&url("/"));
    browser.evaluate("scrollTo(0, 600)");
    assert_eq!(browser.evaluate("document.querySelector('thead th').getBoundingClientRect().top"), 0);
}

#[test]
fn a_page_with_everything_loads_without_a_complaint() {
    needs_all!();
    let root = Root::new();
    root.file(
        "index.html",
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>x</title><link rel=\"stylesheet\" href=\"a.css\">\
         <link rel=\"icon\" href=\"a.svg\"><link rel=\"manifest\" href=\"a.webmanifest\">\
         <script src=\"a.js\"></script><script type=\"module\" src=\"b.mjs\"></script><p>text<img src=\"a.svg\" alt=\"\">",
    );
    root.file("a.css", "@font-face{font-family:f;src:url(f.ttf)}body{font-family:f;color:rgb(1,2,3)}");
    root.file("a.js", "window.script=true");
    root.file("b.mjs", "window.compiled=(await WebAssembly.instantiateStreaming(fetch('a.wasm'))).module instanceof WebAssembly.Module");
    root.file("a.wasm", b"\0asm\x01\0\0\0");
    root.file("a.webmanifest", "{\"name\":\"x\",\"icons\":[]}");
    root.file("a.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><rect width=\"9\" height=\"9\"/></svg>");
    root.file("f.ttf", std::fs::read("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf").unwrap());
    let server = Server::serve(&root.path());
    let mut browser = Browser::start();
    browser.show_as(1280, 900, false);
    browser.open(&format!("http://{}/", server.address()));
    assert_eq!(browser.evaluate("document.fonts.load('1rem f').then(fonts => fonts.length)"), 1);
    assert_eq!(browser.evaluate("getComputedStyle(document.body).color"), "rgb(1, 2, 3)");
    assert_eq!(browser.evaluate("document.querySelector('img').naturalWidth"), 9);
    assert_eq!(browser.evaluate("window.script && window.compiled"), true);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// A page with pictures over TLS: the browser chooses HTTP/2 in the handshake, and everything of the page comes so.
#[test]
fn a_browser_speaks_http2_over_tls() {
    needs_all!();
    let (authority, root) = (Authority::new(), Root::new());
    let drawn = |number: u32| {
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='40'><rect width='40' height='40' fill='hsl({} 60% 50%)'/></svg>",
            number * 9
        )
    };
    let images: String = (0..40).map(|number| format!("<img src='/{number}.svg' width='40' height='40' alt='{number}'>")).collect();
    root.file(
        "index.html",
        format!("<!doctype html><meta charset=utf-8><title>pictures</title><style>body {{ width: 420px }}</style>{images}"),
    );
    for number in 0..40 {
        root.file(format!("{number}.svg"), drawn(number));
    }
    let files = authority.site("a", &["a.test"]);
    let site = format!("name = [\"a.test\", \"\"]\nhsts = \"1d\"\n{}", files.line());
    let (configuration, address) = secured(Configuration::new().site(&root.path(), &site));
    let _server = Server::run(&configuration);
    let mut browser = Browser::start();
    browser.show_as(500, 300, false);
    browser.open(&format!("https://a.test:{}/", address.port()));
    browser.until("[...document.images].every(image => image.complete && image.naturalWidth === 40) && document.images.length === 40");
    let spoken =
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].map(entry => entry.nextHopProtocol)";
    let spoken = browser.evaluate(spoken);
    let spoken: Vec<&str> = spoken.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(spoken.len() >= 41 && spoken.iter().all(|name| *name == "h2"), "{spoken:?}");
    assert_eq!(browser.complaints(), [""; 0]);
    browser.picture(&pictures().join("http2-over-tls.png"));
}
