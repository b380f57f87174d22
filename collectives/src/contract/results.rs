//! Promises of communicators about results, one function each. A function panics if its promise is broken, as tests do.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)] // tests that other crates run

use selvedge_channels::{DType, Tensor};

use super::cases::{LONG, SHORT, check, is_done, operations, sample, together};
use crate::communicator::Communicator;
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};

/// Tests all operations, reductions, types of elements and roots, in groups of 1 to 4.
pub fn every_operation_equals_the_reference<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    // The interpreter (Miri) is slow, so it runs fewer cases.
    let (most, types) = if cfg!(miri) {
        (2, 9..11)
    } else {
        (4, 0..DType::ALL.len())
    };
    for ranks in 1..=most {
        together(make(ranks), |rank| {
            for operation in operations(ranks)
                .into_iter()
                .take(if cfg!(miri) { 6 } else { usize::MAX })
            {
                let dtypes = DType::ALL.iter().copied().take(types.end).skip(types.start);
                let capabilities = rank.capabilities();
                for dtype in dtypes.filter(|dtype| is_done(&capabilities, operation, *dtype)) {
                    check(rank, operation, &[dtype], &[ranks * 3, 5], 7);
                }
            }
            rank.barrier().unwrap();
        });
    }
}

/// Tests that sums of floats, in which the order matters, are equal in every run.
pub fn results_are_equal_bit_for_bit_in_every_run<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let runs: Vec<Vec<Vec<u8>>> = (0..3)
        .map(|_| {
            together(make(3), |rank| {
                let values: Vec<f32> = (0..5000)
                    .map(|index| (index as f32 + 0.1) * [1.0, 1e3, 1e6f32][rank.rank()])
                    .collect();
                let tensor = Tensor::from_slice(&values, &[5000]).unwrap();
                rank.allreduce(ReduceOp::Sum, &[tensor]).unwrap()[0]
                    .bytes()
                    .to_vec()
            })
        })
        .collect();
    assert!(runs.iter().flatten().all(|bytes| *bytes == runs[0][0]));
}

fn of_several_types<C: Communicator>(rank: &C, operation: Collective) -> Vec<DType> {
    let capabilities = rank.capabilities();
    let dtypes = [DType::F32, DType::I8, DType::BF16, DType::F64].into_iter();
    dtypes
        .filter(|dtype| is_done(&capabilities, operation, *dtype))
        .collect()
}

/// Tests operations on several tensors at once.
pub fn several_tensors_of_several_types_go_at_once<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let most = if cfg!(miri) { 3 } else { usize::MAX };
    together(make(2), |rank| {
        for operation in operations(2).into_iter().take(most) {
            check(rank, operation, &of_several_types(rank, operation), &[6, 7], 3);
            check(rank, operation, &[], &[6, 7], 3);
        }
    });
}

/// Tests sizes from zero to more than a mebibyte, odd sizes among them.
pub fn sizes_from_nothing_to_large<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let most = if cfg!(miri) { 2 } else { 6 };
    together(make(3), |rank| {
        for size in [0, 1, 17, 511, 4099, 100_003].into_iter().take(most) {
            for operation in [
                Collective::AllReduce(ReduceOp::Sum),
                Collective::ReduceScatter(ReduceOp::Max),
                Collective::AllGather,
                Collective::Broadcast { root: 2 },
                Collective::Scatter { root: 1 },
                Collective::AllToAll,
            ] {
                check(rank, operation, &[DType::F32], &[3 * size], size as u64);
            }
        }
    });
}

/// Tests that a result stays as it is, whatever comes later.
pub fn results_can_be_kept<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    together(make(2), |rank| {
        let mut kept = Vec::new();
        for round in 0..20u32 {
            let own = Tensor::from_slice(&vec![round + rank.rank() as u32; 2000], &[2000]).unwrap();
            kept.push(rank.allreduce(ReduceOp::Sum, &[own]).unwrap().remove(0));
        }
        for (round, tensor) in kept.iter().enumerate() {
            assert_eq!(
                tensor.as_slice::<u32>().unwrap(),
                vec![2 * round as u32 + 1; 2000]
            );
        }
        rank.barrier().unwrap();
    });
}

/// Tests messages from each rank to each rank, itself among them, while operations go on. A communicator without
/// messages returns [`CommError::NoMessages`], and the test ends there.
pub fn messages_come_in_order_and_whole<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let rounds = if cfg!(miri) { 2 } else { 40 };
    together(make(3), |rank| {
        let own = rank.rank();
        let message = |from: usize, to: usize, round: usize| {
            let seed = (from * 100 + to * 10 + round) as u64;
            vec![
                sample(DType::F32, &[round * 37, 3], seed),
                sample(DType::U8, &[to], seed),
            ]
        };
        if matches!(rank.send(own, &[], None), Err(CommError::NoMessages)) {
            return;
        }
        assert_eq!(rank.recv(own, None).unwrap(), []);
        for round in 0..rounds {
            for to in 0..3 {
                rank.send(to, &message(own, to, round), Some(LONG)).unwrap();
            }
            if round % 7 == 0 {
                check(
                    rank,
                    Collective::AllReduce(ReduceOp::Sum),
                    &[DType::F32],
                    &[600],
                    5,
                );
            }
            for from in 0..3 {
                assert_eq!(rank.recv(from, Some(LONG)).unwrap(), message(from, own, round));
            }
        }
        assert!(matches!(
            rank.recv(0, Some(SHORT)),
            Err(CommError::NoMessage { rank: 0, .. })
        ));
        assert!(matches!(
            rank.send(3, &[], None),
            Err(CommError::NoSuchRank { rank: 3, ranks: 3 })
        ));
        rank.barrier().unwrap();
    });
}
