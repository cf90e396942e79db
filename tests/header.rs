//! What follows from the tables is equal to what table.rs writes, and include/dpb.h to the output of cbindgen for src/ffi.
//! `DPB_BLESS=1 cargo test -p dpb-tests --test header` writes both.

mod table;

/// The header's sections in order: a title, and the source files whose items follow it. Each file's constants and types
/// come before its functions. No other file of the crate may declare an item of the interface.
const SECTIONS: [(&str, &[&str]); 8] = [
    ("A bandit: its handle, decisions, rewards, snapshots", &["status", "bandit", "snapshot", "config", "fields"]),
    ("Requests, arms, users", &["request", "arms"]),
    ("What a bandit has learned and spent", &["report"]),
    ("Several bandits: fleets, one noise, a budget", &["fleet", "budget"]),
    ("The library's own policies", &["policies"]),
    ("Beside the bandits: private sums, stopping rules", &["counter", "stopping"]),
    ("Experimental, may change in any version: the shuffle model, the local model", &["shuffle", "local"]),
    ("The papers' policies, and baselines without privacy", &["papers"]),
];

#[test]
fn the_header_has_not_drifted() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let drifted = table::drifted(std::path::Path::new(root), std::env::var_os("DPB_BLESS").is_some());
    assert!(drifted.is_empty(), "{drifted:?} have drifted from the tables: DPB_BLESS=1 cargo test --test header");
    let mut config = cbindgen::Config::from_file(format!("{root}/cbindgen.toml")).unwrap();
    let (version, abi) = versions(&std::fs::read_to_string(format!("{root}/Cargo.toml")).unwrap());
    let header = config.header.take().unwrap().replace("{VERSION}", &version).replace("{ABI_VERSION}", &abi);
    let trailer = config.trailer.take().unwrap().replace("{CONFIG_SIZE}", &table::size_of_config().to_string());
    let mut items = String::new();
    for (title, files) in SECTIONS {
        items += &format!("\n/* {title}. {} */\n", "-".repeat(100 - title.len()));
        for file in files {
            let mut part = Vec::new();
            let builder = cbindgen::Builder::new().with_config(config.clone());
            builder.with_src(format!("{root}/src/ffi/{file}.rs")).generate().unwrap().write(&mut part);
            items += "\n";
            items += String::from_utf8(part).unwrap().trim_start();
        }
    }
    // With all names at the top, the items can be in the order of a reader.
    let (mut names, mut code) = (String::new(), String::new());
    for line in items.lines() {
        match line.strip_prefix("struct ") {
            Some(rest) => {
                let name = rest.trim_end_matches([' ', '{', ';']);
                // A handle has no fields, so its name has its comment: Doxygen requires one at the typedef.
                if rest.ends_with(';') {
                    names += &code.split_off(code.rfind("/**").unwrap());
                    code.truncate(code.trim_end().len());
                } else {
                    code += line;
                }
                names += &format!("typedef struct {name} {name};\n");
            }
            None => code += &line.replace("struct dpb_", "dpb_"),
        }
        code.push('\n');
    }
    let fresh = format!("{}\n{names}{code}{trailer}", header.trim());
    // The Go module has its own copy, because `go get` and `go mod vendor` take nothing from outside a package.
    for path in ["include/dpb.h", "bindings/go/dpb.h"].map(|path| format!("{root}/{path}")) {
        if std::env::var_os("DPB_BLESS").is_some() {
            std::fs::write(&path, &fresh).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == fresh, "{path} has drifted: DPB_BLESS=1 cargo test --test header");
    }
}

/// The library's version in its manifest: as text, such as "0.1.0", and as major << 16 | minor.
fn versions(manifest: &str) -> (String, String) {
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"')).unwrap();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap());
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    (version.to_owned(), (major << 16 | minor).to_string())
}
