//! The functions of C: rows of the macro `functions!` in src/ffi.

use std::collections::BTreeSet;

/// The code with the functions that its rows make, as cbindgen reads them: without what they do.
pub fn expanded(code: &str) -> String {
    let mut parts = code.split("functions! {\n");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let (rows, rest) = part.split_once("\n}\n").unwrap();
        for row in rows.split_inclusive(";\n\n") {
            let (docs, function) = row.split_once("    fn ").unwrap();
            let (signature, _) = function.split_once(')').unwrap();
            out += &format!(
                "{docs}#[unsafe(no_mangle)]\n#[must_use]\npub unsafe extern \"C\" fn {signature}) -> dpb_status {{}}\n\n"
            );
        }
        out += rest;
    }
    out
}

/// The list of tests/fuzz/statuses.rs: the signatures of all functions that return a status.
pub fn checked(code: &str) -> String {
    let mut list = String::new();
    for function in expanded(code).split("pub unsafe extern \"C\" fn ").skip(1) {
        if let Some((signature, _)) = function.split_once(" -> dpb_status {}") {
            list += &format!("    {};\n", signature.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    list
}

/// What tells Go that the C functions of its code keep no pointer and call nothing back: such a call costs less.
pub fn cgo(go: &str, ffi: &str) -> String {
    let is_ours = |name: &&str| ffi.contains(&format!("fn {name}(")) || go.contains(&format!(" dpb_status {name}("));
    let calls = go.split("C.").skip(1).filter_map(|rest| rest.split_once('('));
    let names: BTreeSet<&str> = calls.map(|(name, _)| name).filter(is_ours).collect();
    names.iter().map(|name| format!("#cgo noescape {name}\n#cgo nocallback {name}\n")).collect()
}
