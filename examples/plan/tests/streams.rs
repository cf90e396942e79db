//! A long log takes no more memory than a short one. A program of its own, because it measures the process.

#[path = "../main.rs"]
#[allow(dead_code, reason = "this test takes a part of the program")]
mod plan;

use std::io::Write;
use std::path::Path;

#[test]
#[ignore = "ten million lines"]
#[cfg(target_os = "linux")]
fn ten_million_lines_stream() {
    const LINES: u64 = 10_000_000;
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = place.join("long.csv");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    writeln!(file, "arm,propensity,reward").unwrap();
    for line in 0..LINES {
        writeln!(file, "{},0.25,{}", line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62, line % 7 / 6).unwrap();
    }
    file.into_inner().unwrap();
    let arguments =
        ["--log", path.to_str().unwrap(), "--out", place.to_str().unwrap(), "--epsilon", "1", "--policy", "dp-imed"];
    let options = plan::Options::parse(lexopt::Parser::from_args(arguments)).unwrap().unwrap();
    let said = plan::plan(&options).unwrap();
    assert!(said.contains("10,000,000 decisions, 4 arms"), "{said}");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    // The file has 140 MB.
    assert!(kilobytes < 50_000, "{peak}");
    std::fs::remove_file(path).unwrap();
}
