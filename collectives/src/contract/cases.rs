//! Cases of the contract: sample tensors, all operations, and the comparison of a communicator with the reference.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)] // tests that other crates run

use std::thread;
use std::time::Duration;

use selvedge_channels::{DType, Tensor};

use super::reference::{BF16, F16, expected, narrowed, widened};
use crate::communicator::{Capabilities, Communicator, Contribution};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::Part;

/// A time limit that is long enough for any machine that works.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// A time limit that is short enough to pass in a test.
pub(super) const SHORT: Duration = Duration::from_millis(20);

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

pub(super) fn launch<C: Communicator>(
    rank: &mut C,
    operation: Collective,
    tensors: &[Tensor],
) -> Result<(), CommError> {
    let plan = rank.plan(operation)?;
    let parts: Vec<Part<'_>> = tensors.iter().map(Part::from).collect();
    rank.launch(plan, Contribution::Parts(&parts))
}

/// Runs an operation, which every rank does, and compares the result with the reference.
pub(super) fn check<C: Communicator>(
    rank: &mut C,
    operation: Collective,
    dtypes: &[DType],
    shape: &[usize],
    seed: u64,
) {
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

pub(super) fn is_done(capabilities: &Capabilities, operation: Collective, dtype: DType) -> bool {
    operation
        .reduce_op()
        .is_none_or(|op| op.is_defined_for(dtype) && !capabilities.lacks_reductions.contains(&(op, dtype)))
}
