//! Builds the faults in that tests must notice. A flag of this package alone: no feature could switch it on elsewhere.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=dpb_faults");
}
