//! Estimates the cost of privacy for a service: `cargo run --release --example plan -- --help`.

use plan::{HELP, Options, plan};

fn main() {
    let done = Options::parse(lexopt::Parser::from_env()).and_then(|options| match options {
        Some(options) => plan(&options),
        None => Ok(format!("{HELP}\n")),
    });
    match done {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("plan: {error}");
            std::process::exit(2);
        }
    }
}
