//! Graphs that crash, serialise or deadlock in the best-known system of this kind (Ray Compiled Graphs, D1 to D6 and
//! E-01 to E-04 by the names of its published defects, versions 2.44 and 2.60). This compiler plans and proves them;
//! the machine runs them to the end with one slot, with and without overlap, and they overlap as far as their
//! dependencies allow.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic"
)]

mod machine;
mod text;

use machine::{Random, simulate};
use selvedge_compiler::ir::{GraphIr, OpKind, Operation, Plan, Settings, TaskId};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::plan::lower::lower;
use selvedge_compiler::plan::order::order;
use selvedge_compiler::plan::schedule::schedule;
use selvedge_compiler::prove::forecast::{Forecast, forecast};
use selvedge_compiler::prove::prove;
use text::{graph, lane, settings};

/// Plans a text, proves the plan, and runs it with one slot, 1 and 3 executions in flight, in many orders.
fn runs(text: &str, overlap: bool) -> Plan {
    runs_graph(graph(text), overlap)
}

fn runs_graph(graph: GraphIr, overlap: bool) -> Plan {
    let plan = plan(
        graph,
        Settings {
            overlap,
            ..settings(1)
        },
    )
    .unwrap();
    prove(&plan).unwrap().check(&plan).unwrap();
    for seed in 0..20 {
        for inflight in [1, 3] {
            simulate(&plan, 5, inflight, &mut Random(seed))
                .unwrap_or_else(|error| panic!("{error}\n{}", plan.describe()));
        }
    }
    plan
}

/// Every order of some lines.
fn orders(lines: &[&str]) -> Vec<Vec<String>> {
    let Some((first, rest)) = lines.split_first() else {
        return vec![Vec::new()];
    };
    let mut found = Vec::new();
    for order in orders(rest) {
        for at in 0..=order.len() {
            let mut order = order.clone();
            order.insert(at, (*first).to_owned());
            found.push(order);
        }
    }
    found
}

fn at(plan: &Plan, number: u32, task: u32, kind: OpKind) -> usize {
    let lane = plan
        .lanes
        .iter()
        .find(|lane| lane.address.lane.0 == number)
        .unwrap();
    let step = Operation {
        task: TaskId(task),
        kind,
    };
    lane.steps.iter().position(|it| *it == step).unwrap()
}

fn span(forecast: &Forecast, task: u32, kind: OpKind) -> (u64, u64) {
    let step = Operation {
        task: TaskId(task),
        kind,
    };
    let found = forecast.steps.iter().find(|it| it.operation == step).unwrap();
    (found.start_ns, found.end_ns)
}

const ACTORS: &str = "actor a on 1\nactor b on 2\nactor c on 3\ninput x\n";

#[test]
fn d1_two_accelerator_inputs_meet_in_one_task_in_any_bind_order() {
    for (one, other) in [("!u", "!v"), ("!u", "v"), ("u", "!v")] {
        for order in orders(&["u = a.f(x)", "v = b.f(x)"]) {
            for overlap in [false, true] {
                let text = format!("{ACTORS}{}\nw = c.g({one}, {other})\nreturn w", order.join("\n"));
                runs(&text, overlap);
            }
        }
    }
}

#[test]
fn d2_one_accelerator_writer_has_readers_on_several_actors() {
    for order in orders(&["w = b.g(!v)", "z = c.g(!v)"]) {
        for overlap in [false, true] {
            let text = format!(
                "{ACTORS}u = a.f(x)\nv = a.g(u)\n{}\nreturn w, z",
                order.join("\n")
            );
            let plan = runs(&text, overlap);
            assert_eq!(lane(&plan, 1), "R(a.f) C(a.f) W(a.f) R(a.g) C(a.g) W(a.g)");
        }
    }
}

#[test]
fn d3_overlap_does_not_move_a_receive_before_what_it_depends_on() {
    let text = format!("{ACTORS}u = a.f(x)\nv = b.g(u)\nw = a.h(!v)\nreturn w");
    for overlap in [false, true] {
        let plan = runs(&text, overlap);
        // The receive depends on a.f by way of b: it stands behind a.f's WRITE.
        assert_eq!(lane(&plan, 1), "R(a.f) C(a.f) W(a.f) R(a.h) C(a.h) W(a.h)");
    }
}

#[test]
fn d4_a_local_input_does_not_move_with_an_accelerator_input() {
    let text = format!("{ACTORS}u = a.f(x)\nv = b.f(x)\nw = a.h(u, !v)\nreturn w");
    runs(&text, false);
    let plan = runs(&text, true);
    // The receive is posted before a.f computes; the local value is read after it was written.
    let compute = at(&plan, 1, 0, OpKind::Compute);
    assert!(at(&plan, 1, 2, OpKind::Read { arg: 1 }) < compute);
    assert!(at(&plan, 1, 2, OpKind::Read { arg: 0 }) > at(&plan, 1, 0, OpKind::Write));
}

#[test]
fn d5_independent_work_is_not_parked_behind_a_blocking_receive() {
    let text = format!(
        "{ACTORS}u = a.f(x)\nv = b.f(x)\nw = c.f(x)\np = a.g(!w)\nq = b.g(!u)\nr = c.g(!v)\nreturn p, q, r"
    );
    for overlap in [false, true] {
        let plan = runs(&text, overlap);
        for lane in 1..=3 {
            let own = at(&plan, lane, lane - 1, OpKind::Compute);
            let receive = at(&plan, lane, lane + 2, OpKind::Read { arg: 0 });
            assert!(overlap || own < receive, "{}", plan.describe());
        }
        // All three compute at once, twice: no work is serialised.
        let forecast = forecast(&plan).unwrap();
        let starts: Vec<u64> = (0..3)
            .map(|task| span(&forecast, task, OpKind::Compute).0)
            .collect();
        assert!(starts.iter().all(|start| *start == starts[0]), "{starts:?}");
        assert!(
            forecast.makespan_ns < 4_000,
            "{} ns for two rounds of a microsecond",
            forecast.makespan_ns
        );
    }
}

#[test]
fn d6_an_allreduce_runs_beside_the_next_backward() {
    // Data parallel: two ranks, backward through two layers, each gradient reduced over the ranks.
    let text = "actor a on 1\nactor b on 2\ninput x\n\
                a1 = a.bwd(x)\nb1 = b.bwd(x)\nra = a.sum[0](a1)\nrb = b.sum[0](b1)\n\
                a2 = a.bwd(a1)\nb2 = b.bwd(b1)\nsa = a.sum[1](a2)\nsb = b.sum[1](b2)\nreturn ra, rb, sa, sb";
    runs(text, false);
    let plan = runs(text, true);
    let forecast = forecast(&plan).unwrap();
    for (lane, backward, reduced) in [(1, 4, 2), (2, 5, 3)] {
        assert!(at(&plan, lane, reduced, OpKind::Collective) < at(&plan, lane, backward, OpKind::Compute));
        assert!(at(&plan, lane, reduced, OpKind::Write) > at(&plan, lane, backward, OpKind::Compute));
        // The reduction is posted when the next backward begins, and its result is written after it.
        let (begin, end) = span(&forecast, backward, OpKind::Compute);
        let posted = span(&forecast, reduced, OpKind::Collective).0;
        let written = span(&forecast, reduced, OpKind::Write).0;
        assert!(
            posted <= begin && written >= end,
            "posted {posted}, computes {begin} to {end}, written {written}"
        );
    }
    // The total is two backwards and one reduction behind them: the other reduction takes no time of its own.
    assert!(forecast.makespan_ns < 4_000, "{}", forecast.makespan_ns);
}

#[test]
fn e01_the_priority_is_transitive_where_the_published_one_is_not() {
    // The smallest triple that forms a cycle under the published priority: A's first task over an accelerator, B's
    // second over shared memory, C's second over shared memory. Every order of binds gives the same program for each
    // actor.
    let tasks = ["u = a.f(x)", "v = b.f(x)", "w = c.f(x)"];
    for order in orders(&tasks) {
        let text = format!(
            "{ACTORS}{}\np = b.g(!u)\nq = c.g(v)\nr = a.g(w)\nreturn p, q, r",
            order.join("\n")
        );
        let plan = runs(&text, true);
        for (number, name) in [(1, "a"), (2, "b"), (3, "c")] {
            let found = lane(&plan, number);
            let computes = format!("C({name}.f)");
            assert!(found.find(&computes).unwrap() < found.find(&format!("C({name}.g)")).unwrap());
        }
    }
}

#[test]
fn e02_a_receive_stays_behind_the_compute_it_needs_through_another_actor() {
    for text in [
        "u = a.f(x)\nv = b.g(u)\nw = a.h(!v)\nreturn w",
        "u = a.f(x)\nv = b.g(!u)\nw = a.h(!v)\nreturn w",
    ] {
        for overlap in [false, true] {
            let plan = runs(&format!("{ACTORS}{text}"), overlap);
            assert!(at(&plan, 1, 2, OpKind::Read { arg: 0 }) > at(&plan, 1, 0, OpKind::Write));
        }
    }
}

#[test]
fn e03_a_writer_read_by_two_tasks_of_which_one_needs_the_other() {
    let text = format!("{ACTORS}u = b.f(x)\nv = a.g(!u)\nw = a.h(!u, v)\nreturn w");
    for overlap in [false, true] {
        let plan = runs(&text, overlap);
        assert!(at(&plan, 1, 2, OpKind::Read { arg: 1 }) > at(&plan, 1, 1, OpKind::Write));
    }
}

#[test]
fn e04_a_diamond_with_an_accelerator_edge_and_another_actors_output() {
    for order in orders(&["v = b.g(!u)", "w = c.g(u)"]) {
        for overlap in [false, true] {
            for join in ["!v, w", "v, !w", "!v, !w"] {
                let text = format!(
                    "{ACTORS}u = a.f(x)\n{}\nz = a.h({join})\nreturn z",
                    order.join("\n")
                );
                runs(&text, overlap);
            }
        }
    }
}

#[test]
fn graph_17_an_exchange_has_one_side_receive_before_it_sends() {
    let text = format!("{ACTORS}u = a.f(x)\nv = b.f(x)\nw = a.g(!v)\nz = b.g(!u)\nreturn w, z");
    let plan = runs(&text, false);
    let sends_first = |lane, own, receives| {
        at(&plan, lane, own, OpKind::Write) < at(&plan, lane, receives, OpKind::Read { arg: 0 })
    };
    assert_ne!(sends_first(1, 0, 2), sends_first(2, 1, 3), "{}", plan.describe());
}

#[test]
fn graph_19_a_collective_beside_transfers_between_the_same_actors() {
    let text = "actor a on 1\nactor b on 2\ninput x\n\
                u = a.f(x)\nv = b.f(x)\ns = a.sum[0](u)\nt = b.sum[0](v)\np = a.g(s)\nq = b.g(!p, t)\nr = a.h(!q, s)\nreturn r";
    for overlap in [false, true] {
        runs(text, overlap);
    }
}

#[test]
fn graph_14_the_parts_of_a_collective_stand_together_in_the_order() {
    let text = "actor a on 1\nactor b on 2\nactor c on 3\ninput x\n\
                u = a.f(x)\nv = b.f(u)\nr = a.sum[0](u)\ns = b.sum[0](v)\nt = c.sum[0](x)\nreturn r, s, t";
    let plan = runs(text, false);
    let parts: Vec<usize> = prove(&plan)
        .unwrap()
        .order
        .iter()
        .enumerate()
        .filter(|(_, moment)| format!("{moment:?}").contains("Collective"))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(parts[2] - parts[0], 2);
}

#[test]
fn graph_21_what_overlap_has_moved_is_seen_and_without_it_nothing_is_moved() {
    let graph = graph(&format!(
        "{ACTORS}u = a.f(x)\nv = b.f(x)\nw = a.h(u, !v)\nreturn w"
    ));
    let lowered = lower(&graph);
    let order = order(&graph, &lowered, true).unwrap();
    let [plain, moved] = [false, true].map(|overlap| schedule(&graph, &lowered, &order, overlap));
    for (plain, moved) in plain.lanes.iter().zip(&moved.lanes) {
        assert!(
            plain
                .original
                .iter()
                .copied()
                .eq(0..plain.operations.len() as u32)
        );
        let mut back: Vec<_> = moved.original.iter().zip(&moved.operations).collect();
        back.sort_unstable();
        assert!(
            back.into_iter()
                .map(|(_, operation)| operation)
                .eq(&plain.operations)
        );
    }
    // Lane 1: R(a.f) C(a.f) W(a.f) R(a.h) R(a.h) C(a.h) W(a.h); a.h's READ of the value that b.f sends is posted first.
    assert_eq!(moved.lanes[1].original, [3, 0, 1, 2, 4, 5, 6]);
    let told = |overlap| {
        plan(
            graph.clone(),
            Settings {
                overlap,
                ..settings(1)
            },
        )
        .unwrap()
        .describe()
    };
    assert!(
        told(true).contains("READ 1 a.h (from 3 to 0) · READ 0 a.f"),
        "{}",
        told(true)
    );
    assert!(!told(false).contains("(from"), "{}", told(false));
}

#[test]
fn graph_20_receives_and_sends_keep_their_order_on_a_lane_when_receives_move() {
    let text =
        format!("{ACTORS}u = a.f(x)\nw = b.f(x)\nk = b.k(x)\np = b.g(!u)\nr = a.h(!w)\nreturn k, p, r");
    let mut graph = graph(&text);
    for (task, milliseconds) in graph.tasks.iter_mut().zip([3, 1, 1, 1, 1]) {
        task.duration_ns = Some(milliseconds * 1_000_000);
    }
    let plan = runs_graph(graph, true);
    // The receive moves ahead of b.k, which computes when the sender begins. It does not move ahead of the send of b.f.
    let transfers = [(1, OpKind::Write), (3, OpKind::Read { arg: 0 })];
    let places = transfers.map(|(task, kind)| at(&plan, 2, task, kind));
    assert!(places.is_sorted(), "{}", plan.describe());
    assert!(
        places[1] < at(&plan, 2, 2, OpKind::Compute),
        "{}",
        plan.describe()
    );
    let original = places.map(|place| plan.lanes[2].original[place]);
    assert!(
        original.is_sorted() && original[1] as usize > places[1],
        "{original:?}"
    );
}
