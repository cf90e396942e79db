//! The layers of the source: a file uses only what is in its own layer or below. And its names: each type has its own.

use crate::support::{root, without_comments};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Layers, the lowest first. The last five are one module each.
const LAYERS: [&[&str]; 7] = [
    &["error", "key_index", "memory", "moving", "noise", "os", "parts", "random", "reward", "snapshot"],
    &[
        "budget",
        "codebook",
        "config",
        "contribution",
        "counter",
        "ledger",
        "local",
        "privacy",
        "request",
        "shuffle",
        "stopping",
        "table",
        "tournament",
        "users",
    ],
    &["engine"],
    &["policy"],
    &["bandit"],
    &["node"],
    &["ffi"],
];

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.append(&mut files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// The code of a file without comments and tests.
fn code(path: &Path) -> String {
    let source = std::fs::read_to_string(path).unwrap();
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut code = String::new();
    let mut lines = without_comments(source).lines().map(str::to_owned).collect::<Vec<_>>().into_iter();
    while let Some(line) = lines.next() {
        match line.trim() {
            "#[cfg(test)]" => _ = lines.next(),
            _ => code += &(line + "\n"),
        }
    }
    code
}

/// The words that follow `before`, up to the end of a name.
fn after<'a>(code: &'a str, before: &str) -> Vec<&'a str> {
    let name = |rest: &'a str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
    code.split(before).skip(1).map(name).collect()
}

#[test]
fn no_file_uses_a_layer_above_its_own() {
    let src = root().join("src");
    let layer = |module: &str| {
        LAYERS.iter().position(|modules| modules.contains(&module)).unwrap_or_else(|| panic!("{module} has no layer"))
    };
    // What lib.rs shows at the top belongs to its module.
    let lib = code(&src.join("lib.rs"));
    let shown: Vec<(&str, &str)> = lib
        .split("pub use ")
        .skip(1)
        .filter_map(|rest| rest.split(';').next()?.split_once("::"))
        .flat_map(|(module, names)| {
            names.split([',', '{', '}', ' ', '\n']).map(move |name| (module, name.rsplit(':').next().unwrap()))
        })
        .collect();
    let mut seen = 0;
    for path in files(&src) {
        let file = path.strip_prefix(&src).unwrap().to_str().unwrap();
        let module = file.split(['/', '.']).next().unwrap();
        if file == "lib.rs" || file.ends_with("tests.rs") {
            continue;
        }
        let code = code(&path);
        for name in after(&code, "crate::") {
            assert!(
                !name.is_empty(),
                "{file}: one `use crate::module` for each module, so that this test can see them"
            );
            let used = shown.iter().find(|(_, shown)| *shown == name).map_or(name, |(module, _)| module);
            assert!(layer(used) <= layer(module), "{file} uses {used}");
            seen += 1;
        }
        // In the policies' layer, what serves all families knows none of them.
        let (in_policy, is_family) =
            (file.strip_prefix("policy/"), |name: &str| src.join("policy").join(name).is_dir());
        if let Some(own) = in_policy.filter(|own| !own.contains('/') && *own != "mod.rs") {
            let used = [after(&code, "super::"), after(&code, "crate::policy::")].concat();
            assert!(used.iter().all(|name| !is_family(name)), "policy/{own} uses a family: {used:?}");
        }
    }
    assert!(seen > 500, "{seen}");
}

/// The handle knows no policy by name.
#[test]
fn the_handle_names_no_policy() {
    for path in files(&root().join("src/bandit")) {
        let code = code(&path);
        for name in after(&code, "Algorithm::") {
            assert!(
                !dpb::Algorithm::ALL.iter().any(|policy| format!("{policy:?}") == name),
                "{}: {name}",
                path.display()
            );
        }
    }
}

/// Two types of one name would be told apart by their paths only.
#[test]
fn no_two_types_have_one_name() {
    let mut places: HashMap<String, PathBuf> = HashMap::new();
    for path in files(&root().join("src")) {
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let declared =
                line.split_once(' ').filter(|(first, _)| first.starts_with("pub")).map_or(line, |(_, rest)| rest);
            let declared = declared.strip_prefix("unsafe ").unwrap_or(declared);
            let Some((kind, name)) = declared.split_once(' ') else { continue };
            if ["struct", "enum", "trait", "type", "union"].contains(&kind) {
                let name = name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
                if let Some(other) = places.insert(name.to_owned(), path.clone()) {
                    panic!("{name}: {} and {}", other.display(), path.display());
                }
            }
        }
    }
    assert!(places.len() > 200, "{}", places.len());
}

/// A node does the same with the same calls: so it has no clock, no thread, no file, no socket, and no order of its own.
#[test]
fn a_node_depends_on_its_calls_alone() {
    let paths = files(&root().join("src/node"));
    for path in &paths {
        let code = std::fs::read_to_string(path).unwrap();
        for foreign in ["HashMap", "HashSet", "std::time", "std::thread", "std::fs", "std::net", "std::env"] {
            assert!(!code.contains(foreign), "{}: {foreign}", path.display());
        }
    }
    assert!(paths.len() > 10);
}
