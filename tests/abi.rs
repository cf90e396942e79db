//! The C interface's binary form against packaging/libdpb.abi, that of the last release (until there is one, today's):
//! every function's type and every struct, with sizes and offsets, as libabigail reads them from debug information.
//! The header says what the library has (header.rs), and so does the list of its symbols (package.rs). An intended
//! change is made the new baseline by `DPB_BLESS=1 cargo test -p dpb-tests --test suite abi::`.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support::{functions, have, root, run, text};
use std::path::{Path, PathBuf};
use std::process::Command;

const BASELINE: &str = "packaging/libdpb.abi";

/// Of a header's functions: a variable of each one's type, as only a definition has debug information.
fn abi(name: &str, header: &str, functions: &[String]) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abi").join(name);
    std::fs::create_dir_all(&place).unwrap();
    // Without its own checks of sizes, which would stop an altered one.
    std::fs::write(place.join("dpb.h"), header.replace("sizeof(type) == (size)", "1")).unwrap();
    let variables: String = functions.iter().map(|name| format!("__typeof__(&{name}) type_of_{name};\n")).collect();
    std::fs::write(place.join("abi.c"), format!("#include \"dpb.h\"\n{variables}")).unwrap();
    let mut cc = Command::new("cc");
    cc.current_dir(&place).args(["-g", "-shared", "-fPIC", "abi.c", "-o", "abi.so"]);
    run(&mut cc);
    let options = ["--no-architecture", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed"];
    run(Command::new("abidw").current_dir(&place).args(options).args(["--out-file", "dpb.abi", "abi.so"]));
    place.join("dpb.abi")
}

/// What abidiff says of two; nothing where they are the same.
fn difference(old: &Path, new: &Path) -> String {
    let output = Command::new("abidiff").arg("--harmless").args([old, new]).output().unwrap();
    assert!(output.status.code().is_some_and(|code| code & 3 == 0), "{}", text(&output)); // an error, wrong arguments
    assert_eq!(output.status.success(), output.stdout.is_empty());
    text(&output)
}

#[test]
fn the_binary_interface_is_the_baselines() {
    if !have("cc") || !have("abidw") || !have("abidiff") {
        return;
    }
    let header = std::fs::read_to_string(root().join("include/dpb.h")).unwrap();
    let today = abi("today", &header, &functions());
    if std::env::var_os("DPB_BLESS").is_some() {
        std::fs::copy(&today, root().join(BASELINE)).unwrap();
    }
    let baseline = root().join(BASELINE);
    let changed = difference(&baseline, &today);
    assert!(changed.is_empty(), "the binary interface has changed:\n{changed}");

    // What must be seen: a field of another size, one more field, a function that is gone, another argument.
    let changes: [(&str, &str, &str); 3] = [
        ("field", "uint64_t horizon;", "uint32_t horizon;"),
        ("more", "uint64_t horizon;", "uint64_t horizon, more;"),
        ("argument", "dpb_ticket_node(uint64_t", "dpb_ticket_node(uint32_t"),
    ];
    for (name, from, to) in changes {
        let changed = header.replacen(from, to, 1);
        assert_ne!(changed, header, "{from}");
        assert!(!difference(&baseline, &abi(name, &changed, &functions())).is_empty(), "{name} is not seen");
    }
    let fewer: Vec<_> = functions().into_iter().filter(|name| name != "dpb_cancel").collect();
    assert!(!difference(&baseline, &abi("fewer", &header, &fewer)).is_empty());
}
