//! A browser without a window, driven over the pipe of its DevTools protocol: messages are JSON, a NUL ends each.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a page of a large application may take where everything else runs too.
const PAGES: Duration = Duration::from_secs(60);

/// Where the pictures are put.
pub(crate) fn pictures() -> PathBuf {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/screenshots");
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// A running browser with one page. Dropping it ends it.
pub(crate) struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    session: Option<String>,
    sent: u64,
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // Every name is this machine's: nothing is asked of the network. The protocol is spoken on descriptors 3 and 4. As root the browser has no sandbox of its own; it meets only pages of these tests, whose certificates nobody vouches for.
        let line = "exec chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe \
                    --host-resolver-rules=\"MAP * 127.0.0.1\" --no-first-run --disable-background-networking --ignore-certificate-errors \
                    --user-data-dir=\"$0\" about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("bash");
        command.arg("-c").arg(line).arg(profile.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser = Self { child, orders, answers, session: None, sent: 0, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Takes the size and the scheme of a device.
    pub(crate) fn show_as(&mut self, width: u32, height: u32, dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if dark { "dark" } else { "light" };
        self.call("Emulation.setEmulatedMedia", json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }));
    }

    /// Opens an address and waits until it is shown.
    pub(crate) fn open(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_for("Page.loadEventFired");
    }

    /// Does something that leads to another page, and waits until that is shown.
    pub(crate) fn follow(&mut self, script: &str) {
        self.events.clear();
        self.evaluate(script);
        self.wait_for("Page.loadEventFired");
    }

    /// The value of an expression in the page; a promise is waited for.
    pub(crate) fn evaluate(&mut self, script: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({ "expression": script, "returnByValue": true, "awaitPromise": true }));
        assert!(result.get("exceptionDetails").is_none(), "{script}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page, whichever page that is meanwhile; its value.
    pub(crate) fn until(&mut self, script: &str) -> Value {
        let deadline = Instant::now() + PAGES;
        loop {
            let parameters = json!({ "expression": script, "returnByValue": true, "awaitPromise": true });
            // An error is that of a page which is not there yet, or not any more.
            let value = self.try_call("Runtime.evaluate", parameters).map(|answer| answer["result"]["value"].clone()).unwrap_or_default();
            let is_false = value.is_null() || value == false || value == "" || value == 0;
            if !is_false {
                return value;
            }
            if Instant::now() > deadline {
                self.picture(&pictures().join("failed.png"));
                let seen = self.evaluate("location.href + '\\n' + document.body.innerText");
                panic!("never true: {script}; the page (target/screenshots/failed.png): {}", seen.as_str().unwrap_or_default());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks on what a selector names, once it is there.
    pub(crate) fn click(&mut self, selector: &str) {
        self.until(&format!("document.querySelector({selector:?}) && !document.querySelector({selector:?}).disabled"));
        self.evaluate(&format!("document.querySelector({selector:?}).click()"));
    }

    /// Fills in the fields that selectors name, once all are there: at once, since scripts of pages move the focus meanwhile.
    pub(crate) fn fill_in(&mut self, fields: &[(&str, &str)]) {
        for (selector, _) in fields {
            self.until(&format!("document.querySelector({selector:?})"));
        }
        let set =
            "field.value = text; for (const kind of ['input', 'keyup', 'change']) field.dispatchEvent(new Event(kind, { bubbles: true }))";
        let fields = json!(fields);
        self.evaluate(&format!("for (const [selector, text] of {fields}) {{ const field = document.querySelector(selector); {set} }}"));
    }

    /// Gives files to the field that a selector names.
    pub(crate) fn choose_file(&mut self, selector: &str, file: &Path) {
        self.until(&format!("document.querySelector({selector:?})"));
        let document = self.call("DOM.getDocument", json!({}));
        let node = self.call("DOM.querySelector", json!({ "nodeId": document["root"]["nodeId"], "selector": selector }));
        self.call("DOM.setFileInputFiles", json!({ "nodeId": node["nodeId"], "files": [file] }));
    }

    /// Presses a key, and lets it go.
    pub(crate) fn press(&mut self, key: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code }));
        }
    }

    /// What the browser complained of since the page was opened, except that the page itself is an error.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // One more exchange brings what is still on its way.
        std::thread::sleep(Duration::from_millis(50));
        self.evaluate("0");
        let complains = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Network.loadingFailed") => true,
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                !(entry["source"] == "network" && entry["text"].as_str().is_some_and(|text| text.contains("status of 404")))
            }
            _ => false,
        };
        self.events.iter().filter(complains).map(Value::to_string).collect()
    }

    /// Writes a picture of what is seen.
    pub(crate) fn picture(&mut self, path: &Path) {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let file = std::fs::File::create(path).unwrap();
        let mut decoder = Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
        decoder.stdin.take().unwrap().write_all(picture["data"].as_str().unwrap().as_bytes()).unwrap();
        assert!(decoder.wait().unwrap().success());
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.try_call(method, parameters).unwrap_or_else(|answer| panic!("{method}: {answer}"))
    }

    /// An error is the whole answer.
    fn try_call(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.orders.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.sent {
                return if answer.get("error").is_none() { Ok(answer["result"].clone()) } else { Err(answer) };
            }
            self.events.push(answer);
        }
    }

    fn wait_for(&mut self, event: &str) {
        while !self.events.iter().any(|have| have["method"] == event) {
            let next = self.receive();
            self.events.push(next);
        }
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.answers.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser ended");
        serde_json::from_slice(&message).unwrap()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.session = None;
        let _ = self.orders.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..100 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
