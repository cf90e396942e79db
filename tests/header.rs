//! include/dpb.h is equal to the output of cbindgen for src/ffi. `DPB_BLESS=1 cargo test --test header` writes it.

/// The header's sections in order: a title, and the source files whose items follow it. Each file's constants and types
/// come before its functions. No other file of the crate may declare an item of the interface.
const SECTIONS: [(&str, &[&str]); 3] = [
    ("The core: bandits", &["status", "config", "budget", "bandit", "request", "report", "snapshot", "fleet"]),
    ("Beside the bandits: private sums, stopping rules", &["counter", "stopping"]),
    ("Experimental, may change in any version: the shuffle model, the local model", &["shuffle", "local"]),
];

#[test]
fn the_header_has_not_drifted() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut config = cbindgen::Config::from_file(format!("{root}/cbindgen.toml")).unwrap();
    let (version, abi) = versions(&std::fs::read_to_string(format!("{root}/Cargo.toml")).unwrap());
    let header = config.header.take().unwrap().replace("{VERSION}", &version).replace("{ABI_VERSION}", &abi);
    let trailer = config.trailer.take().unwrap();
    let mut fresh = header.trim_start().to_owned();
    for (title, files) in SECTIONS {
        fresh += &format!("\n/* {title}. {} */\n", "-".repeat(100 - title.len()));
        for file in files {
            let mut part = Vec::new();
            let builder = cbindgen::Builder::new().with_config(config.clone());
            builder.with_src(format!("{root}/src/ffi/{file}.rs")).generate().unwrap().write(&mut part);
            fresh += "\n";
            fresh += String::from_utf8(part).unwrap().trim_start();
        }
    }
    fresh += &trailer;
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
