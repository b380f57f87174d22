//! M7: a model of ranks that launch, poll, leave and die in any order. The model runs the real code, and reaches a
//! state by the steps that lead to it.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)] // a test may panic

use std::hash::{DefaultHasher, Hash, Hasher};

use selvedge_channels::{DType, Tensor};

use super::explore::{Machine, holds, is_found};
use super::rank::Rank;
use crate::communicator::{Communicator, Contribution};
use crate::contract::expected;
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::Part;
use crate::rendezvous::{Group, GroupEnd};

const SUM: Collective = Collective::AllReduce(ReduceOp::Sum);

#[derive(Clone, Copy, PartialEq)]
enum Mutant {
    None,
    /// No rank notices a death.
    NoMonitor,
    /// A result is released while it is still read.
    LetsGoEarly,
    /// A rank publishes that its share is done before it is.
    DoneEarly,
    /// A rank publishes that chunks are staged before they are.
    StagedEarly,
    /// A rank publishes that chunks are reduced before they are.
    ReducedEarly,
}

#[derive(Clone, Copy)]
struct Ranks {
    ranks: usize,
    /// The operations of each rank, one after the other, each with its number of elements.
    script: &'static [(Collective, usize)],
    leaves: bool,
    dies: bool,
    /// The rank that contributes failures.
    fails: Option<usize>,
    /// True if the vectors to be summed are private, and go through rings.
    private: bool,
    mutant: Mutant,
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Action {
    Launch(usize),
    Poll(usize),
    Drop(usize),
    Die(usize),
    Notice(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Hash)]
enum Party {
    Here,
    /// The rank has learnt that the group is over.
    Told,
    Left,
    Dead,
    Noticed,
}

struct World {
    group: Group,
    ranks: Vec<Option<Rank>>,
    parties: Vec<Party>,
    /// The numbers of operations launched, and finished, by rank.
    launched: Vec<usize>,
    finished: Vec<usize>,
    kept: Vec<Vec<(usize, Vec<Tensor>)>>,
}

impl Ranks {
    fn brought(&self, rank: usize, operation: usize) -> Vec<Tensor> {
        let count = self.script[operation].1;
        let value = (rank + 1) as u32 * 10u32.pow(operation as u32);
        let fill = |bytes: &mut [u8]| {
            bytes
                .chunks_exact_mut(4)
                .for_each(|four| four.copy_from_slice(&value.to_ne_bytes()))
        };
        vec![Tensor::filled(DType::U32, [count], fill).unwrap()]
    }

    fn right(&self, rank: usize, operation: usize) -> Vec<Tensor> {
        let all: Vec<Vec<Tensor>> = (0..self.ranks)
            .map(|rank| self.brought(rank, operation))
            .collect();
        expected(self.script[operation].0, &all, rank).unwrap_or_default()
    }

    fn check_kept(&self, world: &World) -> Result<(), &'static str> {
        for (rank, kept) in world.kept.iter().enumerate() {
            for (operation, tensors) in kept {
                if *tensors != self.right(rank, *operation) {
                    return Err("a result that was kept has changed");
                }
            }
        }
        Ok(())
    }

    fn launch(&self, world: &mut World, rank: usize) -> Result<(), &'static str> {
        let operation = world.launched[rank];
        let brought = self.brought(rank, operation);
        let parts: Vec<Part<'_>> = brought.iter().map(Part::from).collect();
        let own = world.ranks[rank].as_mut().unwrap();
        let plan = own.plan(self.script[operation].0).unwrap();
        let contribution = match self.fails == Some(rank) {
            true => Contribution::Failure(b"no"),
            false => Contribution::Parts(&parts),
        };
        let launched = match self.private {
            true => own.launch_private(plan, ReduceOp::Sum, &brought[0]),
            false => own.launch(plan, contribution),
        };
        match launched {
            Ok(()) => world.launched[rank] += 1,
            Err(error) => self.ended(world, rank, &error)?,
        }
        if self.mutant == Mutant::DoneEarly {
            let shared = world.group.state();
            shared.words.set_done(rank, world.launched[rank] as u64).unwrap();
        }
        let words = &world.group.state().words;
        match self.mutant {
            Mutant::StagedEarly => words.set_staged(rank, 100).unwrap(),
            Mutant::ReducedEarly => words.set_reduced(rank, 100).unwrap(),
            _ => {}
        }
        Ok(())
    }

    /// Checks that an error that ends the group has a cause.
    fn ended(&self, world: &mut World, rank: usize, error: &CommError) -> Result<(), &'static str> {
        let gone = |rank: usize| world.parties[rank] != Party::Here;
        let reasoned = match error {
            CommError::PeerLost { rank, .. } => matches!(world.parties[*rank], Party::Noticed),
            CommError::PeerLeft { rank } | CommError::Aborted { rank } => gone(*rank),
            _ => false,
        };
        world.parties[rank] = Party::Told;
        // Drops the rank, as a user does after such an error.
        drop(world.ranks[rank].take());
        if reasoned {
            Ok(())
        } else {
            Err("an end without a reason")
        }
    }

    fn poll(&self, world: &mut World, rank: usize) -> Result<(), &'static str> {
        let operation = world.finished[rank];
        match world.ranks[rank].as_mut().unwrap().poll() {
            Ok(None) => return Ok(()),
            Ok(Some(_)) if self.fails.is_some() => return Err("a result of a failure"),
            Ok(Some(tensors)) => {
                if tensors != self.right(rank, operation) {
                    return Err("a wrong result");
                }
                if self.mutant == Mutant::LetsGoEarly {
                    let shared = world.group.state();
                    (0..self.ranks)
                        .for_each(|owner| (0..8).for_each(|block| shared.words.let_go(rank, owner, block)));
                }
                world.kept[rank].push((operation, tensors));
            }
            Err(CommError::PeerFailed { rank: failed, .. }) if Some(failed) == self.fails => {}
            Err(error) => return self.ended(world, rank, &error),
        }
        world.finished[rank] += 1;
        Ok(())
    }
}

impl Machine for Ranks {
    type World = World;
    type Action = Action;

    fn fresh(&self) -> World {
        let group = Group::in_process(self.ranks).unwrap();
        World {
            ranks: (0..self.ranks).map(|rank| group.rank(rank).ok()).collect(),
            parties: vec![Party::Here; self.ranks],
            launched: vec![0; self.ranks],
            finished: vec![0; self.ranks],
            kept: (0..self.ranks).map(|_| Vec::new()).collect(),
            group,
        }
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        let mut all = Vec::new();
        let gone = world
            .parties
            .iter()
            .any(|party| matches!(party, Party::Dead | Party::Noticed | Party::Left));
        for rank in 0..self.ranks {
            match world.parties[rank] {
                Party::Here => {
                    if world.launched[rank] == world.finished[rank] {
                        all.extend(
                            (world.launched[rank] < self.script.len()).then_some(Action::Launch(rank)),
                        );
                    } else {
                        all.push(Action::Poll(rank));
                    }
                    all.extend((self.leaves && !gone).then_some(Action::Drop(rank)));
                    all.extend((self.dies && !gone).then_some(Action::Die(rank)));
                }
                Party::Dead if self.mutant != Mutant::NoMonitor => all.push(Action::Notice(rank)),
                _ => {}
            }
        }
        all
    }

    fn step(&self, world: &mut World, action: Action) -> Result<(), &'static str> {
        match action {
            Action::Launch(rank) => self.launch(world, rank)?,
            Action::Poll(rank) => self.poll(world, rank)?,
            Action::Drop(rank) => {
                drop(world.ranks[rank].take());
                world.parties[rank] = Party::Left;
            }
            Action::Die(rank) => {
                // No code of the rank runs any more; its memory stays as it is.
                std::mem::forget(world.ranks[rank].take());
                world.parties[rank] = Party::Dead;
            }
            Action::Notice(rank) => {
                world.group.state().end(GroupEnd::Died { rank, pid: 0 });
                world.parties[rank] = Party::Noticed;
            }
        }
        self.check_kept(world)
    }

    fn seen(&self, world: &World) -> Vec<u64> {
        let mut hasher = DefaultHasher::new();
        world.parties.hash(&mut hasher);
        let states = world
            .ranks
            .iter()
            .map(|rank| rank.as_ref().map_or(0, Rank::progress));
        let counts = world
            .launched
            .iter()
            .chain(&world.finished)
            .map(|count| *count as u64);
        let end = format!("{:?}", world.group.state().words.end());
        end.hash(&mut hasher);
        counts.chain(states).chain([hasher.finish()]).collect()
    }

    fn rest(&self, world: &World) -> Result<(), &'static str> {
        let waits =
            |rank: usize| world.parties[rank] == Party::Here && world.finished[rank] < self.script.len();
        if (0..self.ranks).any(waits) {
            Err("a rank waits for ever")
        } else {
            Ok(())
        }
    }
}

const MODEL: Ranks = Ranks {
    ranks: 2,
    script: &[],
    leaves: false,
    dies: false,
    fails: None,
    private: false,
    mutant: Mutant::None,
};

/// A number of elements that makes every rank compute a slice.
const LARGE: usize = 700;

#[test]
fn m7_results_are_right_in_every_order() {
    holds(Ranks {
        script: &[(SUM, LARGE), (SUM, 2), (SUM, LARGE)],
        ..MODEL
    });
    holds(Ranks {
        ranks: 3,
        script: &[(SUM, LARGE), (Collective::Broadcast { root: 1 }, 2)],
        ..MODEL
    });
    holds(Ranks {
        ranks: 3,
        script: &[
            (Collective::AllGather, 2),
            (
                Collective::Reduce {
                    op: ReduceOp::Sum,
                    root: 2,
                },
                9,
            ),
        ],
        ..MODEL
    });
    holds(Ranks {
        script: &[
            (Collective::AllToAll, 4),
            (Collective::ReduceScatter(ReduceOp::Sum), 4),
            (Collective::Scatter { root: 1 }, 4),
        ],
        ..MODEL
    });
}

#[test]
fn m7_a_rank_that_leaves_or_dies_holds_nobody_up() {
    holds(Ranks {
        script: &[(SUM, LARGE), (SUM, 2)],
        leaves: true,
        ..MODEL
    });
    holds(Ranks {
        script: &[(SUM, LARGE), (SUM, 2)],
        dies: true,
        ..MODEL
    });
    holds(Ranks {
        ranks: 3,
        script: &[(SUM, LARGE)],
        dies: true,
        leaves: true,
        ..MODEL
    });
    holds(Ranks {
        ranks: 3,
        script: &[
            (Collective::Gather { root: 0 }, 2),
            (Collective::Broadcast { root: 2 }, 2),
        ],
        dies: true,
        ..MODEL
    });
}

#[test]
fn m7_a_failure_is_everybodys() {
    holds(Ranks {
        ranks: 3,
        script: &[(SUM, LARGE), (SUM, 2)],
        fails: Some(1),
        ..MODEL
    });
}

/// The number of elements of five pairs of chunks, of which the last are short: more pairs than are staged ahead.
const CHUNKS: usize = 2_500;

#[test]
fn comm_05_private_vectors_are_right_in_every_order() {
    let private = Ranks {
        script: &[(SUM, CHUNKS), (SUM, LARGE)],
        private: true,
        ..MODEL
    };
    holds(private);
    holds(Ranks {
        leaves: true,
        ..private
    });
    holds(Ranks {
        dies: true,
        ..private
    });
}

#[test]
fn comm_05_mutants_of_private_vectors_are_found() {
    for mutant in [Mutant::StagedEarly, Mutant::ReducedEarly] {
        is_found(
            Ranks {
                script: &[(SUM, CHUNKS)],
                private: true,
                mutant,
                ..MODEL
            },
            &["a wrong result"],
        );
    }
}

#[test]
fn m7_mutants_are_found() {
    let two = Ranks {
        script: &[(SUM, LARGE), (SUM, 2)],
        ..MODEL
    };
    is_found(
        Ranks {
            dies: true,
            mutant: Mutant::NoMonitor,
            ..two
        },
        &["a rank waits for ever"],
    );
    let three = Ranks {
        script: &[(SUM, LARGE), (SUM, LARGE), (SUM, LARGE)],
        ..MODEL
    };
    is_found(
        Ranks {
            mutant: Mutant::LetsGoEarly,
            ..three
        },
        &["a result that was kept has changed", "a wrong result"],
    );
    is_found(
        Ranks {
            mutant: Mutant::DoneEarly,
            ..two
        },
        &["a wrong result", "a result that was kept has changed"],
    );
}
