//! WordPress: installed through its own pages, a post with a picture written and read by the name it has in its address.

use super::{Application, Database, Plan, own_path};
use crate::support::{needs_all, needs_root, pictures};
use std::path::Path;

const HOST: &str = "example.org";

const PLAN: Plan = Plan {
    name: "wordpress",
    example: "wordpress-debian.toml",
    own: &[("/etc/wordpress", false), ("/var/lib/wordpress/wp-content", true)],
    fill: |own: &Path, database: &Database, _: &str| {
        let text = format!(
            "<?php\ndefine('DB_NAME', 'application');\ndefine('DB_USER', 'application');\ndefine('DB_PASSWORD', 'application');\n\
             define('DB_HOST', 'localhost:{}');\ndefine('WP_CONTENT_DIR', '/var/lib/wordpress/wp-content');\n\
             define('WP_HTTP_BLOCK_EXTERNAL', true);\ndefine('DISABLE_WP_CRON', true);\n",
            database.socket().display()
        );
        // Pictures of people come from elsewhere.
        let plugins = own_path(own, "/var/lib/wordpress/wp-content/mu-plugins");
        std::fs::create_dir(&plugins).unwrap();
        std::fs::write(plugins.join("own.php"), "<?php add_filter('pre_option_show_avatars', '__return_zero');").unwrap();
        std::fs::write(own_path(own, "/etc/wordpress").join(format!("config-{HOST}.php")), text).unwrap();
    },
};

#[test]
fn wordpress_is_installed_written_in_and_read() {
    needs_all!();
    needs_root!();
    let mut application = Application::start(&PLAN);
    install(&mut application);
    log_in(&mut application);
    name_posts_in_addresses(&mut application);
    let picture = upload(&mut application);
    let post = write_a_post(&mut application, &picture);
    read(&mut application, &post, &picture);
    nothing_is_told(&application);
    application.must_be_well();
}

/// By the pages that it begins with.
fn install(application: &mut Application) {
    let url = application.url(HOST, "/");
    let browser = &mut application.browser;
    browser.open(&url);
    browser.until("location.pathname == '/wp-admin/install.php'");
    browser.fill_in(&[
        ("#weblog_title", "Behind the wall"),
        ("#user_login", "anchorite"),
        ("#pass1", PASSWORD),
        ("#admin_email", "a@example.org"),
    ]);
    application.picture("1-install");
    let browser = &mut application.browser;
    browser.click("#submit");
    browser.until("document.querySelector('h1')?.innerText.includes('Success')");
}

fn log_in(application: &mut Application) {
    let url = application.url(HOST, "/wp-login.php");
    let browser = &mut application.browser;
    browser.open(&url);
    browser.fill_in(&[("#user_login", "anchorite"), ("#user_pass", PASSWORD)]);
    browser.click("#wp-submit");
    browser.until("location.pathname == '/wp-admin/' && document.querySelector('#dashboard-widgets')");
    application.picture("2-dashboard");
}

fn name_posts_in_addresses(application: &mut Application) {
    let url = application.url(HOST, "/wp-admin/options-permalink.php");
    let browser = &mut application.browser;
    browser.open(&url);
    browser.click("#custom_selection");
    browser.fill_in(&[("#permalink_structure", "/%postname%/")]);
    browser.click("#submit");
    browser.until("document.querySelector('#setting-error-settings_updated, .notice-success')");
}

/// Its address.
fn upload(application: &mut Application) -> String {
    let file = pictures().join("wordpress-2-dashboard.png");
    let url = application.url(HOST, "/wp-admin/media-new.php");
    let browser = &mut application.browser;
    browser.open(&url);
    browser.choose_file("input[type=file][accept], .moxie-shim input[type=file]", &file);
    browser.until("document.querySelector('.media-item .edit-attachment, .media-item .error-div, .media-item.error')");
    application.picture("3-upload");
    let browser = &mut application.browser;
    let list = "fetch('/wp-json/wp/v2/media').then(answer => answer.json()).then(all => all[0].media_details.sizes.large.source_url)";
    browser.until(list).as_str().unwrap().to_owned()
}

fn write_a_post(application: &mut Application, picture: &str) -> String {
    let url = application.url(HOST, "/wp-admin/post-new.php");
    let browser = &mut application.browser;
    browser.open(&url);
    browser.until("window.wp?.data?.select('core/editor')?.getCurrentPostId()");
    browser.click("[aria-label='Close dialog']");
    // Title and content stand in a frame of their own.
    let blocks = format!(
        "wp.data.dispatch('core/editor').editPost({{ title: 'Stones & mortar, 100 % dry' }}), \
         wp.data.dispatch('core/block-editor').insertBlocks([wp.blocks.createBlock('core/paragraph', {{ content: 'Ein Wörtchen.' }}), \
         wp.blocks.createBlock('core/image', {{ url: {picture:?} }})]), 0"
    );
    browser.evaluate(&blocks);
    let frame = "(document.querySelector('iframe[name=editor-canvas]')?.contentDocument ?? document)";
    browser.until(&format!("{frame}.querySelector('.wp-block-image img')?.naturalWidth"));
    application.picture("4-editor");
    let browser = &mut application.browser;
    browser.click(".editor-post-publish-panel__toggle");
    browser.click(".editor-post-publish-panel__header-publish-button button");
    browser.until("document.querySelector('.post-publish-panel__postpublish-header a')?.href").as_str().unwrap().to_owned()
}

fn read(application: &mut Application, post: &str, picture: &str) {
    assert_eq!(post, application.url(HOST, "/stones-mortar-100-dry/"));
    let front = application.url(HOST, "/");
    let browser = &mut application.browser;
    browser.open(post);
    assert_eq!(browser.evaluate("document.querySelector('h1').innerText"), "Stones & mortar, 100 % dry");
    assert_eq!(browser.evaluate(&format!("document.querySelector('img[src={picture:?}]').naturalWidth")), 1024);
    assert_eq!(browser.complaints(), [""; 0]);
    application.picture("5-post");
    let browser = &mut application.browser;
    browser.fill_in(&[("#comment", "A comment with \"quotes\" & an ö.")]);
    browser.click("#submit");
    browser.until("location.hash.startsWith('#comment-') && document.body.innerText.includes('A comment with')");
    application.picture("6-comment");
    let browser = &mut application.browser;
    browser.open(&front);
    assert!(browser.evaluate("document.body.innerText").as_str().unwrap().contains("Stones & mortar, 100 % dry"));
    application.picture("7-front");
}

/// What visitors get by other names than those of pages.
fn nothing_is_told(application: &Application) {
    let uploads = own_path(application.own.path(), "/var/lib/wordpress/wp-content/uploads");
    std::fs::write(uploads.join("x.php"), "<?php echo 'run';").unwrap();
    for (target, status) in [
        ("/wp-config.php", 404),
        ("/wp-includes/version.php", 403),
        ("/wp-content/uploads/x.php", 403),
        ("/wp-content/uploads/x.php/y", 404),
        ("/wp-content/uploads/", 403),
        ("/wp-content/.htaccess", 404),
        ("/wp-content/themes/twentytwentythree/style.css", 200),
        ("/wp-includes/js/underscore.min.js", 200),
        ("/a-page-that-is-not-there/", 404),
        ("/feed/", 200),
        ("/?s=mortar", 200),
        ("/wp-json/wp/v2/posts", 200),
        ("/wp-admin/load-styles.php?load=dashicons", 200),
    ] {
        let response = application.get(HOST, target);
        assert_eq!(response.status, status, "{target}: {}", response.text());
        assert!(!response.text().contains("<?php"), "{target}");
    }
}

const PASSWORD: &str = "correct horse 7 battery staple";
