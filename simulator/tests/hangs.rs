//! Whether a program hangs, compared with a short reference algorithm.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod simulated;

use simulated::calls::{alloc, context};
use simulated::nccl::{IN_PROGRESS, NCCL, SUCCESS, ranks};
use simulated::{Run, SIMULATOR};

const RANKS: usize = 3;
const FLOATS: usize = 4;

/// One side of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Side {
    sends: bool,
    peer: usize,
}

/// The program of each rank: groups of sides, one after the other.
type Program = Vec<Vec<Vec<Side>>>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Makes messages in one order for all ranks; then some ranks change their order and group adjacent sides.
fn program(random: &mut Random) -> Program {
    let mut lists: Vec<Vec<Side>> = vec![Vec::new(); RANKS];
    for _ in 0..2 + random.below(6) {
        let from = random.below(RANKS);
        let to = (from + 1 + random.below(RANKS - 1)) % RANKS;
        lists[from].push(Side {
            sends: true,
            peer: to,
        });
        lists[to].push(Side {
            sends: false,
            peer: from,
        });
    }
    let mut program = Vec::new();
    for mut list in lists {
        if list.len() > 1 && random.below(2) == 0 {
            let at = random.below(list.len() - 1);
            list.swap(at, at + 1);
        }
        let mut groups: Vec<Vec<Side>> = Vec::new();
        for side in list {
            match groups.last_mut().filter(|_| random.below(4) == 0) {
                Some(group) => group.push(side),
                None => groups.push(vec![side]),
            }
        }
        program.push(groups);
    }
    program
}

/// Whether all ranks finish: a message passes when both its sides are in groups that have begun.
fn ends(program: &Program) -> bool {
    let mut begun = [0; RANKS];
    // The number of sides like this one that a rank has begun, counted over the groups begun so far.
    let count = |begun: &[usize; RANKS], rank: usize, side: Side| {
        let groups = program[rank].iter().take(begun[rank] + 1);
        groups.flatten().filter(|one| **one == side).count()
    };
    loop {
        let mut moved = false;
        for rank in 0..RANKS {
            let Some(group) = program[rank].get(begun[rank]) else {
                continue;
            };
            let passes = |side: &Side| {
                let other = Side {
                    sends: !side.sends,
                    peer: rank,
                };
                count(&begun, side.peer, other) >= count(&begun, rank, *side)
            };
            if group.iter().all(passes) {
                begun[rank] += 1;
                moved = true;
            }
        }
        if !moved {
            return (0..RANKS).all(|rank| begun[rank] == program[rank].len());
        }
    }
}

#[test]
fn the_simulator_and_the_paper_agree_on_what_hangs() {
    let test = "the_simulator_and_the_paper_agree_on_what_hangs";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 13).outside() else {
        let context = context();
        let streams: Vec<_> = (0..RANKS).map(|_| context.new_stream().unwrap()).collect();
        let buffers: Vec<_> = (0..RANKS)
            .map(|_| (alloc(FLOATS * 4), alloc(FLOATS * 4)))
            .collect();
        let mut random = Random(0x5e1f_ed6e);
        let mut hangs = 0;
        for round in 0..300 {
            let program = program(&mut random);
            let world = ranks(RANKS);
            for (rank, groups) in program.iter().enumerate() {
                for group in groups {
                    let code = NCCL.group(|| {
                        for side in group {
                            let (from, to) = buffers[rank];
                            if side.sends {
                                world[rank].send(from, FLOATS, side.peer, &streams[rank]);
                            } else {
                                world[rank].receive(to, FLOATS, side.peer, &streams[rank]);
                            }
                        }
                    });
                    assert_eq!((code, world[rank].condition()), (IN_PROGRESS, SUCCESS));
                }
            }
            let expected = ends(&program);
            assert_eq!(SIMULATOR.settle() == 1, expected, "round {round}: {program:?}");
            hangs += usize::from(!expected);
            world.iter().for_each(|one| assert_eq!(one.abort(), SUCCESS));
            assert_eq!(SIMULATOR.settle(), 1);
        }
        assert!(
            (30..270).contains(&hangs),
            "{hangs} of 300 hang: not much of a test"
        );
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}
