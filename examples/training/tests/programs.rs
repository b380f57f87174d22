//! Runs the training by ranks as a user does.
#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot set up has failed

use std::process::{Command, Output};

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_train_allreduce"));
    command.env_remove("RAYON_NUM_THREADS");
    command
}

/// Returns the value on the line that begins with `name`.
fn line(output: &Output, name: &str) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}{stderr}");
    let found = stdout.lines().find_map(|line| line.strip_prefix(name));
    found
        .unwrap_or_else(|| panic!("no {name} in {stdout}"))
        .trim()
        .to_owned()
}

#[test]
fn training_by_several_ranks_is_training_by_one() {
    for (ranks, placement) in [("2", "thread"), ("3", "process")] {
        let arguments = ["--ranks", ranks, "--placement", placement, "--steps", "60"];
        let output = program().args(arguments).output().unwrap();
        assert_eq!(line(&output, "ranks"), format!("{ranks}, {placement}"));
        assert_eq!(line(&output, "models"), "equal bit for bit");
        let apart = line(&output, "plain loop   losses of 60 steps differ by");
        let apart: f64 = apart.strip_suffix(" at most").unwrap().parse().unwrap();
        assert!(apart <= 1e-5, "{apart}");
        let accuracy = line(&output, "accuracy");
        assert!(
            accuracy
                .strip_suffix(" on held-out digits")
                .unwrap()
                .parse::<f64>()
                .unwrap()
                > 0.5
        );
    }
    let output = program().args(["--ranks", "0"]).output().unwrap();
    assert!(!output.status.success());
}
