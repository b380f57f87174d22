//! A peer that writes anything anywhere into the group's memory: others get errors, or wrong numbers, and go on. No
//! rank crashes, reads out of bounds, or exceeds its time limit. `SCRIBBLES` sets the number of rounds, `SEED` the
//! seed.
#![cfg(not(miri))] // the writes come from outside Miri's memory model
#![allow(missing_docs, unsafe_code, clippy::unwrap_used, clippy::panic)] // a test may panic

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use selvedge_channels::{DType, Doorbell, Provider, Region, SEGMENT_HEADER_BYTES, Segment, Tensor};
use selvedge_collectives::shm::group_bytes;
use selvedge_collectives::{Collective, Communicator, Group, ReduceOp};

/// A pseudo-random generator that repeats its numbers for the same seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }
}

/// Writes a word of one of five kinds: small, random, incremented, with one bit flipped, or almost the maximum.
fn scribble(region: &Region, dice: &mut Dice) {
    let offset = dice.next() as usize % (region.len_bytes() / 8) * 8;
    let word = region.atomic_u64(offset).unwrap();
    let value = match dice.next() % 5 {
        0 => dice.next() % 70,
        1 => dice.next(),
        2 => word.load(Ordering::Relaxed).wrapping_add(1),
        3 => word.load(Ordering::Relaxed) ^ 1 << (dice.next() % 64),
        _ => u64::MAX - dice.next() % 3,
    };
    word.store(value, Ordering::Relaxed);
}

#[test]
fn whatever_stands_in_a_groups_memory_is_survived() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (rounds, seed) = (number("SCRIBBLES", 400), number("SEED", 1));
    let mut dice = Dice(seed);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..rounds {
        let len = group_bytes(2).unwrap();
        let segment = Segment::create(Provider::Memfd, SEGMENT_HEADER_BYTES + len).unwrap();
        // SAFETY: the segment is new, and only the group uses it, apart from the words that this test overwrites on
        // purpose.
        let region = unsafe { segment.region(SEGMENT_HEADER_BYTES, len) }.unwrap();
        let bells = vec![Doorbell::heap(), Doorbell::heap()];
        let group = Group::at(region.clone(), bells, Provider::Memfd, true)
            .unwrap()
            .timeout(Duration::from_millis(20));
        let outcomes = thread::scope(|scope| {
            let ranks: Vec<_> = (0..2)
                .map(|rank| {
                    let mut rank = group.rank(rank).unwrap();
                    scope.spawn(move || {
                        let tensor = Tensor::filled(DType::F32, [2000], |_| ()).unwrap();
                        let operations = [
                            Collective::AllReduce(ReduceOp::Sum),
                            Collective::AllGather,
                            Collective::Broadcast { root: 1 },
                            Collective::ReduceScatter(ReduceOp::Max),
                        ];
                        let (mut good, mut bad) = (0, 0);
                        for operation in operations.iter().cycle().take(40) {
                            let plan = rank.plan(*operation).unwrap();
                            let parts = [selvedge_collectives::Part::from(&tensor)];
                            let launched =
                                rank.launch(plan, selvedge_collectives::Contribution::Parts(&parts));
                            let started = Instant::now();
                            let outcome = launched
                                .and_then(|()| rank.wait(Some(Duration::from_millis(20))))
                                .and_then(|_| {
                                    rank.allreduce_slice(ReduceOp::Sum, &mut vec![1.0_f32; 20_000])
                                });
                            match outcome {
                                Ok(()) => good += 1,
                                Err(error) => {
                                    assert!(!error.to_string().is_empty());
                                    bad += 1;
                                }
                            }
                            assert!(started.elapsed() < Duration::from_secs(10), "it was told 20 ms");
                            if bad > 2 {
                                break;
                            }
                        }
                        (good, bad)
                    })
                })
                .collect();
            for _ in 0..1 + dice.next() % 20 {
                scribble(&region, &mut dice);
                thread::sleep(Duration::from_micros(dice.next() % 50));
            }
            ranks
                .into_iter()
                .map(|rank| rank.join().unwrap())
                .collect::<Vec<_>>()
        });
        for (own_good, own_bad) in outcomes {
            good += own_good;
            bad += own_bad;
        }
    }
    println!("{rounds} rounds, seed {seed}: {good} operations done, {bad} refused");
    assert!(bad > 0, "nothing was hit");
}
