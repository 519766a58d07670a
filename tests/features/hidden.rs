//! Names that are not for the public (`hidden`), and the one exception.

use crate::support::{Configuration, Root, Server};

fn fill(root: &Root) {
    for name in [
        ".env",
        ".htaccess",
        ".git/config",
        "sub/.secret/a.txt",
        "x~",
        "x.bak",
        "#x#",
        "visible.txt",
        ".well-known/acme-challenge/token",
        "sub/.well-known/x",
        ".well-known/.hidden",
    ] {
        root.file(name, name);
    }
}

#[test]
fn hidden_names_are_404_at_every_depth() {
    let root = Root::with_index();
    fill(&root);
    let server = Server::serve(&root.path());
    let missing = server.get("/none").must_be(&[404]);
    // P18, each as it is and encoded.
    for target in [
        "/.env",
        "/%2eenv",
        "/.htaccess",
        "/.git/config",
        "/.git/",
        "/.git",
        "/sub/.secret/a.txt",
        "/x~",
        "/x%7e",
        "/x.bak",
        "/%23x%23",
        "/.well-known/.hidden",
        "/visible.txt/../.env",
    ] {
        let response = server.get(target).must_be(&[404]);
        assert_eq!(response.body, missing.body, "{target} must look like a name that is not there");
    }
    for target in ["/visible.txt", "/.well-known/acme-challenge/token"] {
        server.get(target).must_be(&[200]);
    }
}

#[test]
fn the_list_is_the_sites() {
    let root = Root::with_index();
    fill(&root);
    root.file("a.inc", "inc");
    let own = Server::run(&Configuration::new().site(&root.path(), "name = [\"\"]\nhidden = [\"*.inc\"]"));
    own.get("/a.inc").must_be(&[404]);
    own.get("/.env").must_be(&[200]);
    let none = Server::run(&Configuration::new().site(&root.path(), "name = [\"\"]\nhidden = []"));
    none.get("/a.inc").must_be(&[200]);
    none.get("/x~").must_be(&[200]);
}
