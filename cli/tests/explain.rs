//! Tests of `selvedge explain`, run as a user runs it.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

use selvedge::prelude::*;

fn explain(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_selvedge"))
        .arg("explain")
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

struct Double;

#[actor]
impl Double {
    pub fn new() -> Self {
        Double
    }

    pub fn double(&mut self, x: i64) -> i64 {
        2 * x
    }
}

/// A file with the plan of two actors that share a lane, where the second needs the first by way of a third.
fn plan(name: &str, change: impl FnOnce(&mut selvedge::Plan)) -> PathBuf {
    let runtime = Runtime::new();
    let lane = runtime.lane("shared");
    let spawn = |name: &str| runtime.spawn::<Double>(name, ());
    let (a, b) = (
        spawn("a").in_lane(&lane).unwrap(),
        spawn("b").in_lane(&lane).unwrap(),
    );
    let c = spawn("c").in_thread().unwrap();
    let graph = runtime
        .compile(|x: Edge<i64>| b.double(&c.double(&a.double(&x))))
        .unwrap();
    let mut plan = graph.plan().clone();
    change(&mut plan);
    let file = std::env::temp_dir().join(format!("selvedge-explain-{}-{name}.json", std::process::id()));
    std::fs::write(&file, plan.to_json()).unwrap();
    file
}

#[test]
fn a_code_has_a_page_and_no_code_a_list() {
    let page = text(&explain(&["D0103"]).stdout);
    assert!(page.starts_with("D0103: a result that nobody uses"), "{page}");
    assert!(page.contains("// D0103 at `a.echo`"), "an example: {page}");
    let none = explain(&["D0207"]);
    assert!(!none.status.success());
    assert!(text(&none.stderr).contains("there is no D0207; the codes are D0101, D0102"));
    let drawn = explain(&["D0103", "--format", "dot"]);
    assert!(!drawn.status.success());
    assert!(
        text(&drawn.stderr).contains("the page of D0103 is text"),
        "{}",
        text(&drawn.stderr)
    );
}

#[test]
fn a_plan_is_explained_in_words_and_drawn() {
    let file = plan("good", |_| ());
    let path = file.to_str().unwrap();
    let words = text(&explain(&[path]).stdout);
    for part in [
        "operations",
        "schedules",
        "one execution alone",
        "a linear order of 9 moments",
        "throughput",
    ] {
        assert!(words.contains(part), "{part} in {words}");
    }
    for (format, begin) in [
        ("dot", "digraph"),
        ("mermaid", "flowchart"),
        ("svg", "<svg"),
        ("html", "<!doctype"),
    ] {
        let drawn = text(&explain(&[path, "--format", format]).stdout);
        assert!(drawn.starts_with(begin), "{drawn}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn a_plan_that_would_wait_for_ever_is_drawn_with_what_resolves_it() {
    let file = plan("dead", |plan| {
        let shared = plan.lanes.iter_mut().find(|lane| lane.steps.len() == 6).unwrap();
        shared.steps.rotate_left(3);
    });
    let refused = explain(&[file.to_str().unwrap()]);
    assert!(!refused.status.success());
    let words = text(&refused.stderr);
    for part in [
        "error[D0109]",
        "stands at READ 0 of `b.double`",
        "waits over `c.double`",
        "repair: on lane",
    ] {
        assert!(words.contains(part), "{part} in {words}");
    }
    std::fs::remove_file(file).unwrap();
}

#[test]
fn what_is_no_plan_is_said_to_be_none() {
    let missing = explain(&["/no/such/file.json"]);
    assert!(text(&missing.stderr).contains("cannot read /no/such/file.json"));
    let file = std::env::temp_dir().join(format!("selvedge-explain-{}-none.json", std::process::id()));
    std::fs::write(&file, "{\"graph\": 1}").unwrap();
    let refused = explain(&[file.to_str().unwrap()]);
    assert!(!refused.status.success() && text(&refused.stderr).contains("not a plan"));
    std::fs::remove_file(file).unwrap();
}

#[test]
fn text_that_a_full_disk_does_not_take_is_an_error_and_a_closed_pipe_is_none() {
    let command = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
        command.args(["explain", "D0103"]);
        command
    };
    let full = std::fs::File::create("/dev/full").unwrap();
    let output = command().stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("takes no more"),
        "{}",
        text(&output.stderr)
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = command().stdout(writer).output().unwrap();
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(0), String::new())
    );
}
