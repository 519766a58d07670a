use super::*;
use crate::site::Sites;
use crate::site::facts::tests::Asked;
use crate::site::tests::site;

const FILES: &[&str] = &["a.txt", "dir/index.html", ".well-known/acme-challenge/tok", ".git/config", "both/index.htm", "\\evil/x/y"];
const DIRECTORIES: &[&str] =
    &["", "dir", "bare", "both", "both/index.html", "a b?", "cr\r\nlf", "\\evil", ".well-known", "baz.", "denied", "odd"];

fn look(path: &str) -> Answer<String> {
    match path {
        "secret" | "denied/index.html" => Answer::Denied,
        "fifo" | "odd/index.html" => Answer::NotRegular,
        "busy" => Answer::Busy,
        "broken" => Answer::Failed,
        _ if FILES.contains(&path) => Answer::File(path.to_string()),
        _ if DIRECTORIES.contains(&path) => Answer::Directory,
        _ => Answer::Missing,
    }
}

fn run(site: &Site, method: Method, raw: &str) -> (Outcome<String>, Plan, usize) {
    let sites = Sites::new(vec![site.clone()]);
    let mut asked_for = Asked::get(raw);
    asked_for.method = method;
    let facts = asked_for.facts();
    let mut plan = Plan::default();
    let mut step = plan.begin(sites.compiled(0), &facts);
    let mut asked = 0;
    loop {
        match step {
            Step::Done(outcome) => return (outcome, plan, asked),
            Step::Ask => {
                asked += 1;
                let answer = look(std::str::from_utf8(plan.lookup().path).unwrap());
                step = plan.resume(sites.compiled(0), &facts, answer);
            }
        }
    }
}

fn get(raw: &str) -> Outcome<String> {
    run(&site(&[""]), Method::Get, raw).0
}

#[test]
fn files_and_indexes_are_found() {
    assert_eq!(get("/a.txt"), Outcome::File("a.txt".into()));
    assert_eq!(get("/dir/"), Outcome::File("dir/index.html".into()));
    assert_eq!(get("/./dir/x/../"), Outcome::File("dir/index.html".into()));
    assert_eq!(get("/nope"), Outcome::Status(Status::NOT_FOUND));
    assert_eq!(get("/nope/"), Outcome::Status(Status::NOT_FOUND));
}

#[test]
fn p17_a_file_is_not_a_directory() {
    for raw in ["/a.txt/", "/a.txt/.", "/a.txt/x/..", "/a.txt/x"] {
        assert_eq!(get(raw), Outcome::Status(Status::NOT_FOUND), "{raw}");
    }
}

#[test]
fn answers_decide_the_status() {
    assert_eq!(get("/secret"), Outcome::Status(Status::FORBIDDEN));
    assert_eq!(get("/fifo"), Outcome::Status(Status::FORBIDDEN));
    assert_eq!(get("/busy"), Outcome::Status(Status::SERVICE_UNAVAILABLE));
    assert_eq!(get("/broken"), Outcome::Status(Status::INTERNAL_SERVER_ERROR));
}

#[test]
fn indexes_are_tried_in_order() {
    let mut several = site(&[""]);
    several.listing = true;
    several.index = vec!["index.html".into(), "index.htm".into()];
    let (outcome, plan, asked) = run(&several, Method::Get, "/both/");
    assert_eq!((outcome, asked), (Outcome::File("both/index.htm".into()), 3));
    assert_eq!(plan.lookup().path, b"both/index.htm");
    assert_eq!(run(&several, Method::Get, "/denied/").0, Outcome::Status(Status::FORBIDDEN));
    assert_eq!(run(&several, Method::Get, "/odd/").0, Outcome::Listing);
}

#[test]
fn a_directory_without_index_is_listed_or_forbidden() {
    let mut open = site(&[""]);
    assert_eq!(run(&open, Method::Get, "/bare/").0, Outcome::Status(Status::FORBIDDEN));
    assert_eq!(run(&open, Method::Get, "/").0, Outcome::Status(Status::FORBIDDEN));
    open.listing = true;
    let (outcome, plan, _) = run(&open, Method::Head, "/bare/");
    assert_eq!((outcome, plan.lookup().path), (Outcome::Listing, &b"bare"[..]));
    let (outcome, plan, _) = run(&open, Method::Get, "/");
    assert_eq!((outcome, plan.lookup().path), (Outcome::Listing, &b""[..]));
    open.index.clear();
    assert_eq!(run(&open, Method::Get, "/dir/").0, Outcome::Listing);
}

#[test]
fn p09_p11_p12_redirects_stay_here() {
    let table: &[(&str, Option<&str>, &str)] = &[
        ("/dir", None, "/dir/"),
        ("/dir", Some("a=1&b=%2F;c"), "/dir/?a=1&b=%2F;c"),
        ("/dir", Some(""), "/dir/?"),
        ("//dir", None, "/dir/"),
        ("/%5Cevil", None, "/%5Cevil/"),
        ("/x/..//%5Cevil", None, "/%5Cevil/"),
        ("/cr%0d%0alf", None, "/cr%0D%0Alf/"),
        ("/a%20b%3F", None, "/a%20b%3F/"),
        ("/baz.", None, "/baz./"),
    ];
    for (raw, query, expected) in table {
        let (outcome, plan, _) = run(&site(&[""]), Method::Get, raw);
        assert_eq!(outcome, Outcome::Redirect(Status::MOVED_PERMANENTLY), "{raw}");
        let mut out = Vec::new();
        let asked = Asked::get(&query.map_or((*raw).to_string(), |query| format!("{raw}?{query}")));
        plan.location(Sites::new(vec![site(&[""])]).compiled(0), &asked.facts(), &mut out);
        assert_eq!(out, expected.as_bytes(), "{raw}");
    }
    assert_eq!(get("//evil.example/.."), Outcome::Status(Status::FORBIDDEN));
    assert_eq!(get("////"), Outcome::Status(Status::FORBIDDEN));
}

#[test]
fn p18_hidden_names_are_never_looked_up() {
    for raw in [
        "/.git/config",
        "/.git",
        "/.htaccess",
        "/%2egit/config",
        "/dir/.env",
        "/x~",
        "/x.bak",
        "/%23x%23",
        "/.well-known/../.env",
        "/.well-known/.env",
        "/dir/.well-known/x",
        "/.bak/x",
    ] {
        let (outcome, _, asked) = run(&site(&[""]), Method::Get, raw);
        assert_eq!((outcome, asked), (Outcome::Status(Status::NOT_FOUND), 0), "{raw}");
    }
    assert_eq!(get("/.well-known/acme-challenge/tok"), Outcome::File(".well-known/acme-challenge/tok".into()));
    let mut open = site(&[""]);
    open.hidden.clear();
    assert_eq!(run(&open, Method::Get, "/.git/config").0, Outcome::File(".git/config".into()));
}

#[test]
fn p05_an_encoded_slash_names_nothing() {
    let (outcome, _, asked) = run(&site(&[""]), Method::Get, "/dir%2Findex.html");
    assert_eq!((outcome, asked), (Outcome::Status(Status::NOT_FOUND), 0));
}

#[test]
fn p22_f23_methods() {
    for (method, raw, expected) in [
        (Method::Options, "*", Outcome::Allow),
        (Method::Options, "/a.txt", Outcome::Allow),
        (Method::Options, "/dir/", Outcome::Allow),
        (Method::Connect, "", Outcome::MethodNotAllowed),
        (Method::Trace, "/", Outcome::MethodNotAllowed),
        (Method::Post, "/a.txt", Outcome::MethodNotAllowed),
        (Method::Put, "/a.txt", Outcome::MethodNotAllowed),
        (Method::Delete, "/a.txt", Outcome::MethodNotAllowed),
        (Method::Patch, "/a.txt", Outcome::MethodNotAllowed),
        (Method::Extension, "/a.txt", Outcome::Status(Status::NOT_IMPLEMENTED)),
        (Method::Head, "/a.txt", Outcome::File("a.txt".into())),
    ] {
        let (outcome, _, asked) = run(&site(&[""]), method, raw);
        assert_eq!(outcome, expected, "{method:?} {raw}");
        assert_eq!(asked, usize::from(method == Method::Head), "{method:?} {raw}");
    }
}

#[test]
fn a_plan_can_be_used_again() {
    let sites = Sites::new(vec![site(&[""])]);
    let site = sites.compiled(0);
    let (first, second) = (Asked::get("/dir/"), Asked::get("/a.txt"));
    let mut plan = Plan::default();
    assert_eq!(plan.begin::<u8>(site, &first.facts()), Step::Ask);
    assert_eq!(plan.resume::<u8>(site, &first.facts(), Answer::Directory), Step::Ask);
    let facts = second.facts();
    assert_eq!(plan.begin::<u8>(site, &facts), Step::Ask);
    assert_eq!(plan.lookup().path, b"a.txt");
    assert_eq!(plan.resume(site, &facts, Answer::File(7)), Step::Done(Outcome::File(7)));
    // An answer that nobody asked for.
    assert_eq!(plan.resume(site, &facts, Answer::File(7)), Step::Done(Outcome::Status(Status::INTERNAL_SERVER_ERROR)));
}

#[test]
fn an_error_has_the_page_that_the_site_says() {
    let mut paged = site(&[""]);
    paged.error_pages = vec![(404, "/dir/index.html".into()), (403, "/bare".into()), (500, "/../x".into())];
    let sites = Sites::new(vec![paged]);
    let (site, asked) = (sites.compiled(0), Asked::get("/nope"));
    let facts = asked.facts();
    let mut plan = Plan::default();
    assert_eq!(plan.begin::<u8>(site, &facts), Step::Ask);
    assert_eq!(plan.resume::<u8>(site, &facts, Answer::Missing), Step::Done(Outcome::Status(Status::NOT_FOUND)));
    assert_eq!(plan.begin_error_page::<u8>(site, &facts, Status::NOT_FOUND), Some(Step::Ask));
    assert_eq!(plan.lookup().path, b"dir/index.html");
    assert_eq!(plan.resume(site, &facts, Answer::File(7)), Step::Done(Outcome::ErrorPage(Status::NOT_FOUND, 7)));
    assert_eq!(plan.begin_error_page::<u8>(site, &facts, Status::FORBIDDEN), Some(Step::Ask));
    for answer in [Answer::Directory, Answer::Denied] {
        let _ = plan.begin_error_page::<u8>(site, &facts, Status::FORBIDDEN);
        assert_eq!(plan.resume::<u8>(site, &facts, answer), Step::Done(Outcome::Status(Status::FORBIDDEN)));
    }
    for none in [Status::INTERNAL_SERVER_ERROR, Status::BAD_REQUEST] {
        assert_eq!(plan.begin_error_page::<u8>(site, &facts, none), None);
    }
}
