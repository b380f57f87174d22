//! Results compared with a sequential reference: random operations, types, shapes and numbers of ranks. They are equal
//! on all ranks and in every run, bit for bit.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test may panic

use proptest::prelude::*;
use selvedge_channels::{DType, Element, Tensor};
use selvedge_collectives::contract::{expected, operations, sample, together};
use selvedge_collectives::{Collective, CommError, Communicator, Group, Rank, ReduceOp};

/// A tensor of arbitrary bits: floats include NaNs, infinities and subnormal numbers.
fn any_bits(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let words = sample(
        DType::U8,
        &[shape.iter().product::<usize>() * dtype.size_bytes()],
        seed,
    );
    Tensor::from_raw(dtype, shape, words.bytes()).unwrap()
}

/// Whether the bytes are equal, with all NaNs taken as equal: the processor chooses the NaN that a sum of two NaNs
/// returns.
fn same(one: &Tensor, other: &Tensor) -> bool {
    if one == other {
        return true;
    }
    let nan = |tensor: &Tensor| -> Option<Vec<Option<u64>>> {
        let bits = |size: usize| {
            tensor.bytes().chunks_exact(size).map(|bytes| {
                bytes
                    .iter()
                    .rev()
                    .fold(0, |all, byte| all << 8 | u64::from(*byte))
            })
        };
        let (size, exponent, fraction) = match tensor.dtype() {
            DType::F16 => (2, 0x7c00, 0x03ff),
            DType::BF16 => (2, 0x7f80, 0x007f),
            DType::F32 => (4, 0x7f80_0000, 0x007f_ffff),
            DType::F64 => (8, 0x7ff0_0000_0000_0000, 0x000f_ffff_ffff_ffff),
            _ => return None,
        };
        Some(
            bits(size)
                .map(|bits| (bits & exponent != exponent || bits & fraction == 0).then_some(bits))
                .collect(),
        )
    };
    one.shape() == other.shape()
        && one.dtype() == other.dtype()
        && nan(one).is_some()
        && nan(one) == nan(other)
}

fn group(ranks: usize) -> Vec<Rank> {
    let group = Group::in_process(ranks).unwrap();
    (0..ranks).map(|rank| group.rank(rank).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 150 }, ..ProptestConfig::default() })]

    #[test]
    fn comm_06_any_operation_equals_the_reference(
        ranks in 1usize..=8,
        operation in any::<prop::sample::Index>(),
        dtypes in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
        rows in 0usize..40,
        columns in 1usize..40,
        seed in any::<u64>(),
        wild in any::<bool>(),
    ) {
        let operations = operations(ranks);
        let operation = operations[operation.index(operations.len())];
        let dtypes: Vec<DType> = dtypes.iter().map(|it| DType::ALL[it.index(DType::ALL.len())]).collect();
        prop_assume!(dtypes.iter().all(|dtype| operation.reduce_op().is_none_or(|op| op.is_defined_for(*dtype))));
        let shape = [rows * ranks, columns];
        let make = |rank: usize| -> Vec<Tensor> {
            let seed = |part: usize| seed ^ (rank * 100 + part) as u64;
            let tensor = |(part, dtype): (usize, &DType)| match wild {
                true if *dtype != DType::Bool => any_bits(*dtype, &shape, seed(part)),
                _ => sample(*dtype, &shape, seed(part)),
            };
            dtypes.iter().enumerate().map(tensor).collect()
        };
        let brought: Vec<Vec<Tensor>> = (0..ranks).map(make).collect();
        let results = together(group(ranks), |rank| rank.run(operation, &brought[rank.rank()]).unwrap());
        for (rank, result) in results.iter().enumerate() {
            let right = expected(operation, &brought, rank).unwrap();
            prop_assert_eq!(result.len(), right.len());
            for (found, right) in result.iter().zip(&right) {
                prop_assert!(same(found, right), "{} on rank {} of {}: {:?} {:?}", operation, rank, ranks, found, right);
            }
        }
    }

    #[test]
    fn a_private_slice_is_reduced_as_a_tensor_is(
        ranks in 1usize..=8,
        len in prop_oneof![0usize..2000, 30_000usize..70_000],
        op in prop::sample::select(ReduceOp::ALL.to_vec()),
        seed in any::<u64>(),
    ) {
        let brought: Vec<Vec<Tensor>> = (0..ranks).map(|rank| vec![sample(DType::F32, &[len], seed ^ rank as u64)]).collect();
        let slices = together(group(ranks), |rank| {
            let mut values = brought[rank.rank()][0].to_vec::<f32>().unwrap();
            rank.allreduce_slice(op, &mut values).unwrap();
            values
        });
        let right = expected(Collective::AllReduce(op), &brought, 0).unwrap();
        for slice in slices {
            prop_assert_eq!(slice.as_slice(), right[0].as_slice::<f32>().unwrap());
        }
    }
}

/// Compares reductions over private vectors of one type, at an address that is not aligned to a cache line.
fn private<E: Element>(op: ReduceOp, len: usize) {
    let brought: Vec<Vec<Tensor>> = (0..2).map(|rank| vec![sample(E::DTYPE, &[len], rank)]).collect();
    let joined = together(group(2), |rank| {
        let own = brought[rank.rank()][0].to_vec::<E>().unwrap();
        let mut values = vec![own[0]];
        values.extend(own);
        rank.allreduce_slice(op, &mut values[1..]).unwrap();
        Tensor::from_slice(&values[1..], &[len]).unwrap()
    });
    assert_eq!(
        joined[0].bytes(),
        joined[1].bytes(),
        "equal bit for bit: {op} of {len}"
    );
    let right = expected(Collective::AllReduce(op), &brought, 0).unwrap();
    assert!(same(&joined[0], &right[0]), "{op} of {len} {:?}", E::DTYPE);
}

#[test]
#[cfg_attr(miri, ignore = "too much for an interpreter")]
fn comm_06_private_vectors_of_two_ranks_are_joined_as_the_reference_does() {
    // Lengths around the ends of chunks and of rings, and lengths for which one rank has nothing to join.
    for len in [300, 2_049, 4_097, 16_384, 33_000, 300_001] {
        for op in ReduceOp::ALL {
            private::<u8>(op, len);
            private::<i8>(op, len);
            private::<u16>(op, len);
            private::<i16>(op, len);
            private::<u32>(op, len);
            private::<i32>(op, len);
            private::<u64>(op, len);
            private::<i64>(op, len);
            private::<f32>(op, len);
            private::<f64>(op, len);
        }
    }
}

#[test]
fn comm_07_a_private_vector_and_something_else_are_told_apart_and_the_group_goes_on() {
    let sum = Collective::AllReduce(ReduceOp::Sum);
    together(group(2), |rank| {
        for case in 0..5 {
            let mut values = vec![1.0_f32; 1000];
            let result = match (rank.rank(), case) {
                (0, _) => rank.allreduce_slice(ReduceOp::Sum, &mut values),
                (_, 0) => rank.run(sum, &[sample(DType::F32, &[1000], 1)]).map(drop),
                (_, 1) => rank.allreduce_slice(ReduceOp::Sum, &mut values[1..]),
                (_, 2) => rank.allreduce_slice(ReduceOp::Sum, &mut values[900..]),
                (_, 3) => rank.allreduce_slice(ReduceOp::Max, &mut values),
                _ => rank.allreduce_slice(ReduceOp::Sum, &mut [1_u32; 1000]),
            };
            let Err(CommError::Mismatch {
                first,
                rank: 1,
                other,
            }) = result
            else {
                panic!("{case}: {result:?}")
            };
            assert_eq!(first, "allreduce(sum) in place of f32[1000]", "{case}");
            let right = [
                "allreduce(sum) of f32[1000]",
                "allreduce(sum) in place of f32[999]",
                "allreduce(sum) of f32[100], f32[0, 100]",
                "allreduce(max) in place of f32[1000]",
                "allreduce(sum) in place of u32[1000]",
            ];
            assert_eq!(other, right[case]);
            let mut values = vec![rank.rank() as u8 + 1; 40_000];
            rank.allreduce_slice(ReduceOp::Sum, &mut values).unwrap();
            assert_eq!(values, [3; 40_000]);
        }
    });
}

#[test]
#[cfg_attr(miri, ignore = "too much for an interpreter")]
fn a_sum_of_floats_is_the_same_on_all_ranks_and_in_a_hundred_runs() {
    for ranks in 1..=8 {
        let mut first: Option<Vec<u8>> = None;
        for _ in 0..100 {
            let sums = together(group(ranks), |rank| {
                let value = |at: usize| (at as f32 + 0.1) * 10f32.powi(rank.rank() as i32 * 3);
                let tensor = Tensor::from_vec((0..3001).map(value).collect(), &[3001]).unwrap();
                rank.allreduce(ReduceOp::Sum, &[tensor]).unwrap()[0]
                    .bytes()
                    .to_vec()
            });
            let first = first.get_or_insert_with(|| sums[0].clone());
            assert!(sums.iter().all(|sum| sum == first));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too much for an interpreter")]
fn sixteen_mebi_elements_and_one() {
    const COUNT: usize = (16 << 20) + 1;
    together(group(2), |rank| {
        let own = rank.rank() as u8 + 1;
        let tensor = Tensor::filled(DType::U8, [COUNT], |bytes| bytes.fill(own)).unwrap();
        let sum = rank.allreduce(ReduceOp::Sum, &[tensor]).unwrap();
        assert!(sum[0].bytes().iter().all(|byte| *byte == 3) && sum[0].len() == COUNT);
        let mut slice = vec![f32::from(own); COUNT];
        rank.allreduce_slice(ReduceOp::Product, &mut slice).unwrap();
        assert!(slice.iter().all(|it| *it == 2.0));
    });
}
