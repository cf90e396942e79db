//! Builds the library with the faults that tests must detect. Only this package sets the flag: no feature of another
//! package can.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=dpb_faults");
}
