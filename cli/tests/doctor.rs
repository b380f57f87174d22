//! Tests of `selvedge doctor`, run as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn the_doctor_says_what_there_is_and_what_is_missing() {
    let output = Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .arg("doctor")
        .output()
        .unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "cores      ",
        "kernel     Linux ",
        "memory     can be shared between processes",
        "deaths     ",
        "CUDA       ",
    ] {
        assert!(
            text.lines().any(|found| found.starts_with(line)),
            "{line}: {text}"
        );
    }
}
