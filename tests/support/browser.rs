//! A headless browser, controlled through the W3C's WebDriver protocol.

use crate::support::http::PATIENCE;
use crate::support::{have, skip};
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

/// A browser with one page; ends when dropped.
pub struct Browser {
    driver: Child,
    /// Its output; the browser ends if this is closed.
    _said: BufReader<ChildStdout>,
    agent: ureq::Agent,
    /// The URL of its WebDriver session.
    session: String,
}

impl Browser {
    /// Starts a browser. Returns None if Chromium is not installed.
    pub fn start() -> Option<Browser> {
        if !have("chromium") || !have("chromedriver") {
            skip("apt-get install chromium chromium-driver");
            return None;
        }
        let (driver, said, port) = start_driver();
        let agent = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false);
        let mut browser = Browser { driver, _said: said, agent: agent.build().new_agent(), session: String::new() };
        let options = json!({ "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1100,1500"] });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let url = format!("http://127.0.0.1:{port}/session");
        let session = browser.ask(&url, &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = format!("{url}/{}", session["sessionId"].as_str().unwrap());
        Some(browser)
    }

    fn ask(&self, url: &str, body: &Value) -> Value {
        let answer = self.agent.post(url).header("content-type", "application/json").send(body.to_string());
        let text = answer.unwrap().body_mut().with_config().limit(1 << 26).read_to_string().unwrap();
        let value = serde_json::from_str::<Value>(&text).unwrap()["value"].take();
        assert!(value["error"].is_null(), "{url} {body}: {value}");
        value
    }

    fn tell(&self, command: &str, body: &Value) -> Value {
        self.ask(&format!("{}/{command}", self.session), body)
    }

    pub fn open(&self, url: &str) {
        self.tell("url", &json!({ "url": url }));
    }

    /// Shows pages as a phone with this screen does.
    pub fn be_a_phone(&self, width: u32, height: u32) {
        let screen = json!({ "width": width, "height": height, "deviceScaleFactor": 2, "mobile": true });
        let command = "Emulation.setDeviceMetricsOverride";
        self.tell("goog/cdp/execute", &json!({ "cmd": command, "params": screen }));
    }

    /// Runs a script and returns its value, or that of its promise.
    pub fn run(&self, script: &str) -> Value {
        self.tell("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until this expression is true.
    pub fn wait(&self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.run(&format!("return Boolean({expression})")) != true {
            let page = || self.run("return document.body.innerText");
            assert!(Instant::now() < end, "never {expression}: {}", page());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Clicks the element at its position on the screen. Fails if another element covers it.
    pub fn click(&self, selector: &str) {
        let found = self.tell("element", &json!({ "using": "css selector", "value": selector }));
        let id = found.as_object().unwrap().values().next().unwrap().as_str().unwrap();
        self.tell(&format!("element/{id}/click"), &json!({}));
    }

    /// Errors of the page: exceptions, and failed requests.
    pub fn errors(&self) -> Vec<Value> {
        let log = self.tell("se/log", &json!({ "type": "browser" }));
        log.as_array().unwrap().iter().filter(|entry| entry["level"] == "SEVERE").cloned().collect()
    }

    /// A screenshot as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let url = format!("{}/screenshot", self.session);
        let text =
            self.agent.get(url).call().unwrap().body_mut().with_config().limit(1 << 26).read_to_string().unwrap();
        let value = serde_json::from_str::<Value>(&text).unwrap();
        BASE64_STANDARD.decode(value["value"].as_str().unwrap()).unwrap()
    }
}

/// Starts chromedriver. It lets the system pick a free IPv6 port, and ends if another process has the same IPv4 port. So
/// this tries up to 20 ports.
fn start_driver() -> (Child, BufReader<ChildStdout>, String) {
    let mut output = String::new();
    for _ in 0..20 {
        let mut driver = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap());
        output.clear();
        while said.read_line(&mut output).unwrap() > 0 {
            if let Some((_, port)) = output.split_once("started successfully on port ") {
                let port = port.trim_end().trim_end_matches('.').to_owned();
                return (driver, said, port);
            }
        }
        driver.wait().unwrap();
    }
    panic!("chromedriver names no port: {output}");
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call(); // ends the browser
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
