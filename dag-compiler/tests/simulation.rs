//! Plans run by brute force: every small graph, random large ones, and tampered plans, on which the prover and the
//! machine must agree.
//!
//! `GRAPHS` and `MUTANTS` set their numbers; the counts are printed:
//! `GRAPHS=100000 MUTANTS=20000 cargo test --release -p selvedge-compiler --test simulation -- --nocapture`

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it has counted"
)]

mod machine;
mod text;

use machine::{Random, simulate};
use selvedge_compiler::ir::{ChannelId, CollectiveId, GraphIr, OpKind, Plan, Settings};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::prove::{Refutation, prove};
use selvedge_compiler::{bound, forecast};
use text::{Sketch, settings};

fn count(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn with(overlap: bool, slots: u32) -> Settings {
    Settings {
        overlap,
        ..settings(slots)
    }
}

/// Plans the graph, proves the plan, checks the certificate, and runs the plan with each number of executions in flight.
fn live(graph: &GraphIr, settings: Settings, inflight: &[u64], random: &mut Random) -> Plan {
    let plan = plan(graph.clone(), settings).unwrap();
    let certificate = prove(&plan).unwrap();
    certificate.check(&plan).unwrap();
    assert!(forecast(&plan).is_some_and(|it| (0.0..=1.0).contains(&it.bubble())));
    assert!(bound(&plan).is_some_and(|it| it.period_ns > 0.0 && it.period_ns.is_finite()));
    for inflight in inflight {
        if let Err(error) = simulate(&plan, 4, *inflight, random) {
            panic!(
                "{error}: inflight {inflight}\n{}\n{:?}",
                plan.describe(),
                plan.settings
            );
        }
    }
    plan
}

/// Every graph of up to four tasks over up to three actors, every set of edges among the tasks (a task without any reads
/// the input), and every subset of those edges as rendezvous.
#[test]
fn graph_23_every_small_graph_with_every_set_of_rendezvous_is_live_and_right() {
    let mut random = Random(1);
    let (mut graphs, mut runs) = (0usize, 0usize);
    for tasks in 1..=4usize {
        let pairs: Vec<(usize, usize)> = (0..tasks)
            .flat_map(|to| (0..to).map(move |from| (from, to)))
            .collect();
        // Each pair has no edge, a buffered one, or a rendezvous.
        for shape in 0..3usize.pow(pairs.len() as u32) {
            for actors in 0..3usize.pow(tasks as u32) {
                let actor_of = |task: usize| actors / 3usize.pow(task as u32) % 3;
                // Actors are interchangeable, so only graphs that use a first, then b, are run.
                let first_uses: Vec<usize> = (0..tasks).map(actor_of).fold(Vec::new(), |mut seen, actor| {
                    if !seen.contains(&actor) {
                        seen.push(actor);
                    }
                    seen
                });
                if !first_uses.is_sorted()
                    || first_uses
                        .iter()
                        .enumerate()
                        .any(|(index, actor)| index != *actor)
                {
                    continue;
                }
                let mut sketch = Sketch::new();
                let ids = [1, 2, 3].map(|lane| sketch.actor(["a", "b", "c"][lane as usize - 1], lane, 0));
                let input = sketch.input();
                let mut values = Vec::new();
                for task in 0..tasks {
                    let kind = |from: usize| {
                        let pair = pairs.iter().position(|pair| *pair == (from, task)).unwrap();
                        shape / 3usize.pow(pair as u32) % 3
                    };
                    let from: Vec<usize> = (0..task).filter(|from| kind(*from) > 0).collect();
                    let args: Vec<_> = from.iter().map(|from| Some(values[*from])).collect();
                    let args = if args.is_empty() { vec![Some(input)] } else { args };
                    values.push(sketch.task(ids[actor_of(task)], "f", &args, task + 1));
                    let meets = from.iter().enumerate().filter(|(_, from)| kind(**from) == 2);
                    sketch.graph.tasks[task].meets = meets.map(|(position, _)| position as u32).collect();
                }
                let graph = sketch.finish();
                graphs += 1;
                for overlap in [false, true] {
                    let inflight = [1, 3];
                    live(&graph, with(overlap, 1), &inflight, &mut random);
                    runs += inflight.len();
                }
            }
        }
    }
    println!("small graphs: {graphs}, runs: {runs}, all live and right");
    assert_eq!(graphs, 1 + 3 * 2 + 27 * 5 + 729 * 14);
}

/// A random graph: actors on lanes, some of which share one, and tasks with up to four arguments. Some arguments are
/// rendezvous, and some tasks are ranks of collectives.
fn random_graph(random: &mut Random, tasks_most: usize) -> GraphIr {
    let mut sketch = Sketch::new();
    let lanes = 1 + random.below(6);
    let actors: Vec<_> = (0..1 + random.below(8))
        .map(|index| {
            let lane = 1 + random.below(lanes) as u32;
            let id = sketch.actor(&format!("a{index}"), lane, u32::from(lane > 3));
            sketch.graph.actors[index].commutes = random.below(4) == 0;
            id
        })
        .collect();
    let mut values = vec![sketch.input()];
    let tasks = 1 + random.below(tasks_most);
    let meeting = random.below(4);
    let mut collectives = 0;
    while sketch.graph.tasks.len() < tasks {
        // Every eighth time on average, a collective over one actor of each of some lanes.
        let mut ranks = Vec::new();
        if random.below(8) == 0 {
            let mut lanes_taken = Vec::new();
            for actor in &actors {
                let lane = sketch.graph.actors[actor.0 as usize].lane;
                if !lanes_taken.contains(&lane) && random.below(2) == 0 {
                    lanes_taken.push(lane);
                    ranks.push(*actor);
                }
            }
        }
        let collective = (ranks.len() > 1).then(|| {
            collectives += 1;
            CollectiveId(collectives - 1)
        });
        if collective.is_none() {
            ranks = vec![actors[random.below(actors.len())]];
        }
        let known = values.len();
        for actor in ranks {
            let args: Vec<_> = (0..1 + random.below(3))
                .map(|_| Some(values[random.below(known)]))
                .collect();
            let arguments = args.len();
            values.push(sketch.task(actor, "f", &args, known));
            let task = sketch.graph.tasks.last_mut().unwrap();
            task.collective = collective;
            task.meets = (0..arguments as u32)
                .filter(|_| random.below(4) < meeting)
                .collect();
            // Some durations are far beyond any real one: sums must not overflow.
            let most = [5_000, 5_000, 5_000, u64::MAX][random.below(4)];
            task.duration_ns = (random.below(2) == 0).then(|| random.next() % most);
        }
    }
    sketch.finish()
}

#[test]
fn graph_23_random_graphs_are_live_and_right() {
    let graphs = count("GRAPHS", 2_000);
    for seed in 0..graphs as u64 {
        let mut random = Random(seed);
        let graph = random_graph(&mut random, 60);
        let (overlap, slots) = (random.below(2) == 0, 1 + random.below(3) as u32);
        let inflight = [1, 3][random.below(2)];
        live(&graph, with(overlap, slots), &[inflight], &mut random);
    }
    println!(
        "random graphs of up to 60 tasks: {graphs}, seeds 0 to {}, all live and right",
        graphs - 1
    );
}

/// Changes a channel once: gives it a reader that reads nothing there, or gives one of its readers a channel of its own.
fn tamper_with_channels(plan: &mut Plan, random: &mut Random) {
    let index = random.below(plan.channels.len());
    let lane = random.below(plan.lanes.len());
    if random.below(2) == 0 {
        let reader = plan.lanes[lane].address;
        plan.channels[index].readers.push(reader);
        return;
    }
    let old = plan.channels[index].clone();
    let new = ChannelId(plan.channels.len() as u32);
    let moved = random.below(old.readers.len().max(1));
    if old.readers.is_empty() {
        return;
    }
    let mut other = old.clone();
    (other.id, other.mirrors) = (new, 0);
    other.readers = vec![plan.channels[index].readers.remove(moved)];
    plan.channels.push(other);
    let values = plan.lanes.iter_mut().flat_map(|lane| &mut lane.values);
    for value in values.filter(|value| value.channel == old.id) {
        let reader = usize::from(value.reader);
        if reader == moved {
            (value.channel, value.reader) = (new, 0);
        } else if reader > moved {
            value.reader -= 1;
        }
    }
}

/// Changes a lane's program once: exchanges two steps, or moves one. Or changes a channel.
fn tamper(plan: &mut Plan, random: &mut Random) {
    if random.below(8) == 0 && !plan.channels.is_empty() {
        return tamper_with_channels(plan, random);
    }
    let lane = random.below(plan.lanes.len());
    let steps = &mut plan.lanes[lane].steps;
    if steps.len() < 2 {
        return;
    }
    let (from, to) = (random.below(steps.len()), random.below(steps.len()));
    if random.below(2) == 0 {
        steps.swap(from, to);
    } else {
        let step = steps.remove(from);
        steps.insert(to, step);
    }
}

/// The prover reports a deadlock exactly where the machine stops. Changes that no graph lowers to are refused and not
/// counted.
#[test]
fn graph_24_the_prover_judges_tampered_plans_as_the_machine_does() {
    let wanted = count("MUTANTS", 2_000);
    let (mut judged, mut dead, mut malformed, mut seed) = (0, 0, 0, 0u64);
    while judged < wanted {
        seed += 1;
        let mut random = Random(seed << 20);
        let graph = random_graph(&mut random, 12);
        let mut mutant = plan(graph, with(random.below(2) == 0, 1 + random.below(2) as u32)).unwrap();
        for _ in 0..1 + random.below(3) {
            tamper(&mut mutant, &mut random);
        }
        let starved = random.below(20) == 0;
        if starved {
            mutant.settings.slots = 0;
        }
        let verdict = prove(&mutant);
        if let Err(Refutation::Malformed(_)) = verdict {
            malformed += 1;
            continue;
        }
        assert!(!starved, "a plan without slots is live");
        let ran = simulate(&mutant, 4, 1 + random.below(3) as u64, &mut random);
        judged += 1;
        match (&verdict, &ran) {
            (Ok(certificate), Ok(())) => certificate.check(&mutant).unwrap(),
            (Err(Refutation::Deadlock(deadlock)), Err(error)) if error == "dead" => {
                dead += 1;
                assert!(
                    !deadlock.cycle.is_empty(),
                    "seed {seed}: a deadlock without a cycle"
                );
                for (one, next) in deadlock.cycle.iter().zip(deadlock.cycle.iter().cycle().skip(1)) {
                    assert_eq!(
                        one.waits_for,
                        next.party,
                        "seed {seed}: {}",
                        deadlock.describe(&mutant.ir)
                    );
                }
            }
            _ => panic!(
                "seed {seed}: the prover says {verdict:?}, the machine {ran:?}\n{}",
                mutant.describe()
            ),
        }
    }
    println!(
        "tampered plans: {judged} judged alike, {dead} of them dead; {malformed} more refused as malformed; seeds 1 to {seed}"
    );
    assert!(dead * 10 > judged, "too few of them are dead to tell");
}

/// A plan with two exchanged COMPUTEs of a lane is rejected by both prover and machine: the simulation above can fail.
#[test]
fn graph_24_the_machine_does_find_deadlocks_and_wrong_values() {
    let graph = text::graph(
        "actor a on 1\nactor b on 1\nactor c on 2\ninput x\nu = a.f(x)\nv = c.g(u)\nw = b.h(v)\nreturn w",
    );
    let good = plan(graph, settings(1)).unwrap();
    let mut dead = good.clone();
    dead.lanes[1].steps.rotate_left(3);
    assert_eq!(simulate(&dead, 2, 1, &mut Random(1)), Err("dead".to_owned()));
    assert!(matches!(prove(&dead), Err(Refutation::Deadlock(_))));
    assert_eq!(good.lanes[1].steps[3].kind, OpKind::Read { arg: 0 });
}
