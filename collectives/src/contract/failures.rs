//! Promises of communicators about failures, time limits and ranks that leave, one function each. A function panics if its
//! promise is broken, as tests do.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)] // tests that other crates run

use std::sync::Barrier;
use std::thread;

use selvedge_channels::DType;

use super::cases::{LONG, SHORT, check, launch, operations, sample, together};
use crate::communicator::{Communicator, Contribution};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::Part;

/// Tests ranks that differ in shape, type, operation or root.
pub fn a_mismatch_is_told_to_everybody_and_the_group_goes_on<C: Communicator>(
    make: &dyn Fn(usize) -> Vec<C>,
) {
    let sum = Collective::AllReduce(ReduceOp::Sum);
    let cases = [
        (sum, DType::F32, [4, 2], sum, DType::F32, [2, 4]),
        (sum, DType::F32, [4, 2], sum, DType::I32, [4, 2]),
        (
            sum,
            DType::F32,
            [4, 2],
            Collective::AllReduce(ReduceOp::Max),
            DType::F32,
            [4, 2],
        ),
        (
            Collective::Broadcast { root: 0 },
            DType::F32,
            [4, 2],
            Collective::Broadcast { root: 1 },
            DType::F32,
            [4, 2],
        ),
        (
            Collective::AllGather,
            DType::U8,
            [4, 2],
            Collective::AllToAll,
            DType::U8,
            [4, 2],
        ),
    ];
    together(make(3), |rank| {
        for (one, dtype, shape, other, other_dtype, other_shape) in cases {
            // The last rank differs.
            let result = match rank.rank() {
                2 => rank.run(other, &[sample(other_dtype, &other_shape, 1)]),
                _ => rank.run(one, &[sample(dtype, &shape, 1)]),
            };
            assert!(
                matches!(result, Err(CommError::Mismatch { rank: 2, .. })),
                "{result:?}"
            );
            check(rank, sum, &[DType::F32], &[100], 5);
        }
    });
}

/// Tests a rank that contributes a failure.
pub fn a_failure_is_told_to_everybody_and_the_group_goes_on<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    together(make(3), |rank| {
        for operation in operations(3).into_iter().chain([Collective::Barrier]) {
            let plan = rank.plan(operation).unwrap();
            let tensor = sample(DType::F32, &[9], 1);
            let part = [Part::from(&tensor)];
            let contribution = match rank.rank() {
                1 => Contribution::Failure(b"out of ideas"),
                _ => Contribution::Parts(&part),
            };
            rank.launch(plan, contribution).unwrap();
            match rank.wait(Some(LONG)) {
                Err(CommError::PeerFailed { rank: 1, report }) => assert_eq!(report, b"out of ideas"),
                other => panic!("{operation}: {other:?}"),
            }
        }
        check(
            rank,
            Collective::AllReduce(ReduceOp::Sum),
            &[DType::F32],
            &[100],
            5,
        );
    });
}

/// Tests contributions that cannot be cut, gathered or added.
pub fn what_is_undefined_is_refused_alike<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let sum = ReduceOp::Sum;
    together(make(2), |rank| {
        let scatter = rank.run(Collective::ReduceScatter(sum), &[sample(DType::F32, &[3, 2], 1)]);
        assert!(
            matches!(scatter, Err(CommError::Indivisible { ranks: 2, .. })),
            "{scatter:?}"
        );
        let scatter = rank.run(Collective::Scatter { root: 1 }, &[sample(DType::F32, &[], 1)]);
        assert!(
            matches!(scatter, Err(CommError::Indivisible { .. })),
            "{scatter:?}"
        );
        let gather = rank.run(Collective::AllGather, &[sample(DType::F32, &[], 1)]);
        assert!(matches!(gather, Err(CommError::Scalar { .. })), "{gather:?}");
        let added = rank.run(Collective::AllReduce(sum), &[sample(DType::Bool, &[4], 1)]);
        assert!(
            matches!(added, Err(CommError::NoSuchReduction { .. })),
            "{added:?}"
        );
        let root = rank.run(Collective::Broadcast { root: 2 }, &[]);
        assert!(
            matches!(root, Err(CommError::NoSuchRank { rank: 2, ranks: 2 })),
            "{root:?}"
        );
        check(rank, Collective::AllReduce(sum), &[DType::F32], &[100], 5);
    });
}

/// Tests that a second launch is refused, and a wait without an operation too.
pub fn one_operation_at_a_time<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    together(make(2), |rank| {
        assert!(matches!(rank.wait(Some(SHORT)), Err(CommError::Idle)));
        assert!(matches!(rank.poll(), Err(CommError::Idle)));
        launch(rank, Collective::Barrier, &[]).unwrap();
        assert!(matches!(
            launch(rank, Collective::AllGather, &[]),
            Err(CommError::Busy { .. })
        ));
        rank.wait(Some(LONG)).unwrap();
        rank.barrier().unwrap();
    });
}

/// Tests that a rank that waits for a late rank gets a time-out, and the result after the late rank has come.
pub fn a_wait_ends_in_time_and_can_go_on<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let late = Barrier::new(2);
    together(make(2), |rank| {
        if rank.rank() == 1 {
            late.wait();
        }
        launch(
            rank,
            Collective::AllReduce(ReduceOp::Sum),
            &[sample(DType::F32, &[4], 1)],
        )
        .unwrap();
        if rank.rank() == 0 {
            assert!(matches!(rank.wait(Some(SHORT)), Err(CommError::Timeout { .. })));
            assert!(matches!(rank.poll(), Ok(None)));
            late.wait();
        }
        assert_eq!(rank.wait(Some(LONG)).unwrap().len(), 1);
    });
}

/// Tests an abort from another thread, while all ranks wait; more than once.
pub fn an_abort_wakes_everybody<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let mut ranks = make(3);
    let absent = ranks.remove(2);
    let abort = absent.abort_handle();
    let waiting = Barrier::new(3);
    thread::scope(|scope| {
        for mut rank in ranks {
            let waiting = &waiting;
            scope.spawn(move || {
                launch(&mut rank, Collective::Barrier, &[]).unwrap();
                waiting.wait();
                let ended = rank.wait(Some(LONG));
                assert!(matches!(ended, Err(CommError::Aborted { .. })), "{ended:?}");
                assert!(
                    launch(&mut rank, Collective::Barrier, &[]).is_err(),
                    "it has ended"
                );
            });
        }
        waiting.wait();
        abort.abort();
        abort.abort();
    });
    drop(absent);
}

/// Tests that a rank that is dropped has left.
pub fn who_leaves_is_not_waited_for<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    let mut ranks = make(2);
    let gone = ranks.remove(1);
    together(ranks, |rank| {
        launch(rank, Collective::AllGather, &[sample(DType::F32, &[2], 1)]).unwrap();
        thread::scope(|_| ());
    });
    // The other rank was dropped with an operation in flight, which has ended the group for this rank, too.
    let mut gone = gone;
    let ended = gone.barrier();
    assert!(
        matches!(
            ended,
            Err(CommError::PeerLeft { rank: 0 } | CommError::Aborted { rank: 0 })
        ),
        "{ended:?}"
    );

    let mut ranks = make(2);
    drop(ranks.remove(1));
    let left = ranks[0].barrier();
    assert!(matches!(left, Err(CommError::PeerLeft { rank: 1 })), "{left:?}");
}

/// Tests that closing completes the operation in flight, and that no rank is left behind.
pub fn a_close_brings_to_an_end<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    thread::scope(|scope| {
        for mut rank in make(3) {
            scope.spawn(move || {
                launch(
                    &mut rank,
                    Collective::AllReduce(ReduceOp::Sum),
                    &[sample(DType::F32, &[4], 1)],
                )
                .unwrap();
                let rank: Box<dyn Communicator + '_> = Box::new(rank);
                rank.close(LONG).unwrap();
            });
        }
    });
}
