//! Ranks that die in the middle of an operation. The survivors learn the culprit and can make a new group; no resource
//! remains.
//!
//! `cargo test -p selvedge-collectives --features fault-points --test kills -- --nocapture` prints trials, seed and times;
//! `KILLS` sets the number of trials, `SEED` the seed. Without the feature, processes are killed at random moments alone.
#![cfg(not(miri))] // Miri starts no processes
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test may panic

#[path = "../../tests/census/mod.rs"]
mod census;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use census::{settled, wait_until};
use selvedge_channels::{DType, Tensor, Waiting};
use selvedge_collectives::{Collective, CommError, Communicator, Contribution, Group, Part, Rank, ReduceOp};

const CHILD: &str = "SELVEDGE_KILLS_CHILD";
const POINTS: [&str; 10] = [
    "rank: after the claim",
    "rank: before arriving",
    "rank: after arriving",
    "rank: before its share",
    "rank: before it says what it staged",
    "rank: before it says what it reduced",
    "rank: after it took a result",
    "rank: after its share",
    "rank: before finishing",
    "rank: after finishing",
];

/// The points that only private vectors of two ranks reach.
const STAGING: [&str; 3] = [
    "rank: before it says what it staged",
    "rank: before it says what it reduced",
    "rank: after it took a result",
];

fn operations(ranks: usize) -> Vec<Collective> {
    let mut all = vec![Collective::AllGather, Collective::AllToAll, Collective::Barrier];
    let op = ReduceOp::Sum;
    all.extend([Collective::AllReduce(op), Collective::ReduceScatter(op)]);
    for root in 0..ranks {
        all.extend([
            Collective::Reduce { op, root },
            Collective::Gather { root },
            Collective::Broadcast { root },
            Collective::Scatter { root },
        ]);
    }
    all
}

/// A time limit beyond the slowest report of a death.
const LATE: Duration = Duration::from_secs(60);

/// The way in which a surviving rank waits for the dead one.
#[derive(Clone, Copy, Debug)]
enum Way {
    Waits(Waiting),
    Polls,
}

fn way(dice: &mut Dice) -> Way {
    let ways = [
        Way::Waits(Waiting::Park),
        Way::Waits(Waiting::Spin),
        Way::Waits(Waiting::auto(2)),
        Way::Polls,
    ];
    ways[dice.below(4) as usize]
}

/// Runs an operation by polling alone.
fn drive(rank: &mut Rank, operation: Collective, tensors: &[Tensor]) -> Result<Vec<Tensor>, CommError> {
    let plan = rank.plan(operation)?;
    let parts: Vec<_> = tensors.iter().map(Part::from).collect();
    rank.launch(plan, Contribution::Parts(&parts))?;
    let begun = Instant::now();
    loop {
        if let Some(results) = rank.poll()? {
            return Ok(results);
        }
        assert!(begun.elapsed() < LATE, "nobody tells of a death");
        thread::yield_now();
    }
}

/// Sums private vectors, one operation after the other, for ever. Returns like [`go_on`].
fn pass_on(mut rank: Rank) -> (CommError, Collective) {
    let op = ReduceOp::Sum;
    for round in 0.. {
        let count = [700, 30_000, 100_000][round % 3];
        let mut values = vec![rank.rank() as u32 + 1; count];
        match rank.allreduce_slice(op, &mut values) {
            Ok(()) => assert!(values.iter().all(|value| *value == 3)),
            Err(error) => return (error, Collective::AllReduce(op)),
        }
    }
    unreachable!("so many operations")
}

/// Runs operations, small, large and growing, for ever. Returns the error that ends them, and the failed operation.
fn go_on(mut rank: Rank, way: Way) -> (CommError, Collective) {
    let ranks = rank.world_size();
    if ranks == 2 {
        return pass_on(rank);
    }
    let operations = operations(ranks);
    for round in 0.. {
        let operation = operations[round % operations.len()];
        let count = ranks * [1, 700, 5_000][round % 3] * (1 + round / 50);
        let tensor = Tensor::filled(DType::F32, [count], |_| ()).unwrap();
        let ran = match way {
            Way::Polls => drive(&mut rank, operation, &[tensor]),
            Way::Waits(_) => rank.run(operation, &[tensor]),
        };
        match ran {
            Ok(results) => assert!(results.iter().all(|it| it.bytes().iter().all(|byte| *byte == 0))),
            Err(error) => return (error, operation),
        }
    }
    unreachable!("so many operations")
}

/// A child: the rank that its environment variable names, for as long as it lives.
#[test]
#[ignore = "the children's part of the other tests"]
fn child() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let (descriptor, rank) = words.split_once(' ').unwrap();
    let group = Group::open(&descriptor.parse().unwrap())
        .unwrap()
        .waiting(Waiting::Park);
    let _ended = go_on(
        group.rank(rank.parse().unwrap()).unwrap(),
        Way::Waits(Waiting::Park),
    );
}

/// A child process, killed on drop, so that a failing test does not leave it behind.
struct Kid(Child);

impl Drop for Kid {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(group: &Group, rank: usize, point: Option<(&str, u64)>) -> Kid {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--ignored", "--quiet", "--nocapture"])
        .env(CHILD, format!("{} {rank}", group.descriptor().unwrap()))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some((name, count)) = point {
        command.env("SELVEDGE_FAULT_POINT", format!("{name}:{count}"));
    }
    let kid = Kid(command.spawn().unwrap());
    group.expect(rank, kid.0.id()).unwrap();
    kid
}

/// A pseudo-random generator that repeats its numbers for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound
    }
}

/// A lock for one test at a time: both tests count the resources of this process.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Counts descriptors and threads of this process, and its mappings of anonymous files.
fn held() -> (usize, usize, usize) {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let ours = maps
        .lines()
        .filter(|line| line.contains("memfd:selvedge"))
        .count();
    (count("/proc/self/fd"), count("/proc/self/task"), ours)
}

/// Runs a group with one rank in another process, which dies, and the others in this process. Returns the time until
/// all knew. Two ranks join private vectors; more ranks run all other operations.
fn trial(dice: &mut Dice, ranks: usize) -> Duration {
    let way = way(dice);
    let waiting = match way {
        Way::Waits(waiting) => waiting,
        Way::Polls => Waiting::Park,
    };
    let group = Group::new(ranks).unwrap().waiting(waiting).timeout(LATE);
    let victim = dice.below(ranks as u64) as usize;
    // More than two ranks stage nothing.
    let points: Vec<&str> = POINTS
        .into_iter()
        .filter(|point| ranks == 2 || !STAGING.contains(point))
        .collect();
    let armed = cfg!(feature = "fault-points") && dice.below(8) > 0;
    let point = armed.then(|| match points[dice.below(points.len() as u64) as usize] {
        claim @ "rank: after the claim" => (claim, 1),
        point => (point, 1 + dice.below(45)),
    });
    let delay = Duration::from_micros(dice.below(20_000));
    let mut kid = start(&group, victim, point);
    let pid = kid.0.id();
    let survivors: Vec<Rank> = (0..ranks)
        .filter(|rank| *rank != victim)
        .map(|rank| group.rank(rank).unwrap())
        .collect();
    let (known, dead) = thread::scope(|scope| {
        let survivors: Vec<_> = survivors
            .into_iter()
            .map(|rank| scope.spawn(move || (go_on(rank, way), Instant::now())))
            .collect();
        if point.is_none() {
            thread::sleep(delay);
            kid.0.kill().unwrap();
        }
        kid.0.wait().unwrap();
        let dead = Instant::now();
        (
            survivors
                .into_iter()
                .map(|it| it.join().unwrap())
                .collect::<Vec<_>>(),
            dead,
        )
    });
    let mut slowest = Duration::ZERO;
    for ((error, operation), when) in known {
        match error {
            CommError::PeerLost { rank, pid: found } => {
                assert_eq!((rank, found), (victim, pid), "{point:?}, {way:?}")
            }
            // The rank that learned of the death first has left meanwhile.
            CommError::PeerLeft { rank } if rank != victim => {}
            other => panic!("{point:?}, {way:?}, {operation}: {other}"),
        }
        slowest = slowest.max(when.saturating_duration_since(dead));
    }
    assert!(slowest < LATE / 2, "{point:?}, {way:?}: known after {slowest:?}");
    slowest
}

/// Makes a new group of this many survivors, and sums over it.
fn rebuild(ranks: usize) {
    let group = Group::new(ranks).unwrap();
    let sum = move |mut rank: Rank| {
        let one = Tensor::from_slice(&[1.0f32; 10], &[10]).unwrap();
        let sum = rank.allreduce(ReduceOp::Sum, &[one]).unwrap();
        assert_eq!(sum[0].as_slice::<f32>().unwrap(), [ranks as f32; 10]);
    };
    let ranks = (0..ranks).map(|rank| group.rank(rank).unwrap());
    // The threads are joined explicitly: the end of a scope waits for the closures, not for the threads.
    let threads: Vec<_> = ranks.map(|rank| thread::spawn(move || sum(rank))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn comm_08_every_death_is_heard_of_by_name_and_leaves_nothing() {
    kill(3);
}

#[test]
fn comm_08_a_death_between_two_private_vectors_is_heard_of_by_name() {
    kill(2);
}

fn kill(ranks: usize) {
    let _alone = ALONE.lock();
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (trials, seed) = (number("KILLS", 50), number("SEED", 1));
    let mut dice = Dice(seed);
    trial(&mut dice, ranks);
    let before = settled(held);
    let mut times: Vec<_> = (0..trials)
        .map(|_| {
            let time = trial(&mut dice, ranks);
            rebuild(ranks - 1);
            time
        })
        .collect();
    assert_eq!(
        wait_until(&before, held),
        before,
        "descriptors, threads and mappings"
    );
    times.sort_unstable();
    println!(
        "{trials} kills, seed {seed}: known after {:?} (median), {:?} (p99), {:?} (slowest)",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times.last().unwrap()
    );
}
