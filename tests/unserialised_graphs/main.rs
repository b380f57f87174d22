//! Random graphs of values that serde does not know, over actors inline, on threads, on a shared lane and in a process.
//!
//! Each graph is compared with a plain interpreter, and a ledger says that every value was dropped exactly once: whether
//! its task failed, its execution was cancelled or refused, or its graph was torn down. A graph that must be refused is.
//!
//! `GRAPHS` sets their number and `SEED` the first seed: `GRAPHS=10000 cargo test --test unserialised_graphs -- --nocapture`
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing
)]

mod bind;
mod exercise;
mod recipe;
mod values;
mod worker;

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use selvedge::CompileError;
use selvedge::prelude::*;

use bind::{bind, bound};
use exercise::Exercise;
use recipe::{Random, Recipe, Shape};
use values::{Handle, Job, Mail, Tally, Value, close_books, open_books};
use worker::{Worker, WorkerHandle};

/// How many graphs share a runtime.
const PER_RUNTIME: usize = 200;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Spawns the actors at the places of [`recipe::PLACES`].
fn spawn(runtime: &Runtime) -> Vec<WorkerHandle> {
    let lane = runtime.lane("shared");
    let new = |name: &str| runtime.spawn::<Worker>(name, ());
    let spawned = [
        new("a").inline(),
        new("b").inline(),
        new("c").in_thread(),
        new("d").in_thread(),
        new("e").in_lane(&lane),
        new("f").in_lane(&lane),
        new("g").in_process(),
    ];
    spawned.into_iter().map(Result::unwrap).collect()
}

/// What became of the graphs.
#[derive(Debug, Default)]
struct Fates {
    accepted: usize,
    refused: usize,
    executions: usize,
    tokens: usize,
    clones: usize,
}

/// Says that a graph was refused for the mistakes that it has, and no others.
fn refused(recipe: &Recipe, error: &CompileError) {
    let codes: BTreeSet<_> = error.diagnostics.iter().map(|it| it.code.as_str()).collect();
    assert!(
        !codes.is_empty() && codes.is_subset(&recipe.mistakes),
        "{:?} expected: {error}",
        recipe.mistakes
    );
}

type WideInputs = (Edge<u64>, Edge<Mail>, Edge<Handle>, Edge<Job>, Edge<Tally>);

/// Compiles a graph and executes it; returns the number of executions.
fn play(runtime: &Runtime, actors: &[WorkerHandle], recipe: &Recipe, random: &mut Random) -> Option<usize> {
    let mut exercise = Exercise::random(recipe, random);
    let options = exercise.options();
    macro_rules! play {
        (|$input:pat_param| $inputs:ty, [$($edge:expr),*], $output:expr, $make:expr, $read:expr, $with:ident) => {
            match runtime.compile_with(options, |$input: $inputs| {
                let edges = bind(recipe, actors, vec![$($edge.into()),*]);
                let mut outputs = bound(recipe, edges);
                $output(&mut outputs)
            }) {
                Ok(graph) => {
                    assert!(recipe.mistakes.is_empty(), "accepted, in spite of {:?}", recipe.mistakes);
                    exercise.$with(graph, random, $make, $read);
                    Some(exercise.executions)
                }
                Err(error) => {
                    refused(recipe, &error);
                    None
                }
            }
        };
    }
    match recipe.shape {
        Shape::Wide => play!(
            |(x, mail, handle, job, tally)| WideInputs,
            [x, mail, handle, job, tally],
            bind::Outputs::wide,
            |x| (
                x,
                Mail::of(x + 1),
                Handle::of(x + 2),
                Job::of(x + 3),
                Tally::of(x + 4)
            ),
            bind::numbers,
            run
        ),
        Shape::Narrow => play!(
            |x| Edge<u64>,
            [x],
            |outputs: &mut bind::Outputs| outputs.0.remove(0),
            |x| x,
            |x: u64| vec![x],
            run
        ),
        Shape::Closure => play!(
            |job| Edge<Job>,
            [job],
            |outputs: &mut bind::Outputs| outputs.3.remove(0),
            Job::of,
            |job: Job| vec![job.number()],
            run
        ),
        Shape::Parts => play!(
            |x| Edge<u64>,
            [x],
            |outputs: &mut bind::Outputs| (outputs.0.remove(0), outputs.3.remove(0), outputs.2.remove(0)),
            |x| x,
            |(x, job, handle): (u64, Job, Handle)| vec![x, job.number(), handle.number()],
            run_in_parts
        ),
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn values_without_serde_are_dropped_exactly_once_and_arrive_as_an_interpreter_says() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>();
        if !text.is_some_and(|text| text.starts_with("injected")) {
            usual(panic);
        }
    }));
    let seed = setting("SEED", RandomState::new().hash_one(0) >> 16);
    let graphs = setting("GRAPHS", 300);
    println!("SEED={seed} GRAPHS={graphs}");
    let mut tally = Fates::default();
    let (mut open, mut index) = (0, 0);
    while index < graphs {
        let runtime = Runtime::new();
        let actors = spawn(&runtime);
        for _ in 0..PER_RUNTIME.min((graphs - index) as usize) {
            let mut random = Random(seed + index);
            let recipe = Recipe::random(&mut random);
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mail = open_books();
                let executions = play(&runtime, &actors, &recipe, &mut random);
                let counts = close_books(&mail).unwrap();
                let clones_max = recipe.clones_max() * (executions.unwrap_or(0) + 1);
                assert!(
                    counts.clones <= clones_max,
                    "{} clones, at most {clones_max}",
                    counts.clones
                );
                (executions, counts)
            }));
            let Ok((executions, counts)) = failed else {
                panic!("SEED={} GRAPHS=1: {recipe:?}", seed + index);
            };
            tally.accepted += usize::from(executions.is_some());
            tally.refused += usize::from(executions.is_none());
            tally.executions += executions.unwrap_or(0);
            tally.tokens += counts.tokens;
            tally.clones += counts.clones;
            index += 1;
        }
        drop(actors);
        let ended = runtime.shutdown(Duration::from_secs(30));
        assert!(ended.stuck_lanes.is_empty(), "SEED={seed}: {ended:?}");
        drop(runtime);
        // The first runtime opens what the process keeps.
        let now = descriptors();
        assert!(
            open == 0 || now <= open,
            "SEED={seed}: {now} descriptors, {open} before"
        );
        open = now;
    }
    println!("{tally:?}");
    assert!(tally.accepted > tally.refused, "{tally:?}");
    if graphs >= 300 {
        assert!(tally.refused > 0 && tally.tokens > tally.executions, "{tally:?}");
    }
}
