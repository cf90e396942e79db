//! The site that `make site` builds: every page of docs/ is on it, no link is dead, and a browser on a phone shows all
//! pages.

use crate::browser::Browser;
use crate::support::{have, root, skip, text, version};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

const SUMMARY: &str = "docs/SUMMARY.md";

/// The pages that the summary names, in its order, as paths from the top.
fn named() -> Vec<String> {
    let summary = std::fs::read_to_string(root().join(SUMMARY)).unwrap();
    let links = summary.split("](").skip(1).map(|rest| rest.split_once(')').unwrap().0);
    links.map(|link| link.strip_prefix("../").map_or_else(|| format!("docs/{link}"), str::to_owned)).collect()
}

/// All pages below a directory.
fn pages(below: &str) -> BTreeSet<String> {
    let (mut found, mut stack) = (BTreeSet::new(), vec![PathBuf::from(below)]);
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(root().join(&directory)).unwrap() {
            let path = directory.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                stack.push(path);
            } else if path.extension() == Some("md".as_ref()) {
                found.insert(path.into_os_string().into_string().unwrap());
            }
        }
    }
    found
}

#[test]
fn the_summary_names_every_page_once() {
    let named = named();
    let missing: Vec<_> = named.iter().filter(|page| !root().join(page).is_file()).collect();
    assert!(missing.is_empty(), "{SUMMARY} names pages that do not exist: {missing:?}");
    let unique: BTreeSet<_> = named.iter().cloned().collect();
    assert_eq!(unique.len(), named.len(), "{SUMMARY} names a page twice");
    let forgotten: Vec<_> =
        pages("docs").into_iter().filter(|page| page != SUMMARY && !unique.contains(page)).collect();
    assert!(forgotten.is_empty() && !unique.is_empty(), "{SUMMARY} lacks {forgotten:?}");
}

/// The versions of the site begin with that of the library.
#[test]
fn the_site_has_this_version() {
    let versions = std::fs::read_to_string(root().join("packaging/site/versions.json")).unwrap();
    let versions: Vec<String> = serde_json::from_str(&versions).unwrap();
    assert_eq!(versions[0], version());
}

/// What the page says of a language whose tool is missing.
const LEFT_OUT: &str = "This copy was built without ";

/// The directory of the site, which is built once. None if a tool is missing.
fn built() -> Option<PathBuf> {
    static BUILT: LazyLock<bool> = LazyLock::new(|| {
        const NO_TOOL: i32 = 3;
        if !have("python3") {
            return false;
        }
        // What is missing is required below, so that it says what.
        let mut build = Command::new(root().join("packaging/site/build"));
        let output = build.env("DPB_REQUIRE_TOOLCHAINS", "0").output().unwrap();
        let said = text(&output);
        assert!(output.status.success() || output.status.code() == Some(NO_TOOL), "{said}");
        for line in said.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
            // Debian 12 has Java 17, so nothing requires a newer one.
            if line.contains("JDK") { eprintln!("skipped: {line}") } else { skip(line) }
        }
        output.status.success()
    });
    BUILT.then(|| root().join("target/site").canonicalize().unwrap())
}

/// A server of the files of a directory, on any free port.
struct Files {
    process: Child,
    url: String,
}

impl Files {
    fn serve(directory: &Path) -> Files {
        let mut server = Command::new("python3");
        server.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0", "--directory"]).arg(directory);
        let mut process = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.split("port ").nth(1).and_then(|rest| rest.split(' ').next()).expect("it names its port");
        Files { url: format!("http://127.0.0.1:{port}"), process }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a page on a phone is like: how far it reaches to the right, except what scrolls by itself; its smallest letters in
/// pixels in text and in figures, and how many figures it has.
const SEEN: &str = r#"
    const shown = element => element.getClientRects().length > 0;
    const letters = [...document.querySelectorAll("main p, main li, main td")].filter(shown)
        .map(element => parseFloat(getComputedStyle(element).fontSize));
    const figures = await Promise.all([...document.querySelectorAll("main img")].filter(shown).map(async image => {
        image.loading = "eager";
        await image.decode();
        const drawn = new DOMParser().parseFromString(await (await fetch(image.src)).text(), "image/svg+xml").documentElement;
        const sizes = [drawn, ...drawn.querySelectorAll("[font-size]")].map(e => parseFloat(e.getAttribute("font-size")));
        const scale = image.getBoundingClientRect().width / drawn.viewBox.baseVal.width;
        return Math.min(...sizes.filter(size => size > 0)) * scale;
    }));
    const all = [...document.querySelectorAll("main, main *")].filter(e => shown(e) && !e.matches("pre *, .table-wrapper *"));
    const right = Math.max(document.documentElement.scrollWidth, ...all.map(e => e.getBoundingClientRect().right));
    return [right, Math.min(...letters, 100), Math.min(...figures, 100), figures.length];
"#;

/// Everything of the site, on a phone of 360 pixels.
#[test]
#[ignore = "builds the site, and opens all its pages in a browser"]
fn a_phone_shows_every_page() {
    let Some(site) = built() else { return };
    let Some(browser) = Browser::start() else { return };
    let server = Files::serve(&site);
    browser.be_a_phone(360, 740);

    // The first page leads to the newest version, and there to the first page of the book.
    browser.open(&server.url);
    browser.wait("location.pathname.endsWith('/docs/index.html') && document.querySelector('.versions')");
    let first = browser.run("return location.href");
    let top = first.as_str().unwrap().strip_suffix("docs/index.html").unwrap();

    let seen = || {
        let seen = browser.run(&format!("return (async () => {{ {SEEN} }})()"));
        [0, 1, 2, 3].map(|i| seen[i].as_f64().unwrap())
    };
    let (mut wide, mut small, mut errors, mut figures) = (vec![], vec![], vec![], 0);
    for page in named() {
        browser.open(&format!("{top}{}", page.replace(".md", ".html")));
        let [width, letters, drawn, number] = seen();
        if width > 360.0 {
            wide.push(format!("{page}: {width}"));
        }
        if letters < 12.0 || drawn < 10.0 {
            small.push(format!("{page}: letters of {letters} pixels, in figures {drawn}"));
        }
        figures += number as u32;
        errors.extend(browser.errors().into_iter().map(|error| format!("{page}: {error}")));
    }
    // A page that is too wide, with small letters, would be seen.
    browser.run("document.querySelector('main').insertAdjacentHTML('beforeend', '<p style=\"width: 400px; font-size: 8px\">x</p>')");
    let [width, letters, ..] = seen();
    assert!(width >= 400.0 && letters == 8.0, "{width} {letters}");

    for language in ["c", "cpp", "go", "go/fleet", "python", "java", "rust"] {
        let index = Path::new(&version()).join("api").join(language.split('/').next().unwrap()).join("index.html");
        if std::fs::read_to_string(site.join(index)).unwrap().contains(LEFT_OUT) {
            continue;
        }
        browser.open(&format!("{top}api/{language}/index.html"));
        browser.wait("document.readyState === 'complete' && document.body.innerText.length > 50");
        let width = browser.run("return document.documentElement.scrollWidth").as_f64().unwrap();
        assert!(width <= 360.0, "{language}: {width}");
        errors.extend(browser.errors().into_iter().map(|error| format!("{language}: {error}")));
    }
    assert_eq!((wide, small, errors), (vec![], vec![], Vec::<String>::new()));
    assert!(figures > 15, "{figures} figures");
}

/// The five languages are tabs, which links open too, the choice is kept, and the search finds a function.
#[test]
#[ignore = "builds the site"]
fn its_tabs_and_its_search_work() {
    let Some(site) = built() else { return };
    let Some(browser) = Browser::start() else { return };
    let server = Files::serve(&site);
    browser.be_a_phone(360, 740);
    let page = format!("{}/{}/docs/index.html", server.url, version());
    let programs = || {
        let visible = "[...document.querySelectorAll('main pre code')].filter(e => e.getClientRects().length).map(e => e.innerText).join()";
        browser.run(&format!("return {visible}")).as_str().unwrap().to_owned()
    };
    browser.open(&page);
    browser.wait("document.querySelectorAll('.tabs button').length === 5");
    assert!(programs().contains("dpb_new(") && !programs().contains("dpb.NewConfig("), "{}", programs());
    for (number, says) in [(2, "#include <dpb.hpp>"), (3, "dpb.NewConfig("), (4, "import dpb"), (5, "new Config(")] {
        browser.click(&format!(".tabs button:nth-child({number})"));
        assert!(programs().contains(says) && !programs().contains("dpb_new("), "{}", programs());
    }
    browser.open(&page);
    browser.wait("document.querySelector('.tabs [aria-selected=true]')?.textContent === 'Java'");
    assert!(programs().contains("new Config("), "the choice is kept: {}", programs());

    browser.run("location.hash = 'go'");
    browser.wait("document.querySelector('.tabs [aria-selected=true]').textContent === 'Go'");

    browser.open(&format!("{page}?search=dpb_cancel_all"));
    browser.wait("document.querySelectorAll('#mdbook-searchresults a, #searchresults a').length > 2");
    assert_eq!(browser.errors(), [] as [Value; 0]);
}

/// No link within the site is dead, and the checker detects one that is.
#[test]
#[ignore = "builds the site"]
fn no_link_is_dead() {
    let Some(site) = built() else { return };
    let check = |site: &Path| Command::new(root().join("packaging/site/check")).arg(site).output().unwrap();
    let output = check(&site);
    assert!(output.status.success(), "{}", text(&output));
    let page = site.join(version()).join("docs/wrong.html");
    for (link, dead) in [("privacy.html#what-is-not-protected", "privacy.html#visitors"), ("guide.html", "gide.html")] {
        let [right, wrong] = [link, dead].map(|link| {
            std::fs::write(&page, format!("<a href=\"{link}\">a page</a>")).unwrap();
            check(&site)
        });
        std::fs::remove_file(&page).unwrap();
        assert!(right.status.success() && !wrong.status.success(), "{dead}: {}", text(&wrong));
        assert!(text(&wrong).contains(dead), "{}", text(&wrong));
    }
}
