//! The prover and NCCL agree on what hangs: plans whose lanes meet in every edge are carried out by ranks on the simulated
//! driver, which can say, without a clock, whether anything can still happen.
//!
//! `PLANS` sets how many; the counts are printed:
//! `LD_LIBRARY_PATH=$(scripts/simulated-driver) PLANS=20000 cargo test --release -p selvedge-compiler --features cuda
//! --test nccl_deadlock -- --nocapture`
//!
//! Where the prover is stricter: it takes a value that several lanes read for one event, so that no reader goes on before all
//! have come. As a group of sends, each reader may. Such plans are run both ways, the group and a broadcast.
#![cfg(feature = "cuda")]
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    unsafe_code,
    reason = "a test may panic, prints what it has counted, and calls the simulated NCCL"
)]

mod machine;
mod nccl;
mod text;

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use machine::Random;
use nccl::calls::{List, Spread, calls, has_several_readers};
use nccl::world::{Missing, World};
use selvedge_compiler::compile::plan;
use selvedge_compiler::ir::{CollectiveId, GraphIr, Plan, Settings, ValueId};
use selvedge_compiler::prove::{Refutation, prove};
use selvedge_core::ActorId;
use text::{Sketch, settings};

/// The ranks of this process: whether anything can still happen is known of all streams at once, so tests take turns.
static WORLD: LazyLock<Result<Mutex<World>, Missing>> = LazyLock::new(|| World::open().map(Mutex::new));

/// The simulator, if there is one.
fn world() -> Option<MutexGuard<'static, World>> {
    let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
    match &*WORLD {
        Ok(world) => return Some(world.lock().unwrap()),
        Err(Missing::Driver(why)) => {
            assert!(!required, "REQUIRE_GPU=1, and {why}");
            eprintln!("skipped: {why}");
        }
        Err(Missing::Simulator(why)) => {
            eprintln!("skipped: only the simulated driver can tell what hangs: {why}")
        }
    }
    None
}

/// Ends the process if nobody calls what it gives for a minute.
fn watchdog() -> impl Fn() {
    let (alive, heard) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            match heard.recv_timeout(Duration::from_secs(60)) {
                Ok(()) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    eprintln!("the test hangs");
                    std::process::abort();
                }
            }
        }
    });
    move || alive.send(()).unwrap()
}

fn with(overlap: bool) -> Settings {
    Settings {
        overlap,
        ..settings(1)
    }
}

/// Whether the prover takes a plan for live; `None` for one that no graph lowers to.
fn is_live(plan: &Plan) -> Option<bool> {
    match prove(plan) {
        Ok(certificate) => {
            certificate.check(plan).unwrap();
            Some(true)
        }
        Err(Refutation::Deadlock(_)) => Some(false),
        Err(Refutation::Malformed(_)) => None,
    }
}

/// How many lanes beside the writer's may read a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    One,
    Several,
}

/// A graph under construction, and which lanes read what.
struct Drawing {
    sketch: Sketch,
    readers: Readers,
    actors: Vec<ActorId>,
    /// By value: its lane; `None` for the input.
    written: Vec<Option<u32>>,
    read: BTreeMap<ValueId, u32>,
}

impl Drawing {
    fn lane(&self, actor: ActorId) -> u32 {
        self.sketch.graph.actors[actor.0 as usize].lane.0
    }

    /// A value that an actor may read, of those that there are.
    fn argument(&mut self, actor: ActorId, known: usize, random: &mut Random) -> ValueId {
        let (value, lane) = (random.below(known), self.lane(actor));
        let id = ValueId(value as u32);
        let across = self.written[value].is_some_and(|writer| writer != lane);
        if across && *self.read.entry(id).or_insert(lane) != lane && self.readers == Readers::One {
            return ValueId(0);
        }
        id
    }

    /// A task for each of these actors, whose arguments are among the values that were there before.
    fn tasks(&mut self, ranks: &[ActorId], collective: Option<CollectiveId>, random: &mut Random) {
        let known = self.written.len();
        for actor in ranks {
            let count = 1 + random.below(2);
            let args: Vec<_> = (0..count)
                .map(|_| Some(self.argument(*actor, known, random)))
                .collect();
            self.sketch.task(*actor, "f", &args, known);
            let task = self.sketch.graph.tasks.last_mut().unwrap();
            task.collective = collective;
            task.meets = (0..count as u16).collect();
            self.written.push(Some(self.lane(*actor)));
        }
    }

    /// An actor of each of two or more lanes.
    fn group(&self, random: &mut Random) -> Vec<ActorId> {
        let mut lanes = Vec::new();
        let mut ranks = Vec::new();
        for actor in &self.actors {
            let lane = self.lane(*actor);
            if !lanes.contains(&lane) && random.below(2) == 0 {
                lanes.push(lane);
                ranks.push(*actor);
            }
        }
        ranks
    }
}

/// A random graph over 2 to 4 lanes, of up to some 10 tasks, some of them ranks of collectives; everything that goes from
/// lane to lane is a rendezvous.
fn random_graph(readers: Readers, random: &mut Random) -> GraphIr {
    let mut sketch = Sketch::new();
    let mut actors = Vec::new();
    for lane in 1..=2 + random.below(3) as u32 {
        for _ in 0..1 + random.below(2) {
            let index = actors.len();
            actors.push(sketch.actor(&format!("a{index}"), lane, 0));
            sketch.graph.actors[index].commutes = random.below(2) == 0;
        }
    }
    sketch.input();
    let mut drawing = Drawing {
        sketch,
        readers,
        actors,
        written: vec![None],
        read: BTreeMap::new(),
    };
    let tasks = 4 + random.below(7);
    let mut collectives = 0;
    while drawing.sketch.graph.tasks.len() < tasks {
        let group = if random.below(5) == 0 {
            drawing.group(random)
        } else {
            Vec::new()
        };
        if group.len() > 1 {
            drawing.tasks(&group, Some(CollectiveId(collectives)), random);
            collectives += 1;
        } else {
            let actor = drawing.actors[random.below(drawing.actors.len())];
            drawing.tasks(&[actor], None, random);
        }
    }
    drawing.sketch.finish()
}

/// One change to a lane's program that leaves it well-formed, if one is found: two steps exchanged, one moved, or all steps
/// of a task.
fn tamper(plan: &mut Plan, random: &mut Random) {
    for _ in 0..20 {
        let mut changed = plan.clone();
        let lane = random.below(changed.lanes.len());
        let steps = &mut changed.lanes[lane].steps;
        if steps.len() < 2 {
            continue;
        }
        let (from, to) = (random.below(steps.len()), random.below(steps.len()));
        match random.below(3) {
            0 => steps.swap(from, to),
            1 => {
                let step = steps.remove(from);
                steps.insert(to, step);
            }
            _ => {
                let task = steps[from].task;
                let (moved, mut left): (Vec<_>, Vec<_>) =
                    steps.iter().copied().partition(|step| step.task == task);
                let to = to.min(left.len());
                left.splice(to..to, moved);
                *steps = left;
            }
        }
        if changed != *plan && is_live(&changed).is_some() {
            *plan = changed;
            return;
        }
    }
}

/// What was judged.
#[derive(Default)]
struct Judged {
    live: usize,
    dead: usize,
    /// Dead for the prover, and yet groups of sends come to their end.
    stricter: usize,
}

impl Judged {
    fn judge(&mut self, world: &mut World, plan: &Plan, live: bool, seed: u64) {
        let about = || format!("seed {seed}, the prover says live: {live}\n{}", plan.describe());
        let drained = world.drains(&calls(plan, Spread::Sends));
        if has_several_readers(plan) {
            assert_eq!(world.drains(&calls(plan, Spread::Broadcast)), live, "{}", about());
            assert!(drained || !live, "{}", about());
            self.stricter += usize::from(drained && !live);
        } else {
            assert_eq!(drained, live, "{}", about());
        }
        self.live += usize::from(live);
        self.dead += usize::from(!live);
    }
}

/// A plan hangs in NCCL exactly if the prover says so.
#[test]
fn graph_24_nccl_hangs_exactly_where_the_prover_says_so() {
    let Some(mut world) = world() else { return };
    let alive = watchdog();
    let wanted = std::env::var("PLANS").map_or(1_000, |text| text.parse().unwrap());
    let (mut one, mut several) = (Judged::default(), Judged::default());
    let mut seed = 0u64;
    while one.live + one.dead + several.live + several.dead < wanted {
        alive();
        seed += 1;
        let mut random = Random(seed << 20);
        let readers = if seed.is_multiple_of(3) {
            Readers::Several
        } else {
            Readers::One
        };
        let graph = random_graph(readers, &mut random);
        let mut mutant = plan(graph, with(random.below(2) == 0)).unwrap();
        for _ in 0..random.below(6) {
            tamper(&mut mutant, &mut random);
        }
        let meets = mutant
            .lanes
            .iter()
            .flat_map(|lane| &lane.values)
            .any(|value| value.meets);
        if !meets && mutant.ir.tasks.iter().all(|task| task.collective.is_none()) {
            continue;
        }
        let judged = if has_several_readers(&mutant) {
            &mut several
        } else {
            &mut one
        };
        judged.judge(&mut world, &mutant, is_live(&mutant).unwrap(), seed);
    }
    let total = one.live + one.dead + several.live + several.dead;
    println!(
        "plans: {total}, seeds 1 to {seed}; NCCL and the prover agree\n\
         one reader a value: {} live, {} dead\n\
         several readers, by broadcasts: {} live, {} dead, of which {} pass by groups of sends",
        one.live, one.dead, several.live, several.dead, several.stricter
    );
    assert_eq!(one.stricter, 0);
    let dead = one.dead + several.dead;
    assert!(
        dead * 4 > total && dead * 4 < total * 3,
        "too few of one kind to tell"
    );
}

/// Every lane's steps in the order in which the graph was bound.
fn as_bound(mut plan: Plan) -> Plan {
    plan.lanes.iter_mut().for_each(|lane| lane.steps.sort_unstable());
    plan
}

fn judged(world: &mut World, plan: &Plan) -> (Option<bool>, bool) {
    (is_live(plan), world.drains(&calls(plan, Spread::Sends)))
}

/// ray #45594: two actors each send to the other, then receive.
#[test]
fn graph_24_crossed_sends_pass_projected_and_grouped_and_hang_as_bound() {
    let Some(mut world) = world() else { return };
    let _alive = watchdog();
    let crossed = "actor a on 1\nactor b on 2\ninput x\n\
                   p = a.f(x)\nq = b.g(x)\nr = a.h(!q)\ns = b.k(!p)\nreturn r, s";
    for overlap in [false, true] {
        let projected = plan(text::graph(crossed), with(overlap)).unwrap();
        assert_eq!(judged(&mut world, &projected), (Some(true), true));
        let cyclic = as_bound(projected);
        assert_eq!(judged(&mut world, &cyclic), (Some(false), false));
        // A plan has no word for groups; NCCL has.
        let group = |list: List| {
            vec![
                list.concat()
                    .into_iter()
                    .filter(|call| call.members().is_some())
                    .collect(),
            ]
        };
        let grouped: Vec<List> = calls(&cyclic, Spread::Sends).into_iter().map(group).collect();
        assert!(world.drains(&grouped));
    }
}

#[test]
fn graph_24_collectives_of_two_groups_in_opposite_orders_hang() {
    let Some(mut world) = world() else { return };
    let _alive = watchdog();
    let groups = "actor a on 1\nactor b on 2\nactor c on 1\nactor d on 2\ninput x\n\
                  p = a.sum[0](x)\nq = b.sum[0](x)\nr = c.sum[1](x)\ns = d.sum[1](x)\nreturn p, q, r, s";
    for overlap in [false, true] {
        let same = plan(text::graph(groups), with(overlap)).unwrap();
        assert_eq!(judged(&mut world, &same), (Some(true), true));
        let mut opposite = as_bound(same);
        opposite.lanes[2].steps.rotate_left(3);
        assert_eq!(judged(&mut world, &opposite), (Some(false), false));
    }
}

/// Where the prover is stricter than a group of sends: b has its copy, and could go on, before c takes its own.
#[test]
fn graph_24_a_value_for_two_lanes_is_one_event_as_a_broadcast_is() {
    let Some(mut world) = world() else { return };
    let _alive = watchdog();
    let fork = "actor a on 1\nactor b on 2\nactor c on 3\ninput x\n\
                v = a.f(x)\nz = b.g(!v)\ny = c.h(!z, !v)\nreturn y";
    for overlap in [false, true] {
        let late = as_bound(plan(text::graph(fork), with(overlap)).unwrap());
        assert_eq!(judged(&mut world, &late), (Some(false), true));
        assert!(!world.drains(&calls(&late, Spread::Broadcast)));
    }
}
