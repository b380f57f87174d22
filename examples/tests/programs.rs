//! Runs the examples as a user does.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod built;

use std::process::{Command, Output};

use built::example;
use safetensors::tensor::{Dtype, TensorView};
use selvedge_examples::weights::LAYERS;

fn program(name: &str) -> Command {
    Command::new(example(name))
}

fn digits(arguments: &[&str]) -> Output {
    program("digits").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns the value on the line that begins with `name`.
fn line(output: &Output, name: &str) -> String {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let found = stdout.lines().find_map(|line| line.strip_prefix(name));
    found
        .unwrap_or_else(|| panic!("no {name} in {stdout}"))
        .trim()
        .to_owned()
}

#[test]
fn pipeline_refuses_arguments_that_it_does_not_have() {
    let output = program("pipeline").arg("--nonsense").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("unexpected argument '--nonsense'"));
}

#[test]
fn hello_counts_tokens() {
    let output = program("hello").output().unwrap();
    assert_eq!(text(&output.stdout), "5 tokens\n", "{}", text(&output.stderr));
}

#[test]
fn remote_estimates_pi() {
    let output = program("remote").output().unwrap();
    let wanted = "pi is about 3.14\npowers of 10: [Some(10), Some(100)]\n";
    assert_eq!(text(&output.stdout), wanted, "{}", text(&output.stderr));
}

#[test]
fn jchan_15_twelve_jobs_over_four_workers_come_back_once() {
    let output = program("job_queue").output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    let lines: std::collections::BTreeSet<&str> = stdout.lines().collect();
    assert_eq!((lines.len(), stdout.lines().count()), (12, 12), "{stdout}");
    for line in ["job 5: 6765", "job 12: 17711", "job 4: 46368"] {
        assert!(lines.contains(line), "{stdout}");
    }
}

#[test]
fn jsa_15_advection_by_rows_is_equal_serially_step_by_step_and_in_one_call() {
    let output = program("advection").arg("20").output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(
        stdout.ends_with("all three are equal\n") && stdout.lines().count() == 4,
        "{stdout}"
    );
}

#[test]
fn jext_01_the_ranks_of_four_processes_add_up_to_six() {
    let output = program("mpi").output().unwrap();
    let wanted = "the sum of all ranks, at rank 0: 6\n";
    assert_eq!(text(&output.stdout), wanted, "{}", text(&output.stderr));
}

#[test]
fn jext_04_the_power_method_is_one_function_for_local_distributed_and_shared_arrays() {
    let output = program("power_method").output().unwrap();
    let values = ["local", "distributed", "shared"].map(|name| line(&output, name));
    assert!(values[0].starts_with("2.18"), "{values:?}");
    assert_eq!([&values[1], &values[2]], [&values[0]; 2]);
}

#[test]
fn the_predictions_are_equal_at_every_placement_and_the_accuracy_is_reached() {
    let outputs: Vec<Output> = ["inline", "thread", "process"]
        .iter()
        .flat_map(|placement| ["1", "10"].map(|inflight| (placement, inflight)))
        .map(|(placement, inflight)| {
            let output = digits(&["--placement", placement, "--inflight", inflight, "--rounds", "2"]);
            assert_eq!(
                line(&output, "placement"),
                format!("{placement}, {inflight} in flight")
            );
            assert_eq!(line(&output, "rounds"), "2 over 359 held-out digits");
            assert!(line(&output, "executions").starts_with("46, "));
            output
        })
        .collect();
    for output in &outputs {
        assert_eq!(line(output, "predictions"), line(&outputs[0], "predictions"));
        assert!(line(output, "accuracy").parse::<f64>().unwrap() >= 0.92);
        assert_eq!(text(&output.stderr), "", "no progress bar without a terminal");
    }
}

#[test]
fn weights_that_cannot_be_used_end_the_program_with_the_reason() {
    let broken = std::env::temp_dir().join(format!("selvedge-{}-program.safetensors", std::process::id()));
    std::fs::write(&broken, "weights, honest").unwrap();
    for placement in ["thread", "process"] {
        let output = digits(&["--placement", placement, "--model", "/nowhere.safetensors"]);
        let wanted = "error: the constructor of actor `replica 0` failed: cannot read the weights \
                      /nowhere.safetensors: No such file or directory (os error 2)\n";
        assert_eq!(
            (output.status.code(), text(&output.stderr).as_str()),
            (Some(1), wanted)
        );
        let output = digits(&["--placement", placement, "--model", broken.to_str().unwrap()]);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.contains("is not a whole safetensors file"), "{stderr}");
    }
    std::fs::remove_file(broken).unwrap();
}

#[test]
fn weights_that_recognise_nothing_are_a_failure() {
    let zeroed: Vec<(&str, Vec<usize>, Vec<u8>)> = LAYERS
        .into_iter()
        .flat_map(|(weight, bias)| [weight, bias])
        .map(|it| {
            (
                it.name,
                it.shape.to_vec(),
                vec![0; 4 * it.shape.iter().product::<usize>()],
            )
        })
        .collect();
    let views = zeroed.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (*name, view.unwrap())
    });
    let path = std::env::temp_dir().join(format!("selvedge-{}-zeros.safetensors", std::process::id()));
    std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    let output = digits(&["--rounds", "1", "--model", path.to_str().unwrap()]);
    std::fs::remove_file(path).unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("is below 0.92"), "{stderr}");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    for (arguments, wanted) in [
        (
            ["--placement", "moon"],
            "unknown placement `moon`: use inline, thread or process",
        ),
        (["--rounds", "0"], "0 is not in 1.."),
        (["--inflight", "0"], "0 is not in 1.."),
        (["--models", "x"], "unexpected argument '--models'"),
    ] {
        let output = digits(&arguments);
        let stderr = text(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(stderr.contains(wanted), "{stderr}");
    }
}
