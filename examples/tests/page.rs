//! Tests the page of the largest example in a real browser, offline: it renders the graph, and a click shows a task's
//! details.
//!
//! The test needs Chromium and its driver (`chromium`, `chromedriver`); if they are not installed, or do not start, it
//! says so and ends. With `REQUIRE_BROWSER=1` their lack is a failure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test may panic, and says what it leaves out"
)]

mod built;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use built::example;
use serde_json::{Value, json};

fn installed(program: &str) -> bool {
    let tried = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// A browser behind its driver, controlled by WebDriver's JSON.
struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts the browser; the error states why none is available.
    fn start(profile: &Path) -> Result<Self, String> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines
            .map(|line| line.unwrap())
            .find_map(|line| {
                line.split("successfully on port ")
                    .nth(1)?
                    .trim_end_matches('.')
                    .parse()
                    .ok()
            })
            .expect("the driver names its port");
        let mut browser = Browser {
            driver,
            port,
            session: String::new(),
        };
        let profile = format!("--user-data-dir={}", profile.display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--window-size=1600,1000",
            // Offline: no name can be resolved.
            "--host-resolver-rules=MAP * ~NOTFOUND",
            &profile,
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let answer = browser.answer("POST", "/session", &capabilities);
        let session = answer["sessionId"].as_str().ok_or_else(|| answer.to_string())?;
        browser.session = session.to_owned();
        Ok(browser)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.answer(method, path, body);
        assert!(answer["error"].is_null(), "{method} {path}: {answer}");
        answer
    }

    fn answer(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let body = if method == "DELETE" {
            String::new()
        } else {
            body.to_string()
        };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["value"].clone()
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}/{name}", self.session), body)
    }

    fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    fn find(&self, selector: &str) -> Vec<String> {
        let found = self.command("elements", &json!({"using": "css selector", "value": selector}));
        let id = |element: &Value| {
            element
                .as_object()
                .unwrap()
                .values()
                .next()
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        };
        found.as_array().unwrap().iter().map(id).collect()
    }

    fn click(&self, element: &str) {
        self.command(&format!("element/{element}/click"), &json!({}));
    }

    fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({}).innerText", json!(selector));
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            // A failing test must still end its browser.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                self.ask("DELETE", &path, &Value::Null)
            }));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[test]
fn the_page_of_the_largest_example_renders_offline_and_a_click_shows_details() {
    if !(installed("chromedriver") && (installed("chromium") || installed("google-chrome"))) {
        assert!(
            std::env::var_os("REQUIRE_BROWSER").is_none(),
            "no chromedriver and chromium"
        );
        let _ = std::io::stderr().write_all(b"\nleft out: chromedriver and chromium are not installed\n");
        return;
    }
    let folder = std::env::temp_dir().join(format!("selvedge-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let page = Command::new(example("digits"))
        .arg("--selvedge-graph=html")
        .output()
        .unwrap();
    assert!(page.status.success(), "{}", String::from_utf8_lossy(&page.stderr));
    let file = folder.join("digits.html");
    std::fs::write(&file, &page.stdout).unwrap();
    let plan = Command::new(example("digits"))
        .arg("--selvedge-graph=json")
        .output()
        .unwrap();
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let tasks = plan["ir"]["tasks"].as_array().unwrap();

    let browser = match Browser::start(&folder.join("profile")) {
        Ok(browser) => browser,
        Err(error) => {
            assert!(std::env::var_os("REQUIRE_BROWSER").is_none(), "{error}");
            let _ = std::io::stderr()
                .write_all(format!("\nleft out: the browser does not start here: {error}\n").as_bytes());
            std::fs::remove_dir_all(&folder).unwrap();
            return;
        }
    };
    browser.command("url", &json!({"url": format!("file://{}", file.display())}));
    let boxes = browser.find("#planned .box");
    assert_eq!(boxes.len(), tasks.len(), "a box for every task");
    assert_eq!(
        browser.find("#filter input").len(),
        plan["ir"]["actors"].as_array().unwrap().len()
    );
    for (task, element) in tasks.iter().zip(&boxes).take(3) {
        browser.click(element);
        let details = browser.text("#details");
        let label = task["label"].as_str().unwrap();
        let line = task["bound_at"]["line"].as_u64().unwrap();
        for part in [label, "COMPUTE", "slots", &format!("digits.rs:{line}:")] {
            assert!(details.contains(part), "{part} in {details}");
        }
    }
    // The filter: a box whose actor is filtered out is dimmed.
    let dimmed = || {
        browser
            .run("return document.querySelectorAll('#planned .box.dim').length")
            .as_u64()
            .unwrap()
    };
    assert_eq!(dimmed(), 0);
    browser.click(&browser.find("#filter input")[0]);
    assert!(dimmed() > 0);
    // The page requested nothing from elsewhere, and no script failed.
    let log = browser.command("se/log", &json!({"type": "browser"}));
    assert_eq!(log.as_array().map(Vec::len), Some(0), "{log}");
    let asked = browser.run("return performance.getEntriesByType('resource').length");
    assert_eq!(asked, json!(0));
    drop(browser);
    std::fs::remove_dir_all(&folder).unwrap();
}
