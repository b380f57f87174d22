//! The promises of communicators, one function each. A function panics if its promise is broken, as tests do.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)] // tests that other crates run

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use selvedge_channels::{DType, Tensor};

use super::reference::{BF16, F16, expected, narrowed, widened};
use crate::communicator::{Capabilities, Communicator, Contribution};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::Part;

/// A time limit that is long enough for any machine that works.
const PATIENCE: Duration = Duration::from_secs(60);
/// A time limit that is short enough to pass in a test.
const SHORT: Duration = Duration::from_millis(20);

/// All types of elements.
pub const DTYPES: [DType; 13] = [
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::Bool,
];

/// Returns every operation except the barrier, for a group of `ranks` ranks.
pub fn operations(ranks: usize) -> Vec<Collective> {
    let mut all = vec![Collective::AllGather, Collective::AllToAll];
    for op in ReduceOp::ALL {
        all.extend([Collective::AllReduce(op), Collective::ReduceScatter(op)]);
        all.extend((0..ranks).map(|root| Collective::Reduce { op, root }));
    }
    for root in 0..ranks {
        all.extend([
            Collective::Gather { root },
            Collective::Broadcast { root },
            Collective::Scatter { root },
        ]);
    }
    all
}

/// Returns a tensor of numbers that depend on `seed`: finite floats, any integers.
pub fn sample(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed;
    let mut next = move || {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    };
    let float = |bits: u64| ((bits % 20_011) as f64 - 10_005.0) / 128.0;
    let bytes: Vec<u8> = (0..count)
        .flat_map(|_| {
            let bits = next();
            match dtype {
                DType::F32 => (float(bits) as f32).to_ne_bytes().to_vec(),
                DType::F64 => float(bits).to_ne_bytes().to_vec(),
                DType::F16 => narrowed(float(bits) as f32, F16).to_ne_bytes().to_vec(),
                DType::BF16 => narrowed(float(bits) as f32, BF16).to_ne_bytes().to_vec(),
                DType::Bool => vec![u8::from(bits & 1 == 1)],
                _ => bits.to_ne_bytes()[..dtype.size_bytes()].to_vec(),
            }
        })
        .collect();
    Tensor::from_raw(dtype, shape, &bytes).unwrap()
}

/// Runs `act` for every rank, each on a thread of its own. Returns the results, by rank.
pub fn together<C: Communicator, R: Send>(ranks: Vec<C>, act: impl Fn(&mut C) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let act = &act;
        let start = |mut rank: C| scope.spawn(move || act(&mut rank));
        let threads: Vec<_> = ranks.into_iter().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn launch<C: Communicator>(rank: &mut C, operation: Collective, tensors: &[Tensor]) -> Result<(), CommError> {
    let plan = rank.plan(operation)?;
    let parts: Vec<Part<'_>> = tensors.iter().map(Part::from).collect();
    rank.launch(plan, Contribution::Parts(&parts))
}

/// Runs an operation, which every rank does, and compares the result with the reference.
fn check<C: Communicator>(rank: &mut C, operation: Collective, dtypes: &[DType], shape: &[usize], seed: u64) {
    let ranks = rank.world_size();
    let of = |rank: usize| -> Vec<Tensor> {
        let tensor =
            |(part, dtype): (usize, &DType)| sample(*dtype, shape, seed ^ (rank * 1000 + part) as u64);
        dtypes.iter().enumerate().map(tensor).collect()
    };
    let brought: Vec<Vec<Tensor>> = (0..ranks).map(of).collect();
    let own = rank.rank();
    let result = rank.run(operation, &brought[own]);
    let result = result
        .unwrap_or_else(|error| panic!("{operation} of {dtypes:?}{shape:?} on {own} of {ranks}: {error}"));
    let right = expected(operation, &brought, own).unwrap();
    let same = match rank.capabilities().fixed_order {
        true => result == right,
        false => {
            result.len() == right.len()
                && result
                    .iter()
                    .zip(&right)
                    .all(|(one, other)| is_near(one, other, ranks))
        }
    };
    assert!(
        same,
        "{operation} of {dtypes:?}{shape:?} on {own} of {ranks}: {result:?}, not {right:?}"
    );
}

/// Whether two tensors are equal except for the rounding of sums of `terms` numbers in another order.
fn is_near(one: &Tensor, other: &Tensor, terms: usize) -> bool {
    let values = |tensor: &Tensor| -> Option<(Vec<f64>, f64)> {
        let wide = |bits: &[u8]| u16::from_ne_bytes([bits[0], bits[1]]);
        let bytes = tensor.bytes();
        Some(match tensor.dtype() {
            DType::F64 => (tensor.to_vec::<f64>().ok()?, f64::EPSILON),
            DType::F32 => {
                let values = tensor.to_vec::<f32>().ok()?;
                (
                    values.into_iter().map(f64::from).collect(),
                    f64::from(f32::EPSILON),
                )
            }
            DType::F16 => {
                let values = bytes.chunks(2).map(|bits| f64::from(widened(wide(bits), F16)));
                (values.collect(), 0.001)
            }
            DType::BF16 => {
                let values = bytes.chunks(2).map(|bits| f64::from(widened(wide(bits), BF16)));
                (values.collect(), 0.008)
            }
            _ => return None,
        })
    };
    let alike = one.dtype() == other.dtype() && one.shape() == other.shape();
    match (values(one), values(other)) {
        (Some((one, rounding)), Some((other, _))) if alike => {
            let size = other.iter().fold(1.0, |most: f64, value| most.max(value.abs()));
            let near = rounding * terms as f64 * size;
            one.iter()
                .zip(&other)
                .all(|(a, b)| a == b || (a - b).abs() <= near)
        }
        _ => one == other,
    }
}

fn is_done(capabilities: &Capabilities, operation: Collective, dtype: DType) -> bool {
    operation
        .reduce_op()
        .is_none_or(|op| op.is_defined_for(dtype) && !capabilities.lacks_reductions.contains(&(op, dtype)))
}

/// Tests all operations, reductions, types of elements and roots, in groups of 1 to 4.
pub fn every_operation_equals_the_reference<C: Communicator>(make: &dyn Fn(usize) -> Vec<C>) {
    // The interpreter (Miri) is slow, so it runs fewer cases.
    let (most, types) = if cfg!(miri) {
        (2, 9..11)
    } else {
        (4, 0..DTYPES.len())
    };
    for ranks in 1..=most {
        together(make(ranks), |rank| {
            for operation in operations(ranks)
                .into_iter()
                .take(if cfg!(miri) { 6 } else { usize::MAX })
            {
                let dtypes = DTYPES.iter().copied().take(types.end).skip(types.start);
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
            match rank.wait(Some(PATIENCE)) {
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
        rank.wait(Some(PATIENCE)).unwrap();
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
        assert_eq!(rank.wait(Some(PATIENCE)).unwrap().len(), 1);
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
                let ended = rank.wait(Some(PATIENCE));
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
                rank.send(to, &message(own, to, round), Some(PATIENCE)).unwrap();
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
                assert_eq!(
                    rank.recv(from, Some(PATIENCE)).unwrap(),
                    message(from, own, round)
                );
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
                rank.close(PATIENCE).unwrap();
            });
        }
    });
}
