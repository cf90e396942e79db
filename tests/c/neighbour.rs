//! A second Rust library, for a C program that also links libdpb.

/// Returns 1 if this library caught its own panic.
#[unsafe(no_mangle)]
pub extern "C" fn neighbour_panics() -> i32 {
    let out_of_bounds = || std::hint::black_box(Vec::<i32>::new())[3];
    std::panic::catch_unwind(out_of_bounds).is_err() as i32
}
