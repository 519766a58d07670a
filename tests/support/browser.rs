//! A browser without a window, driven over the pipe of its DevTools protocol: messages are JSON, a NUL ends each.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

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
        // The protocol is spoken on descriptors 3 and 4. As root the browser has no sandbox of its own; it meets only pages of these tests.
        let line = "exec chromium --headless=new --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe \
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
        self.sent += 1;
        let mut message = json!({ "id": self.sent, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.orders.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.sent {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
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
