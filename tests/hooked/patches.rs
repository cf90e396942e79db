//! Patches: faults that lie in the library's lines, so that the library itself has no seam for them.
//!
//! A file of patches has entries like this one:
//!
//! ```text
//! StateKept: A state can be resumed at any age.
//! @ bandit/moving.rs
//! - age > Self::STATE_LIFETIME
//! + age > Self::STATE_LIFETIME && !FAULT
//! ```
//!
//! The name is that of a `Fault`. The text after `- ` is a part of a file below src/, or several lines of it, and stands
//! there exactly once. The text after `+ ` replaces it. In it, `FAULT` asks whether the fault is built in; a fault that is
//! asked for counts as applied, so ask last. An entry may have several replacements. One whose name is `Hook` is no fault:
//! it gives tests what they need. Lines that begin with `#` are comments.

/// The name of entries that are no faults.
pub const HOOK: &str = "Hook";

/// A fault, or a hook.
#[derive(Debug, PartialEq)]
pub struct Patch {
    pub name: String,
    pub text: String,
    pub replacements: Vec<Replacement>,
}

/// One place where a file is changed.
#[derive(Debug, PartialEq)]
pub struct Replacement {
    pub file: String,
    pub from: String,
    pub to: String,
}

impl Patch {
    /// Reads a file of patches.
    pub fn read(patches: &str) -> Result<Vec<Patch>, String> {
        let mut read: Vec<Patch> = Vec::new();
        let add = |text: &mut String, line: &str| {
            let separator = if text.is_empty() { "" } else { "\n" };
            *text = format!("{text}{separator}{line}");
        };
        for line in patches.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let bad = || format!("no patch: {line}");
            if let Some(file) = line.strip_prefix("@ ") {
                let last = read.last_mut().ok_or_else(bad)?;
                last.replacements.push(Replacement { file: file.into(), from: String::new(), to: String::new() });
            } else if let Some(rest) = line.strip_prefix(['-', '+']) {
                let last = read.last_mut().and_then(|patch| patch.replacements.last_mut()).ok_or_else(bad)?;
                let removed = line.starts_with('-');
                if removed && !last.to.is_empty() {
                    return Err(bad());
                }
                add(if removed { &mut last.from } else { &mut last.to }, rest.strip_prefix(' ').unwrap_or(rest));
            } else {
                let (name, text) = line.split_once(": ").ok_or_else(bad)?;
                read.push(Patch { name: name.into(), text: text.into(), replacements: Vec::new() });
            }
        }
        let empty = |r: &Replacement| r.from.is_empty() || r.to.is_empty();
        match read.iter().find(|patch| patch.replacements.is_empty() || patch.replacements.iter().any(empty)) {
            Some(patch) => Err(format!("{} replaces nothing", patch.name)),
            None => Ok(read),
        }
    }

    /// The variants of `Fault` that these patches are.
    pub fn variants(patches: &[Patch]) -> String {
        let faults = patches.iter().filter(|patch| patch.name != HOOK);
        faults.map(|Patch { name, text, .. }| format!("    /// {text}\n    {name},\n")).collect()
    }

    /// Applies these patches to a file.
    pub fn apply(patches: &[Patch], file: &str, source: &str) -> Result<String, String> {
        let mut patched = source.to_owned();
        for patch in patches {
            for Replacement { from, to, .. } in patch.replacements.iter().filter(|replaced| replaced.file == file) {
                let times = source.matches(from).count();
                if times != 1 || patched.matches(from).count() != 1 {
                    return Err(format!(
                        "{}: src/{file} has this {times} times, or another patch changes it:\n{from}",
                        patch.name
                    ));
                }
                let asks = format!("crate::noise::probe::Fault::{}.is_built_in()", patch.name);
                patched = patched.replacen(from, &to.replace("FAULT", &asks), 1);
            }
        }
        Ok(patched)
    }
}
