//! include/dpb.h is what cbindgen makes of src/ffi today. `DPB_BLESS=1 cargo test --test header`
//! writes it anew.

/// In the header's order.
const FILES: &[&str] = &["status", "config", "bandit", "report", "counter", "stopping", "shuffle", "local"];

#[test]
fn the_header_has_not_drifted() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let path = format!("{root}/include/dpb.h");
    let mut config = cbindgen::Config::from_file(format!("{root}/cbindgen.toml")).unwrap();
    let (version, abi) = versions(&std::fs::read_to_string(format!("{root}/Cargo.toml")).unwrap());
    let macros = config.after_includes.unwrap().replace("{VERSION}", &version).replace("{ABI_VERSION}", &abi);
    config.after_includes = Some(macros);
    let mut fresh = Vec::new();
    // The files of the interface only: nothing else of the crate may appear in the header.
    let builder = FILES.iter().fold(cbindgen::Builder::new().with_config(config), |builder, file| {
        builder.with_src(format!("{root}/src/ffi/{file}.rs"))
    });
    builder.generate().unwrap().write(&mut fresh);
    let fresh = String::from_utf8(fresh).unwrap();
    if std::env::var_os("DPB_BLESS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == fresh, "include/dpb.h has drifted: DPB_BLESS=1 cargo test --test header");
}

/// Of the library, from its manifest: "0.1.0", and major << 16 | minor.
fn versions(manifest: &str) -> (String, String) {
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"')).unwrap();
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap());
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    (version.to_owned(), (major << 16 | minor).to_string())
}
