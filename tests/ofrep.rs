//! The server of flags in Go: OpenFeature's own providers ask it, and a browser shows its page.
#![cfg(target_os = "linux")]

use crate::browser::Browser;
use crate::java;
use crate::python::environment;
use crate::support::http::Server;
use crate::support::{empty_directory, go_with_modules, have, root, run, skip, snippets, text};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const CLIENTS: &str = "tests/ofrep";
const FLAGS: &str = r#"{
  "button": {"values": ["blue", "red", "green"]},
  "limit": {"values": [10, 20], "variants": ["low", "high"]},
  "offer": {"values": [{"price": 9}, {"price": 12}], "attribute": "device", "contexts": ["phone", "desktop"]}
}"#;

static PROGRAM: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go_ofrep");
    let _ = std::fs::remove_file(&path); // Go does not rebuild if only the library has changed
    run(&mut go_with_modules("examples/go", &["build", "-o", path.to_str().unwrap(), "./ofrep"])?);
    Some(path)
});

/// A server of these flags. None without Go.
fn start(name: &str, flags: &str, options: &[&str]) -> Option<Server> {
    let file = empty_directory("ofrep", name).join("flags.json");
    std::fs::write(&file, flags).unwrap();
    let mut command = Command::new(PROGRAM.as_ref()?);
    Some(Server::start(command.args(["-port", "0", "-flags"]).arg(file).args(options)))
}

fn post(server: &Server, path: &str, body: &Value) -> Value {
    let (status, _, answer) = server.send("POST", path, &body.to_string());
    assert!([200, 204].contains(&status), "{path}: {status} {answer}");
    if answer.is_empty() { Value::Null } else { serde_json::from_str(&answer).unwrap() }
}

/// What a provider says is the table's decision, with all that names it, or the error of the protocol.
fn check(server: &Server, said: &Value) {
    for flag in ["button", "limit", "offer"] {
        let context = json!({ "context": { "targetingKey": "visitor-1", "device": "phone" } });
        let made = post(server, &format!("/ofrep/v1/evaluate/flags/{flag}"), &context);
        assert_eq!(made["metadata"]["context"], if flag == "offer" { "phone" } else { "" });
        for (name, of) in
            [("value", "value"), ("variant", "variant"), ("reason", "reason"), ("flagMetadata", "metadata")]
        {
            assert_eq!(said[flag][name], made[of], "{flag}: {said}");
        }
        assert!(said[flag]["errorCode"].is_null(), "{said}");
    }
    for (flag, value, code) in [("none", json!("mine"), "FLAG_NOT_FOUND"), ("mismatch", json!(true), "TYPE_MISMATCH")] {
        assert_eq!((&said[flag]["value"], &said[flag]["errorCode"]), (&value, &code.into()), "{said}");
    }
}

/// The decisions that each flag has recorded.
fn recorded(server: &Server) -> [Value; 3] {
    let report: Value = serde_json::from_str(&server.get("/report").1).unwrap();
    ["button", "limit", "offer"].map(|flag| report[flag]["report"]["Decisions"].clone())
}

/// What a provider's program prints about a server.
fn ask(client: &mut Command, server: &Server) -> Value {
    let output = client.env("OFREP", format!("http://{}", server.host())).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

/// A provider's program asks a new server. It is to record one decision of each flag, although flags are evaluated twice.
fn provider_agrees(name: &str, client: &mut Command, nobody: &str) -> Option<Value> {
    // A flag that cannot be decided has the program's default; some versions of providers also report an error.
    let full = start(name, FLAGS, &["-capacity", "1"])?;
    post(&full, "/ofrep/v1/evaluate/flags/button", &json!({ "context": { "targetingKey": "visitor-0" } }));
    assert_eq!(ask(client, &full)["server"]["button"]["value"], "none");
    let server = start(name, FLAGS, &[])?;
    let said = ask(client, &server);
    assert_eq!(said["nobody"], nobody, "{said}");
    assert_eq!(recorded(&server), [1, 1, 1].map(Value::from), "{said}");
    check(&server, &said["server"]);
    assert_eq!(recorded(&server), [1, 1, 1].map(Value::from), "{said}");
    Some(said)
}

#[test]
#[ignore = "npm downloads the providers once"]
fn the_providers_for_javascript_agree() {
    if PROGRAM.is_none() || !have("node") || !have("npm") {
        return;
    }
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ofrep-node");
    std::fs::create_dir_all(&place).unwrap();
    for file in ["package.json", "client.mjs"] {
        std::fs::copy(root().join(CLIENTS).join(file), place.join(file)).unwrap();
    }
    let mut npm = Command::new("npm");
    let output =
        npm.args(["install", "--no-audit", "--no-fund", "--prefer-offline"]).current_dir(&place).output().unwrap();
    if !output.status.success() {
        return skip(&format!("npm cannot install: {}", text(&output).lines().next().unwrap_or("")));
    }
    let mut node = Command::new("node");
    let said = provider_agrees("node", node.arg("client.mjs").current_dir(&place), "TARGETING_KEY_MISSING").unwrap();
    // A page asks for all flags at once, which records nothing, and has the same decisions.
    assert_eq!(said["recorded"], 0, "{said}");
    for flag in ["button", "limit", "offer"] {
        assert_eq!(said["page"][flag], said["server"][flag], "{said}");
    }
}

#[test]
#[ignore = "pip downloads the provider once"]
fn the_provider_for_python_agrees() {
    if PROGRAM.is_none() {
        return;
    }
    let Some(place) = environment("ofrep", "python3", &["tests/ofrep/requirements.txt"]) else { return };
    let mut python = Command::new(place.join("bin/python"));
    provider_agrees("python", python.arg(root().join(CLIENTS).join("client.py")), "TARGETING_KEY_MISSING");
}

#[test]
#[ignore = "Maven builds the package, and downloads the provider once"]
fn the_provider_for_java_agrees() {
    if PROGRAM.is_none() {
        return;
    }
    let needs = ["dev.openfeature.contrib.providers:ofrep:0.0.2", "dev.openfeature:sdk:1.20.1"];
    let source = std::fs::read_to_string(root().join(CLIENTS).join("Client.java")).unwrap();
    let Some(program) = java::program("ofrep", &needs, "Client", &[("java/Client.java", &source)], "") else { return };
    // This provider has one code for all contexts that a server refuses.
    provider_agrees("java", &mut java::java(&program, &[]), "INVALID_CONTEXT");
}

/// The page decides by the function on the page of tables.
#[test]
fn the_page_decides_as_documented() {
    let page = std::fs::read_to_string(root().join("examples/go/ofrep/page.html")).unwrap();
    assert!(page.contains(&snippets("docs/tables.md", "js")[0]));
}

/// Visitors come, and the best value gets nearly all of them; their clicks are reported by beacons.
#[test]
#[ignore = "needs a browser"]
fn its_page_shows_what_is_learned() {
    let options = ["-life", "2s", "-window", "2s"];
    let (Some(server), Some(browser)) = (start("page", FLAGS, &options), Browser::start()) else { return };
    browser.open(&format!("http://{}/", server.host()));
    browser.wait("document.querySelectorAll('#arms tr').length === 3");
    let session = browser.run("return sessionStorage.session");
    let context = json!({ "context": { "targetingKey": session } });
    browser.wait("document.querySelector('#value').textContent !== ''");
    // What the page shows is what the server decides, in the version that the page has; the next one may have begun.
    let shown = browser.run("return mine.version + ' ' + table.arms[mine.arm]");
    let made = post(&server, "/ofrep/v1/evaluate/flags/button", &context);
    if shown.as_str().unwrap().starts_with(made["metadata"]["version"].as_str().unwrap()) {
        assert_eq!(shown.as_str().unwrap().split(' ').nth(1), made["variant"].as_str());
    }
    browser.click("#value");
    browser.wait("document.querySelector('#thanks').textContent === 'thank you'");
    // The true rates are 4%, 17% and 30%.
    let learned = |browser: &Browser| browser.run("return table.contexts[''][2] > 0.9 * 2 ** 32") == true;
    let mut rounds = 0;
    while rounds < 3 || !learned(&browser) {
        rounds += 1;
        assert!(rounds < 20, "{}", browser.run("return document.body.innerText"));
        browser.click("#visitors");
        browser.wait("!document.querySelector('#visitors').disabled");
        std::thread::sleep(std::time::Duration::from_millis(3000)); // a window, and the next version
    }
    // A few reports may come when their version is closed.
    assert!(recorded(&server)[0].as_u64() > Some(900 * rounds), "{:?}", recorded(&server));
    browser.wait("document.querySelector('#arms').innerText.includes('±')");
    browser.wait("document.querySelectorAll('#history > div').length >= 3");
    assert_eq!(browser.errors(), Vec::<Value>::new());
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go_ofrep.png");
    std::fs::write(picture, browser.screenshot()).unwrap();
    browser.run("document.querySelector('#flag').value = 'offer'; document.querySelector('#flag').onchange()");
    browser.wait("document.querySelectorAll('#shares .bar').length === 2");
    browser.wait("table.name === 'offer' && document.querySelector('#arms').innerText.includes('price')");
}
