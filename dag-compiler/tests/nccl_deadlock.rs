//! The prover and NCCL agree on deadlocks: ranks on the simulated driver run plans in which every edge between lanes is
//! a rendezvous. The driver can tell, without a clock, whether any operation can still advance.
//!
//! `PLANS` sets the number of plans; the counts are printed:
//! `LD_LIBRARY_PATH=$(scripts/simulated-driver) PLANS=20000 cargo test --release -p selvedge-compiler --features cuda
//! --test nccl_deadlock -- --nocapture`
//!
//! The prover is stricter in one case: it takes a value that several lanes read for one event, so that no reader goes
//! on before all have arrived. In a group of sends, each send completes by itself. Such plans run in both forms: as a
//! broadcast they hang exactly where the prover reports a deadlock, as a group of sends at most there.
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

use std::sync::{LazyLock, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use machine::Random;
use nccl::calls::{List, Spread, calls, has_several_readers};
use nccl::graphs::{Readers, random_graph, tamper};
use nccl::world::{Missing, World};
use selvedge_compiler::ir::{Plan, Settings};
use selvedge_compiler::plan::compile::plan;
use selvedge_compiler::prove::{Refutation, prove};
use text::settings;

/// The ranks of this process. The simulator judges all streams of the process at once, so tests take turns.
static WORLD: LazyLock<Result<Mutex<World>, Missing>> = LazyLock::new(|| World::open().map(Mutex::new));

/// The simulator; `None` without one.
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

/// Ends the process if the returned function is not called for a minute.
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

/// The prover's verdict on a plan that is well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Live,
    /// Deadlocked: a cycle of this many lanes that wait for each other.
    Dead(usize),
}

fn verdict(plan: &Plan) -> Verdict {
    match prove(plan) {
        Ok(certificate) => {
            certificate.check(plan).unwrap();
            Verdict::Live
        }
        Err(Refutation::Deadlock(deadlock)) => Verdict::Dead(deadlock.cycle.len()),
        Err(Refutation::Malformed(what)) => panic!("malformed: {what}"),
    }
}

/// Counts of judged plans of one kind.
#[derive(Default)]
struct Judged {
    live: usize,
    /// Dead, with lanes that wait for each other.
    crossed: usize,
    /// Dead, with a lane that waits for itself.
    alone: usize,
    /// Plans with collectives.
    collective: usize,
    /// Plans that are dead for the prover, although groups of sends complete.
    stricter: usize,
}

impl Judged {
    fn judge(&mut self, world: &mut World, plan: &Plan, seed: u64) {
        let verdict = verdict(plan);
        let live = verdict == Verdict::Live;
        let about = || format!("seed {seed}, the prover says {verdict:?}\n{}", plan.describe());
        // Posting receives early makes no difference where every edge is a rendezvous.
        let mut otherwise = plan.clone();
        otherwise.settings.overlap ^= true;
        assert_eq!(self::verdict(&otherwise) == Verdict::Live, live, "{}", about());
        let drained = world.drains(&calls(plan, Spread::Sends));
        if has_several_readers(plan) {
            assert_eq!(world.drains(&calls(plan, Spread::Broadcast)), live, "{}", about());
            assert!(drained || !live, "{}", about());
            self.stricter += usize::from(drained && !live);
        } else {
            assert_eq!(drained, live, "{}", about());
        }
        self.collective += usize::from(has_collectives(plan));
        match verdict {
            Verdict::Live => self.live += 1,
            Verdict::Dead(1) => self.alone += 1,
            Verdict::Dead(_) => self.crossed += 1,
        }
    }

    fn dead(&self) -> usize {
        self.crossed + self.alone
    }

    fn all(&self) -> usize {
        self.live + self.dead()
    }

    fn told(&self) -> String {
        let Judged {
            live,
            crossed,
            alone,
            collective,
            ..
        } = self;
        format!(
            "{live} live, {crossed} dead between lanes, {alone} within one; {collective} with collectives"
        )
    }
}

/// Whether any edge or collective of a plan joins lanes by a rendezvous.
fn has_rendezvous(plan: &Plan) -> bool {
    let mut values = plan.lanes.iter().flat_map(|lane| &lane.values);
    values.any(|value| value.meets) || has_collectives(plan)
}

fn has_collectives(plan: &Plan) -> bool {
    plan.ir.tasks.iter().any(|task| task.collective.is_some())
}

/// A plan of a random graph, with up to four changes.
fn random_plan(seed: u64) -> Plan {
    let mut random = Random(seed << 20);
    let readers = if seed.is_multiple_of(3) {
        Readers::Several
    } else {
        Readers::One
    };
    let graph = random_graph(readers, &mut random);
    let mut plan = plan(graph, with(random.below(2) == 0)).unwrap();
    for _ in 0..random.below(5) {
        tamper(&mut plan, &mut random);
    }
    plan
}

/// A plan hangs in NCCL exactly where the prover reports a deadlock.
#[test]
fn graph_24_nccl_hangs_exactly_where_the_prover_says_so() {
    let Some(mut world) = world() else { return };
    let alive = watchdog();
    let wanted = std::env::var("PLANS").map_or(1_000, |text| text.parse().unwrap());
    world.close();
    let before = descriptors();
    let (mut one, mut several) = (Judged::default(), Judged::default());
    let mut seed = 0;
    while one.all() + several.all() < wanted {
        alive();
        seed += 1;
        let plan = random_plan(seed);
        if has_rendezvous(&plan) {
            let kind = if has_several_readers(&plan) {
                &mut several
            } else {
                &mut one
            };
            kind.judge(&mut world, &plan, seed);
        }
    }
    println!(
        "{wanted} plans, seeds 1 to {seed}: the prover and NCCL agree on {} live and {} dead",
        one.live + several.live,
        one.dead() + several.dead()
    );
    println!("one lane reads a value: {}", one.told());
    println!(
        "several do, by broadcast: {}; of the dead, {} pass as groups of sends",
        several.told(),
        several.stricter
    );
    for few in [one.live + several.live, one.crossed + several.crossed] {
        assert!(few * 4 > wanted, "too few of a kind to tell");
    }
    world.close();
    assert_eq!(descriptors(), before);
}

/// The number of open descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Sorts every lane's steps into the order in which the graph was bound.
fn as_bound(mut plan: Plan) -> Plan {
    plan.lanes.iter_mut().for_each(|lane| lane.steps.sort_unstable());
    plan
}

fn judged(world: &mut World, plan: &Plan) -> (Verdict, bool) {
    (verdict(plan), world.drains(&calls(plan, Spread::Sends)))
}

/// Puts all of a lane's NCCL calls into one group.
fn as_one_group(list: &List) -> List {
    let calls = list.iter().flatten().filter(|call| call.members().is_some());
    vec![calls.cloned().collect()]
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
        assert_eq!(judged(&mut world, &projected), (Verdict::Live, true));
        let cyclic = as_bound(projected);
        assert_eq!(judged(&mut world, &cyclic), (Verdict::Dead(2), false));
        // Groups exist in NCCL only; a plan cannot express them.
        let grouped: Vec<List> = calls(&cyclic, Spread::Sends).iter().map(as_one_group).collect();
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
        assert_eq!(judged(&mut world, &same), (Verdict::Live, true));
        let mut opposite = as_bound(same);
        opposite.lanes[2].steps.rotate_left(3);
        assert_eq!(judged(&mut world, &opposite), (Verdict::Dead(2), false));
    }
}

/// A value for two lanes, where the prover is stricter than a group of sends: b has its copy, and could go on, before c
/// takes its own.
#[test]
fn graph_24_a_value_for_two_lanes_is_one_event_as_a_broadcast_is() {
    let Some(mut world) = world() else { return };
    let _alive = watchdog();
    let fork = "actor a on 1\nactor b on 2\nactor c on 3\ninput x\n\
                v = a.f(x)\nz = b.g(!v)\ny = c.h(!z, !v)\nreturn y";
    for overlap in [false, true] {
        let late = as_bound(plan(text::graph(fork), with(overlap)).unwrap());
        assert!(matches!(judged(&mut world, &late), (Verdict::Dead(_), true)));
        assert!(!world.drains(&calls(&late, Spread::Broadcast)));
    }
}
