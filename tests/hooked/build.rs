//! Builds the library with the faults that tests must detect: it copies the source, and applies the patches in faults.txt.
//! No other package has them.

mod patches;

use patches::Patch;
use std::fs;
use std::path::{Path, PathBuf};

/// The files below a directory, by their paths in it.
fn files(directory: &Path, within: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let entry = entry.expect("an entry");
        let (path, name) = (entry.path(), within.join(entry.file_name()));
        if path.is_dir() { files(&path, &name, to) } else { to.push(name) }
    }
}

/// A file without pages, which lie elsewhere; and the root of the crate without what a file that is included cannot have,
/// inner documentation and attributes.
fn without_inner(text: &str, is_root: bool) -> String {
    let is_inner = |line: &&str| match is_root {
        true => line.starts_with("//!") || line.starts_with("#!["),
        false => line.starts_with("#![doc = include_str!"),
    };
    text.lines().map(|line| if is_inner(&line) { "" } else { line }).collect::<Vec<_>>().join("\n")
}

fn main() {
    for changed in ["build.rs", "patches.rs", "faults.txt", "probe.rs", "../../src"] {
        println!("cargo::rerun-if-changed={changed}");
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let source = Path::new("../../src");
    let read = |path: PathBuf| fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let write = |path: PathBuf, text: String| {
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    _ = fs::remove_dir_all(out.join("src")); // a file may be gone since the last build
    let patches = Patch::read(&read("faults.txt".into())).unwrap_or_else(|error| panic!("faults.txt: {error}"));
    let mut all = Vec::new();
    files(source, Path::new(""), &mut all);
    for file in &all {
        let name = file.to_str().expect("UTF-8").replace('\\', "/");
        let patched = Patch::apply(&patches, &name, &read(source.join(file)));
        let patched = patched.unwrap_or_else(|error| panic!("faults.txt: {error}"));
        write(out.join("src").join(file), without_inner(&patched, name == "lib.rs"));
    }
    for replaced in patches.iter().flat_map(|patch| &patch.replacements) {
        assert!(all.iter().any(|file| file == Path::new(&replaced.file)), "faults.txt: no file src/{}", replaced.file);
    }
    let (probe, place) = (read("probe.rs".into()), "    // The faults of faults.txt.\n");
    assert_eq!(probe.matches(place).count(), 1, "probe.rs: the place of the faults in faults.txt");
    write(out.join("src/noise/probe.rs"), probe.replace(place, &Patch::variants(&patches)));
}
