//! The flags that every program understands, as a user passes them to a program: this test runs itself as that program.

use std::process::{Command, Output};

use crate::actors::counter;
use selvedge::Plan;
use selvedge::prelude::*;

/// The environment variable that makes this test act as the user's program.
const ENV_PROGRAM: &str = "SELVEDGE_TEST_PROGRAM";

/// The user's program: a graph over a thread and a process.
fn program() {
    let runtime = Runtime::new();
    let (a, b) = (
        counter(&runtime, "a", Placement::Thread),
        counter(&runtime, "b", Placement::Process),
    );
    let kind = std::env::var(ENV_PROGRAM).unwrap();
    if kind == "workers" {
        let names = runtime.requested_workers().map(|workers| {
            let names = workers.iter().map(|worker| worker.name().to_owned());
            names.collect::<Vec<_>>().join(", ")
        });
        return println!("{names:?}");
    }
    if kind == "ranks" {
        let sum = |x: Edge<i64>| allreduce(ReduceOp::Sum, [a.echo(&x), b.echo(&x)]);
        match runtime.compile(sum) {
            Ok(_) => println!("result"),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    let broken = kind == "broken";
    let graph = runtime.compile_with(Options::new().named("mine"), |x: Edge<i64>| {
        if broken {
            let _ = a.echo(&x);
        }
        b.inc(&a.scale(&x, 2))
    });
    match graph {
        Ok(graph) => {
            for x in 1..=3 {
                println!("result {}", graph.execute(x).wait().unwrap());
            }
        }
        Err(error) => println!("refused: {error}"),
    }
}

/// Runs this test as the user's program, with `flags` behind libtest's own arguments.
fn run(kind: &str, flags: &[&str]) -> Output {
    program_of(kind).args(flags).output().unwrap()
}

fn program_of(kind: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "flags::the_users_program",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(ENV_PROGRAM, kind);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_users_program() {
    if std::env::var_os(ENV_PROGRAM).is_some() {
        program();
    }
}

/// The output after libtest's first line.
fn printed(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let all = text(&output.stdout);
    let begin = all.find("running 1 test").unwrap();
    all[begin + "running 1 test".len()..].trim_start().to_owned()
}

#[test]
fn a_graph_is_printed_in_every_format_and_nothing_is_executed() {
    let expected: [(&str, &str); 6] = [
        ("--selvedge-graph", "graph mine"),
        ("--selvedge-graph=dot", "digraph \"mine\""),
        ("--selvedge-graph=mermaid", "flowchart LR"),
        ("--selvedge-graph=json", "\"graph\": \"mine\""),
        ("--selvedge-graph=svg", "<svg "),
        ("--selvedge-graph=html", "<!doctype html>"),
    ];
    for (flag, begin) in expected {
        let printed = printed(&run("whole", &[flag]));
        assert!(printed.contains(begin), "{flag}: {printed}");
        assert!(!printed.contains("result"), "{flag} executed something");
    }
    let json = printed(&run("whole", &["--selvedge-graph=json"]));
    let json = &json[json.find('{').unwrap()..];
    let plan = Plan::from_json(json).unwrap();
    assert_eq!((plan.graph.as_str(), plan.ir.tasks.len()), ("mine", 2));
}

#[test]
fn a_graph_is_checked() {
    let printed = printed(&run("whole", &["--selvedge-check"]));
    assert!(printed.contains("graph mine: 2 tasks, 3 lanes"), "{printed}");
    assert!(
        printed.contains("live: 6 moments in one order, checked"),
        "{printed}"
    );
    assert!(!printed.contains(" us"), "nothing has been measured: {printed}");
    assert!(!printed.contains("result"));
    let refused = run("broken", &["--selvedge-check"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("error[D0103]"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn a_graph_that_no_run_would_accept_is_not_called_live() {
    let checked = printed(&run("ranks", &["--selvedge-check"]));
    assert!(checked.contains("live: "), "{checked}");
    for flag in ["--selvedge-check", "--selvedge-graph"] {
        let mut unknown = program_of("ranks");
        let refused = unknown.env("SELVEDGE_COMMUNICATOR", "tyo").arg(flag).output();
        let refused = refused.unwrap();
        let told = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{flag}: {told}");
        assert!(told.contains("D0118") && told.contains("`tyo`"), "{flag}: {told}");
    }
}

#[test]
fn a_format_that_is_none_is_said_to_be_none() {
    let refused = run("whole", &["--selvedge-graph=png"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("text, dot, mermaid, json, svg, html"));
}

#[test]
fn a_flag_that_is_none_is_refused_by_name_and_nothing_is_executed() {
    for flag in ["--selvedge-foo", "--selvedge-graph=", "--selvedge-trace="] {
        let refused = run("whole", &[flag]);
        assert_eq!(refused.status.code(), Some(2), "{flag}");
        assert!(
            text(&refused.stderr).contains(&format!("`{flag}`")),
            "{}",
            text(&refused.stderr)
        );
        assert!(!text(&refused.stdout).contains("result"));
    }
}

#[test]
fn a_variable_that_is_none_is_refused_by_name() {
    let refused = program_of("whole").env("SELVEDGE_TIMEOUT", "5").output().unwrap();
    let printed = printed(&refused);
    assert!(
        printed.contains("refused: ") && printed.contains("`SELVEDGE_TIMEOUT`"),
        "{printed}"
    );
    assert!(!printed.contains("result 2"), "{printed}");
}

#[test]
fn help_lists_the_flags_and_the_variables() {
    let help = run("whole", &["--selvedge-help"]);
    assert_eq!(help.status.code(), Some(0));
    let help = text(&help.stdout);
    for name in [
        "--selvedge-graph",
        "--selvedge-check",
        "--selvedge-trace",
        "SELVEDGE_TIMEOUT_MS",
    ] {
        assert!(help.contains(name), "{help}");
    }
    let full = std::fs::File::create("/dev/full").unwrap();
    let mut lost = program_of("whole");
    let lost = lost.arg("--selvedge-help").stdout(full).output().unwrap();
    assert_eq!(lost.status.code(), Some(1));
    assert!(text(&lost.stderr).contains("takes no more"));
}

#[test]
fn a_trace_is_written_when_the_graph_ends_and_the_program_runs_as_ever() {
    let folder = std::env::temp_dir().join(format!("selvedge-flags-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, begin) in [
        ("trace.json", "{\"displayTimeUnit\""),
        ("trace.html", "<!doctype html>"),
        ("trace.svg", "<svg "),
    ] {
        let file = folder.join(name);
        let output = run("whole", &[&format!("--selvedge-trace={}", file.display())]);
        let printed = printed(&output);
        assert!(
            printed.contains("result 2") && printed.contains("result 12"),
            "{printed}"
        );
        let trace = std::fs::read_to_string(&file).unwrap();
        assert!(trace.starts_with(begin), "{trace}");
        assert!(trace.contains("a.scale") && trace.contains("COMPUTE"), "{trace}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn without_flags_nothing_is_different() {
    let output = run("whole", &[]);
    assert!(printed(&output).contains("result 2"));
}

#[test]
fn jclust_01_a_flag_asks_for_workers_on_this_host() {
    assert!(printed(&run("workers", &[])).contains("Ok(\"\")"));
    let two = printed(&run("workers", &["--selvedge-workers=2"]));
    assert!(two.contains("Ok(\"worker 1, worker 2\")"), "{two}");
    let cores = std::thread::available_parallelism().unwrap().get();
    let auto = printed(&run("workers", &["--selvedge-workers=auto"]));
    assert_eq!(auto.matches("worker ").count(), cores);
    let wrong = run("workers", &["--selvedge-workers=none"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("needs a number of workers"));
    let variable = program_of("workers")
        .env("SELVEDGE_WORKERS", "0")
        .output()
        .unwrap();
    assert!(printed(&variable).contains("environment variable `SELVEDGE_WORKERS`"));
}
