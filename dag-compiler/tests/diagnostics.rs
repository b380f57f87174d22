//! Mistakes of users, rendered in the style of compiler errors. `BLESS=1` refreshes the files under `golden`.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic"
)]

mod text;

use std::collections::BTreeSet;

use selvedge_compiler::ir::{GraphIr, OpKind, Origin, Plan, Settings, TaskId, ValueId};
use selvedge_compiler::plan::compile::{plan, refused};
use selvedge_compiler::plan::validate::validate;
use selvedge_compiler::prove::repair::{Repair, repairs};
use selvedge_compiler::prove::{Refutation, prove};
use selvedge_compiler::{Code, CompileError, Diagnostic, SourceLocation};
use selvedge_core::HostId;
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

/// The error of several mistakes.
fn all(mistakes: impl IntoIterator<Item = Diagnostic>) -> CompileError {
    let mut mistakes = mistakes.into_iter();
    let mut error = CompileError::from(mistakes.next().unwrap());
    error.diagnostics.extend(mistakes);
    error
}

/// In another folder than its own, which has a file of the same name, a program quotes no line of that file.
#[test]
fn dag_20_a_file_of_the_folder_where_a_program_was_started_is_not_taken_for_its_own() {
    const NAME: &str = "src/of_another_package.rs";
    let location = SourceLocation {
        file: NAME.into(),
        line: 1,
        column: 1,
    };
    let mistake = Diagnostic::new(Code::Dangling, "a mistake", location);
    if std::env::var_os("STARTED_ELSEWHERE").is_some() {
        println!("{mistake}");
        return;
    }
    let folder = std::env::temp_dir().join(format!("selvedge-elsewhere-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("src")).unwrap();
    std::fs::write(folder.join(NAME), "another line\n").unwrap();
    let test = "dag_20_a_file_of_the_folder_where_a_program_was_started_is_not_taken_for_its_own";
    let said = std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env("STARTED_ELSEWHERE", "1")
        .env_remove("CARGO_MANIFEST_DIR")
        .current_dir(&folder)
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert!(said.contains("a mistake") && said.contains(NAME), "{said}");
    assert!(!said.contains("another line"), "{said}");
}

/// A location inside a word, or at a space, is of another text than this file has now.
#[test]
fn dag_20_a_line_that_does_not_fit_the_location_is_not_quoted() {
    for (column, is_quoted) in [(21, true), (22, false), (14, false), (13, true)] {
        let text = Diagnostic::new(Code::Dangling, "a mistake", in_program(7, column)).to_string();
        assert_eq!(text.contains("tok.count(&ids)"), is_quoted, "{text}");
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
    // An input with one unused part.
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
    let error = all([unused, after_greek, constant]);
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
    golden("named.txt", &all([first, second]).to_string());
}

#[test]
fn dag_20_of_very_many_mistakes_the_rest_is_counted() {
    let one = |task: usize| Diagnostic::new(Code::Dangling, format!("task {task}"), text::at(task));
    let error = all((0..60).map(one));
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
        (Code::OrderedLater, "D0115"),
        (Code::NoList, "D0116"),
        (Code::BadRanks, "D0117"),
        (Code::NoCommunicator, "D0118"),
        (Code::BadDevice, "D0119"),
        (Code::NotWire, "D0120"),
        (Code::NotShared, "D0121"),
        (Code::MixedValue, "D0122"),
        (Code::OtherHost, "D0123"),
        (Code::WholeTuple, "D0124"),
        (Code::NothingToOrder, "D0125"),
        (Code::InertOption, "D0126"),
        (Code::Internal, "D0199"),
    ];
    let known: BTreeSet<String> = Code::ALL.iter().map(Code::to_string).collect();
    let listed: BTreeSet<String> = codes.iter().map(|(_, text)| (*text).to_owned()).collect();
    assert_eq!(known.len(), Code::ALL.len(), "no two are alike");
    assert_eq!(known, listed);
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
        &selvedge_compiler::plan::compile::explain(&graph, &settings(2)).unwrap(),
    );
}

/// A graph whose tasks are bound at lines of the program shown above.
fn in_the_program(text: &str, lines: &[(u32, u32)]) -> GraphIr {
    let mut graph = graph(text);
    graph.compiled_at = in_program(5, 25);
    for (task, (line, column)) in graph.tasks.iter_mut().zip(lines) {
        task.bound_at = in_program(*line, *column);
    }
    graph
}

fn refusal(graph: GraphIr) -> Vec<Diagnostic> {
    plan(graph, settings(2)).unwrap_err().diagnostics
}

/// Every code as a user sees it. This test finds the mistakes that the compiler finds by itself; mistakes that need
/// actors, memory or another process are copied here in the words of their origin, and have tests of their own.
#[test]
fn dag_20_every_code_is_rendered_with_its_source_line() {
    let told = |code, message: &str, label: &str, (line, column)| {
        Diagnostic::new(code, message, in_program(line, column)).labelled(label)
    };
    let mut shown: Vec<Diagnostic> = vec![told(
        Code::MixedGraphs,
        "`shard.forward` takes an edge of another graph",
        "an edge of another call of `compile`",
        (8, 29),
    )];
    let constants =
        "actor tok on 1\nactor shard on 2\ninput x\nu = tok.encode(x)\nv = shard.fixed(#)\nreturn u, v";
    shown.extend(refusal(in_the_program(constants, &[(6, 23), (9, 15)])));
    let dangling = "actor tok on 1\ninput x\nu = tok.encode(x)\nv = tok.count(u)\nreturn u";
    shown.extend(refusal(in_the_program(dangling, &[(6, 23), (7, 21)])));
    let unused = "actor tok on 1\ninput x y\nu = tok.encode(x)\nreturn u";
    shown.extend(refusal(in_the_program(unused, &[(6, 23)])));
    shown.extend([
        told(
            Code::ActorBusy,
            "actor `tok` runs in graph `main.rs:5`",
            "",
            (5, 25),
        ),
        told(
            Code::ActorDead,
            "actor `tok` is dead: killed by signal 9",
            "",
            (5, 25),
        ),
        told(
            Code::ForeignActor,
            "actor `tok` belongs to another runtime",
            "",
            (6, 23),
        ),
        told(
            Code::InvalidOption,
            "option `slots` is 0; it must lie between 1 and 1048576",
            "",
            (5, 25),
        ),
    ]);
    let live = "actor tok on 1\nactor late on 1\nactor shard on 2\ninput x\n\
                u = tok.encode(x)\nv = shard.forward(u)\nw = late.count(v)\nreturn w";
    let mut dead = plan(in_the_program(live, &[(6, 23), (8, 29), (7, 21)]), settings(2)).unwrap();
    dead.lanes[1].steps.rotate_left(3);
    let Err(refutation) = prove(&dead) else {
        panic!("live")
    };
    shown.push(refused(&dead, &refutation));
    let nothing = "actor tok on 1\ninput x\nu = tok.encode(x)\nv = tok.count(u)";
    shown.extend(
        refusal(in_the_program(nothing, &[(6, 23), (7, 21)]))
            .into_iter()
            .filter(|it| it.code == Code::NoOutput),
    );
    shown.extend([
        told(
            Code::OutOfMemory,
            "68719476736 bytes of shared memory asked for, 1073741824 to be had (RLIMIT_AS)",
            "",
            (5, 25),
        ),
        told(
            Code::LoadFailed,
            "worker `shard` refused the programs: no actor type `main::Shard` is linked into this program",
            "",
            (5, 25),
        ),
        told(
            Code::NestedSplit,
            "a part of a tuple is split again, but channels carry the parts of one tuple only",
            "",
            (8, 43),
        ),
        told(
            Code::BadConstant,
            "a constant of type `Prompt` cannot be given to a task: the map has no length",
            "",
            (9, 22),
        ),
        told(
            Code::OrderedLater,
            "a task is ordered after one that is bound later, or after itself",
            "",
            (8, 43),
        ),
        told(
            Code::NoList,
            "parameter `parts` of `shard.forward` is not written as a `Vec` or a slice",
            "takes a list of edges here",
            (8, 29),
        ),
        told(
            Code::BadRanks,
            "ranks 0 and 1 of allreduce(sum) are both of actor `shard`",
            "these are the ranks",
            (8, 29),
        ),
        told(
            Code::NoCommunicator,
            "there is no communicator `tyo`; known are `shm`, `toy`",
            "this needs one",
            (8, 29),
        ),
    ]);
    let placed = "actor tok on 1\ninput x\nu = tok.encode(x)\nreturn u";
    let mut placed = in_the_program(placed, &[(6, 23)]);
    placed.values[1].tensors.device = Some(1);
    shown.extend(refusal(placed));
    let far =
        "actor tok on 1\nactor shard on 2@1\ninput x\nu = tok.encode(x)\nv = shard.forward(u)\nreturn v";
    let mut unserialised = in_the_program(far, &[(6, 23), (8, 29)]);
    unserialised.values[1].traits.wire = false;
    shown.extend(refusal(unserialised));
    let shared = "actor tok on 1\nactor shard on 2\ninput x\nu = tok.encode(x)\nv = tok.count(u)\nw = shard.forward(u)\nreturn v, w";
    let mut unshared = in_the_program(shared, &[(6, 23), (7, 21), (8, 29)]);
    unshared.values[1].traits.clone = false;
    shown.extend(refusal(unshared));
    let mut mixed = in_the_program(far, &[(6, 23), (8, 29)]);
    mixed.values[1].traits.mixed = true;
    shown.extend(refusal(mixed));
    let mut hosts = in_the_program(far, &[(6, 23), (8, 29)]);
    hosts.actors[1].home.host = HostId(1);
    hosts.values[1].tensors.carried = true;
    shown.extend(refusal(hosts));
    shown.extend([
        told(
            Code::WholeTuple,
            "`shard.forward` hands over its tuple as a whole",
            "",
            (8, 29),
        ),
        told(
            Code::NothingToOrder,
            "a constant is ordered after a task, but no task makes it",
            "",
            (8, 43),
        ),
        told(
            Code::InertOption,
            "option `inputs` is 3, and no input of the graph is a `Vec`",
            "",
            (5, 25),
        ),
    ]);
    let mut broken = in_the_program(live, &[(6, 23), (8, 29), (7, 21)]);
    broken.tasks[0].args[0] = selvedge_compiler::ir::ArgIr::Value(ValueId(99));
    shown.extend(refusal(broken));
    let mut codes: Vec<&str> = shown.iter().map(|it| it.code.as_str()).collect();
    codes.dedup();
    assert_eq!(codes, Code::ALL.map(|code| code.as_str()), "every code, once");
    let text: Vec<String> = shown.iter().map(ToString::to_string).collect();
    golden("codes.txt", &text.join("\n\n"));
}

#[test]
fn dag_20_every_code_has_a_page() {
    for code in Code::ALL {
        assert!(code.page().starts_with(&format!("{}: ", code.as_str())), "{code}");
        assert!(code.page().len() > 80, "{code}: {}", code.page());
        assert_eq!(Code::find(&code.as_str().to_lowercase()), Some(code));
    }
    assert_eq!(Code::find("D0207"), None);
}

#[test]
fn graph_24_repairs_are_proposed_and_work() {
    let there_and_back =
        "actor a on 1\nactor b on 1\nactor c on 2\ninput x\nu = a.f(x)\nv = c.g(u)\nw = b.h(v)\nreturn w";
    let mut dead = plan(graph(there_and_back), settings(1)).unwrap();
    dead.lanes[1].steps.rotate_left(3);
    let Err(Refutation::Deadlock(deadlock)) = prove(&dead) else {
        panic!("live")
    };
    let found = repairs(&dead, &deadlock);
    assert!(matches!(found[..], [Repair::Before { .. }]), "{found:?}");
    assert!(
        deadlock
            .draw(&dead)
            .contains("repair: on lane 1, take READ 0 of `a.f` before READ 0 of `b.h`")
    );
    // Both sides of an exchange send first: no lane can wait in a send, so posted receives resolve the deadlock.
    let exchange =
        "actor a on 1\nactor b on 2\ninput x\nu = a.f(x)\nv = b.f(x)\nw = a.g(!v)\nz = b.g(!u)\nreturn w, z";
    let mut dead = plan(
        graph(exchange),
        Settings {
            overlap: false,
            ..settings(1)
        },
    )
    .unwrap();
    for lane in 1..=2 {
        let steps = &mut dead.lanes[lane].steps;
        let write = steps.iter().position(|step| step.kind == OpKind::Write).unwrap();
        let write = steps.remove(write);
        steps.insert(2, write);
    }
    let Err(Refutation::Deadlock(deadlock)) = prove(&dead) else {
        panic!("live")
    };
    assert!(!repairs(&dead, &deadlock).is_empty(), "{}", deadlock.draw(&dead));
}

/// Each of many lanes waits for the one before it, and a change of any of them would do.
#[test]
fn graph_24_a_long_cycle_is_not_repaired_at_every_link() {
    let lanes = 40;
    let mut text = String::new();
    (0..lanes).for_each(|lane| text += &format!("actor a{lane} on {}\n", lane + 1));
    text += "input x\n";
    (0..lanes).for_each(|lane| text += &format!("u{lane} = a{lane}.f(x)\n"));
    let before = |lane: usize| (lane + lanes - 1) % lanes;
    (0..lanes).for_each(|lane| text += &format!("v{lane} = a{lane}.g(u{})\n", before(lane)));
    let outputs: Vec<String> = (0..lanes).map(|lane| format!("v{lane}")).collect();
    text += &format!("return {}", outputs.join(", "));
    let mut dead = plan(graph(&text), settings(1)).unwrap();
    for lane in 1..=lanes {
        // The actors' methods commute, so that either may come first.
        dead.ir.actors[lane - 1].commutes = true;
        dead.lanes[lane].steps.rotate_left(3);
    }
    let Err(Refutation::Deadlock(deadlock)) = prove(&dead) else {
        panic!("live")
    };
    assert_eq!(deadlock.cycle.len(), lanes);
    let found = repairs(&dead, &deadlock).len();
    assert!((1..lanes / 2).contains(&found), "{found}");
}

#[test]
fn graph_27_a_plan_is_drawn_as_svg_and_as_a_page_and_comes_back_from_json() {
    let plan = sample();
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    assert!(
        Plan::from_json("{}")
            .unwrap_err()
            .to_string()
            .contains("not a plan")
    );
    golden("plan.svg", &plan.to_svg());
    let page = plan.to_html(&[]);
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org/").count()
    );
    assert!(
        !page.contains("https://"),
        "the page asks for nothing from elsewhere"
    );
    assert!(page.contains("\"label\":\"") && !page.contains("/*DATA*/null"));
    // A label cannot end the script.
    let mut hostile = sample();
    hostile.ir.tasks[0].label = "</script><b>".into();
    assert!(!hostile.to_html(&[]).contains("</script><b>"));
    assert!(hostile.to_svg().contains("&lt;/script&gt;"));
}
