//! Mistakes, rendered like the compiler's own. `BLESS=1` refreshes the files under `golden`.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod text;

use selvedge_compiler::compile::plan;
use selvedge_compiler::ir::{GraphIr, Origin, Plan, TaskId, ValueId};
use selvedge_compiler::validate::validate;
use selvedge_compiler::{Code, CompileError, Diagnostic, SourceLocation};
use text::{golden, graph, settings};

fn codes(text: &str) -> Vec<String> {
    validate(&graph(text))
        .into_iter()
        .map(|found| format!("{} {}", found.code, found.message))
        .collect()
}

fn in_program(line: u32, column: u32) -> SourceLocation {
    SourceLocation {
        file: "tests/golden/program.rs".into(),
        line,
        column,
    }
}

#[test]
fn dag_20_dangling_tasks_are_listed() {
    let found = codes("actor a on 1\nactor b on 2\ninput x\nu = a.f(x)\nv = b.g(u)\nw = b.g(u)\nreturn u");
    assert_eq!(
        found,
        [
            "D0103 the result of `b.g` is never used, so errors in it would be lost",
            "D0103 the result of `b.g#2` is never used, so errors in it would be lost"
        ]
    );
}

#[test]
fn dag_20_a_task_that_only_feeds_dangling_tasks_is_not_listed() {
    let found = codes("actor a on 1\ninput x\nu = a.f(x)\nv = a.g(u)\nw = a.f(x)\nreturn w");
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("`a.g`"), "{found:?}");
}

#[test]
fn dag_20_parts_that_nobody_uses_are_listed() {
    let found = codes("actor a on 1\ninput x\np q r = a.pair(x)\nreturn q");
    assert_eq!(
        found,
        ["D0103 parts 0, 2 of the result of `a.pair` are never used, so errors in it would be lost"]
    );
    let found = codes("actor a on 1\ninput x y\np q = a.pair(x)\nreturn y");
    assert_eq!(
        found,
        ["D0103 the result of `a.pair` is never used, so errors in it would be lost"]
    );
}

#[test]
fn dag_20_a_whole_that_is_used_stands_for_its_parts() {
    let mut graph = graph("actor a on 1\ninput x\np q = a.pair(x)\nreturn q");
    graph.outputs.push(ValueId(1));
    assert_eq!(validate(&graph), []);
}

#[test]
fn dag_21_unused_inputs_are_listed() {
    let found = codes("actor a on 1\ninput x y z\nu = a.f(y)\nreturn u");
    assert_eq!(
        found,
        [
            "D0104 input 0 of the graph is never used",
            "D0104 input 2 of the graph is never used"
        ]
    );
    // An input of which one part is used.
    let mut split = graph("actor a on 1\ninput x\nu = a.f(x)\nreturn u");
    for part in 0..2 {
        let value = split.values[0].clone();
        split.values.push(selvedge_compiler::ir::ValueIr {
            part: Some(part),
            ..value
        });
    }
    split.tasks[0].args = vec![selvedge_compiler::ir::ArgIr::Value(ValueId(2))];
    assert_eq!(
        validate(&split)[0].message,
        "part 1 of input 0 of the graph is never used"
    );
}

#[test]
fn dag_18_a_task_of_constants_only_is_refused() {
    let found = codes("actor a on 1\ninput x\nu = a.f(#)\nv = a.g(x, u)\nreturn v");
    assert_eq!(
        found,
        ["D0102 `a.f` takes no edge, so nothing would ever start it"]
    );
}

#[test]
fn dag_03_a_graph_without_output_is_refused() {
    let found = codes("input x");
    assert_eq!(
        found,
        [
            "D0104 input 0 of the graph is never used",
            "D0110 the graph has no output"
        ]
    );
}

#[test]
fn dag_20_all_mistakes_are_told_at_once_and_in_the_order_of_the_program() {
    let text = "actor a on 1\ninput x y\nu = a.f(#)\nv = a.g(x)\nw = a.h(x)\nreturn w";
    let error = plan(graph(text), settings(1)).unwrap_err();
    let codes: Vec<Code> = error.diagnostics.iter().map(|found| found.code).collect();
    assert_eq!(
        codes,
        [
            Code::UnusedInput,
            Code::Dangling,
            Code::NoInputEdge,
            Code::Dangling
        ]
    );
}

#[test]
fn dag_15_what_no_binding_makes_is_refused_before_anything_looks_at_it() {
    let good = graph("actor a on 1\ninput x\nu = a.f(x)\nv = a.g(u)\nreturn v");
    let refused = |change: &dyn Fn(&mut GraphIr)| {
        let mut graph = good.clone();
        change(&mut graph);
        let found = validate(&graph);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, Code::Internal);
        assert!(plan(graph, settings(1)).is_err());
    };
    refused(&|graph| graph.tasks.swap(0, 1));
    refused(&|graph| graph.outputs.push(ValueId(99)));
    refused(&|graph| graph.values[1].origin = Origin::Task(TaskId(99)));
    refused(&|graph| graph.values[0].origin = Origin::Input(99));
    refused(&|graph| graph.actors.clear());
}

#[test]
fn dag_20_a_mistake_is_shown_at_the_users_line() {
    let unused = Diagnostic::new(
        Code::Dangling,
        "the result of `tok.count` is never used",
        in_program(7, 21),
    )
    .labelled("nobody reads this");
    // The column counts characters, not bytes.
    let after_greek = Diagnostic::new(
        Code::NestedSplit,
        "a part of a tuple is split again",
        in_program(8, 43),
    );
    let constant = Diagnostic::new(
        Code::NoInputEdge,
        "`shard.fixed` takes no edge",
        in_program(9, 15),
    )
    .labelled("all its arguments are constants");
    let error = CompileError {
        diagnostics: vec![unused, after_greek, constant],
    };
    golden("shown.txt", &error.to_string());
    assert_eq!(
        format!("{error:?}"),
        error.to_string(),
        "`main` prints errors with Debug"
    );
}

#[test]
fn dag_20_without_the_source_the_line_is_named() {
    let elsewhere = SourceLocation {
        file: "/no/such/place/main.rs".into(),
        line: 3,
        column: 9,
    };
    let past_the_end = in_program(900, 1);
    let first = Diagnostic::new(Code::Dangling, "the result of `a.f` is never used", elsewhere)
        .labelled("nobody reads it");
    let second = Diagnostic::new(
        Code::UnusedInput,
        "input 0 of the graph is never used",
        past_the_end,
    );
    golden(
        "named.txt",
        &CompileError {
            diagnostics: vec![first, second],
        }
        .to_string(),
    );
}

#[test]
fn dag_20_of_very_many_mistakes_the_rest_is_counted() {
    let one = |task: usize| Diagnostic::new(Code::Dangling, format!("task {task}"), text::at(task));
    let error = CompileError {
        diagnostics: (0..60).map(one).collect(),
    };
    let text = error.to_string();
    assert!(
        text.contains("task 49") && !text.contains("task 50") && text.ends_with("… and 10 more"),
        "{text}"
    );
}

#[test]
fn dag_20_codes_are_stable_and_unique() {
    let codes = [
        (Code::MixedGraphs, "D0101"),
        (Code::NoInputEdge, "D0102"),
        (Code::Dangling, "D0103"),
        (Code::UnusedInput, "D0104"),
        (Code::ActorBusy, "D0105"),
        (Code::ActorDead, "D0106"),
        (Code::ForeignActor, "D0107"),
        (Code::InvalidOption, "D0108"),
        (Code::Deadlock, "D0109"),
        (Code::NoOutput, "D0110"),
        (Code::OutOfMemory, "D0111"),
        (Code::LoadFailed, "D0112"),
        (Code::NestedSplit, "D0113"),
        (Code::BadConstant, "D0114"),
        (Code::Internal, "D0199"),
    ];
    for (code, text) in codes {
        assert_eq!(code.to_string(), text);
        assert!(!code.help().is_empty());
    }
}

fn sample() -> Plan {
    let text = "actor tok on 1\nactor s0 on 2@1\nactor s1 on 3@2\nactor sum on 0\ninput text scale\n\
                ids = tok.encode(text)\na = s0.forward(ids, scale)\nb = s1.forward(ids, #)\n\
                lo hi = sum.merge(a, b)\nreturn lo, hi, ids";
    plan(graph(text), settings(2)).unwrap()
}

#[test]
fn dag_50_a_plan_describes_tasks_channels_and_schedules() {
    golden("describe.txt", &sample().describe());
}

#[test]
fn dag_50_a_plan_prints_as_dot() {
    golden("plan.dot", &sample().to_dot());
    golden("plan.mmd", &sample().to_mermaid());
}

#[test]
fn graph_21_every_stage_can_be_shown() {
    let graph = graph("actor a on 1\nactor b on 2@1\ninput x\nu = a.f(x)\nv = b.g(u, x)\nreturn v");
    golden(
        "explain.txt",
        &selvedge_compiler::compile::explain(&graph, &settings(2)).unwrap(),
    );
}
