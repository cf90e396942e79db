//! Sets the soname of the shared library, on macOS its install name. Cargo sets none. A program that is linked against
//! a library without a soname records the path of the library at build time.
fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if matches!(target.as_str(), "linux" | "android" | "freebsd" | "netbsd" | "openbsd") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libdpb.so.0");
    } else if target == "macos" {
        // Without `-Wl,`: cc takes it so, and so does a linker that rustc calls itself.
        println!("cargo:rustc-cdylib-link-arg=-install_name");
        println!("cargo:rustc-cdylib-link-arg=@rpath/libdpb.0.dylib");
    }
}
