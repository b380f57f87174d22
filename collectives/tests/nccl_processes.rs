//! Ranks over NCCL in processes of their own, and the errors of the others when one is killed. The tests use the
//! simulated driver, or one device on which each process passes for a host (`NCCL_HOSTID`).
//!
//! `LD_LIBRARY_PATH=$(scripts/simulated-driver) KILLS=100 cargo test -p selvedge-collectives --features cuda --test
//! nccl_processes -- --nocapture` prints trials, seed and times.
#![cfg(feature = "cuda")]
#![allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test may panic

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use selvedge_channels::Tensor;
use selvedge_channels::device::{DeviceTensor, Gpu, Library, Stream};
use selvedge_collectives::gpu::probe;
use selvedge_collectives::nccl::NcclRank;
use selvedge_collectives::{Collective, CommError, Communicator, Group, OnDevice, ReduceOp};

const CHILD: &str = "SELVEDGE_NCCL_CHILD";
const RANKS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of bytes that a child has to give back to the kernel when it ends.
const BALLAST: &str = "SELVEDGE_NCCL_BALLAST";
/// The code that the simulated NCCL returns when the process of another rank begins to end.
const LOST: &str = "SELVEDGE_SIM_LOST";

fn there() -> bool {
    let found = probe();
    let missing = match (&found.driver, &found.nccl) {
        (Err(error), _) | (_, Err(error)) => Some(error.to_string()),
        (Ok(driver), _) => driver.devices.is_empty().then(|| "no device".to_owned()),
    };
    if let Some(missing) = &missing {
        let required = std::env::var("REQUIRE_GPU").is_ok_and(|value| value == "1");
        assert!(!required, "REQUIRE_GPU=1, and {missing}");
        eprintln!("not tested: {missing}");
    }
    missing.is_none()
}

/// A child: runs `rounds` operations, endlessly if `rounds` is 0, and prints a line for each event.
#[test]
#[ignore = "the children's part of the other tests"]
fn child() {
    let Ok(words) = std::env::var(CHILD) else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let (own, rounds): (usize, usize) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    let ballast = std::env::var(BALLAST).map_or(0, |text| text.parse().unwrap());
    let ballast = std::hint::black_box(vec![1u8; ballast]);
    let group = Group::open(&words[0].parse().unwrap()).unwrap().timeout(PATIENCE);
    let gpu = Gpu::open(0).unwrap();
    let mut rank = NcclRank::new(&group, own, &gpu).unwrap();
    let connected = rank.barrier().map(|()| println!("connected"));
    let ended = connected.map_err(Some).and_then(|()| {
        (0..).try_for_each(|round| match round {
            _ if rounds > 0 && round == rounds => Err(None),
            _ => operation(&mut rank, &gpu, round).map_err(Some),
        })
    });
    match ended {
        Err(None) => {
            Box::new(rank).close(PATIENCE).unwrap();
            println!("done");
        }
        Err(Some(CommError::PeerLost { rank, pid })) => println!("lost {rank} {pid}"),
        other => println!("ended {other:?}"),
    }
    drop(ballast);
}

/// Sums on the device, and gathers and exchanges tensors of the host.
fn operation(rank: &mut NcclRank, gpu: &Gpu, round: usize) -> Result<(), CommError> {
    let own = rank.rank();
    let count = RANKS * [1, 700, 40_000][round % 3];
    let values: Vec<u32> = (0..count).map(|at| (at + own + round) as u32).collect();
    let tensor = Tensor::from_slice(&values, &[count])?;
    let stream = Stream::compute(gpu)?;
    let sum = rank.plan(Collective::AllReduce(ReduceOp::Sum))?;
    rank.launch_on_device(sum, &[DeviceTensor::upload(&stream, &tensor)?])?;
    let summed = rank.wait_on_device(None)?.remove(0);
    let gathered = rank.allgather(std::slice::from_ref(&tensor))?.remove(0);
    let exchanged = rank.all_to_all(&[tensor])?.remove(0);
    // The host has received results of later operations, so this one is done.
    let summed = summed.download(&stream, PATIENCE)?.to_vec::<u32>()?;
    let right = |at: usize| (RANKS * (at + round) + RANKS * (RANKS - 1) / 2) as u32;
    assert!(summed.iter().enumerate().all(|(at, value)| *value == right(at)));
    assert_eq!(gathered.to_vec::<u32>()?[count], (1 + round) as u32);
    assert_eq!(
        exchanged.to_vec::<u32>()?[0],
        (own * count / RANKS + round) as u32
    );
    Ok(())
}

/// The process of a rank, killed on drop, so that a failing test does not leave it behind, and its output.
struct Kid {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Kid {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Kid {
    fn start(group: &Group, rank: usize, rounds: usize, settings: &[(&str, usize)]) -> Kid {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--ignored", "--quiet", "--nocapture"])
            .env(CHILD, format!("{} {rank} {rounds}", group.descriptor().unwrap()))
            // NCCL rejects several ranks of one host on one device.
            .env("NCCL_HOSTID", format!("rank{rank}"))
            .env("NCCL_SOCKET_IFNAME", "lo")
            .env("NCCL_IB_DISABLE", "1")
            .env("NCCL_MAX_CTAS", "1")
            .envs(settings.iter().map(|(name, value)| (name, value.to_string())))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        group.expect(rank, process.id()).unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Kid { process, lines }
    }

    /// The next line that this test's child prints.
    fn says(&mut self) -> String {
        let ours = |line: &String| {
            ["connected", "done", "lost", "ended"]
                .iter()
                .any(|word| line.starts_with(word))
        };
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find(ours).unwrap_or_else(|| "nothing".to_owned())
    }
}

fn start(rounds: usize, settings: &[(&str, usize)]) -> (Group, Vec<Kid>) {
    let group = Group::new(RANKS).unwrap();
    let kid = |rank| Kid::start(&group, rank, rounds, settings);
    let kids = (0..RANKS).map(kid).collect();
    (group, kids)
}

#[test]
fn ranks_of_processes_get_what_they_should_and_part_in_peace() {
    if !there() {
        return;
    }
    let (_group, mut kids) = start(30, &[]);
    for kid in &mut kids {
        assert_eq!((kid.says().as_str(), kid.says().as_str()), ("connected", "done"));
        assert!(kid.process.wait().unwrap().success());
    }
}

#[test]
fn a_rank_that_is_killed_is_named_and_the_others_come_free() {
    if there() {
        kill_ranks(4, &[]);
    }
}

/// NCCL fails when a process begins to end. All others are told of its death only when it has given back its memory.
#[test]
fn a_rank_that_is_killed_is_named_though_nccl_fails_before_its_death_is_told() {
    const SYSTEM: usize = 2;
    const REMOTE: usize = 6;
    let nccl = Library::open("NCCL", "SELVEDGE_NCCL_LIB", &["libnccl.so.2"]);
    if !there() || !nccl.is_ok_and(|nccl| nccl.has(&["selvedge_sim_violations"]).is_ok()) {
        eprintln!("not tested: only the simulated NCCL fails at a moment that is chosen");
        return;
    }
    for code in [SYSTEM, REMOTE] {
        kill_ranks(4, &[(LOST, code), (BALLAST, 100 << 20)]);
    }
}

/// Kills one of the ranks, in `trials` groups, and checks that the others name it.
fn kill_ranks(trials: usize, settings: &[(&str, usize)]) {
    let trials = std::env::var("KILLS").map_or(trials, |text| text.parse().unwrap());
    let seed: u64 = std::env::var("SEED").map_or(1, |text| text.parse().unwrap());
    let mut state = seed;
    let mut below = |bound: u64| {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound
    };
    let mut took = Vec::new();
    for _ in 0..trials {
        let (_group, mut kids) = start(0, settings);
        let victim = below(RANKS as u64) as usize;
        let mut killed = kids.remove(victim);
        // The kill comes before the ranks have connected, while they connect, or during their operations.
        let early = below(4) == 0;
        if !early {
            assert_eq!(killed.says(), "connected");
        }
        std::thread::sleep(Duration::from_micros(below(30_000)));
        let pid = killed.process.id();
        let begin = Instant::now();
        drop(killed);
        for kid in &mut kids {
            let mut said = kid.says();
            if said == "connected" {
                said = kid.says();
            }
            assert_eq!(said, format!("lost {victim} {pid}"));
            assert!(kid.process.wait().unwrap().success());
        }
        took.push(begin.elapsed());
    }
    took.sort_unstable();
    println!(
        "{trials} ranks killed, seed {seed}: the others knew and had ended after {:?} (median), {:?} (most)",
        took[took.len() / 2],
        took[took.len() - 1]
    );
}
