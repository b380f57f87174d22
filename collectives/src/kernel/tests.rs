use super::*;
use half::{bf16, f16};

fn run<E: Copy + Default>(op: ReduceOp, dtype: DType, ranks: &[Vec<E>]) -> Vec<E> {
    let count = ranks[0].len();
    let mut to = vec![E::default(); count];
    let from: Vec<*const u8> = ranks.iter().map(|rank| rank.as_ptr().cast()).collect();
    // SAFETY: `count` elements of `E`, the type that `dtype` names, lie behind each pointer.
    assert!(unsafe { reduce(op, dtype, to.as_mut_ptr().cast(), &from, count) });
    to
}

#[test]
fn an_average_of_integers_does_not_wrap_and_rounds_towards_zero() {
    assert_eq!(
        run(ReduceOp::Average, DType::U8, &[vec![255u8; 3], vec![254; 3]]),
        [254; 3]
    );
    assert_eq!(run(ReduceOp::Average, DType::I8, &[vec![-3i8], vec![0]]), [-1]);
    assert_eq!(
        run(
            ReduceOp::Average,
            DType::I64,
            &[vec![i64::MAX; 70], vec![i64::MAX; 70]]
        ),
        [i64::MAX; 70]
    );
    assert_eq!(
        run(ReduceOp::Average, DType::U64, &[vec![u64::MAX], vec![u64::MAX]]),
        [u64::MAX]
    );
}

#[test]
fn nan_wins_on_every_side_and_a_sum_wraps() {
    for op in [ReduceOp::Min, ReduceOp::Max] {
        for ranks in [[1.0f32, f32::NAN], [f32::NAN, 1.0]] {
            let ranks = ranks.map(|value| vec![value; 65]);
            assert!(
                run(op, DType::F32, &ranks).iter().all(|value| value.is_nan()),
                "{op}"
            );
        }
    }
    assert_eq!(run(ReduceOp::Sum, DType::U8, &[vec![200u8], vec![100]]), [44]);
}

#[test]
fn short_floats_are_rounded_once() {
    // Rounded after each rank, 2048 + 1 + 1 + 1 is 2048 in f16; 2051 rounds to even, to 2052.
    let ranks: Vec<Vec<f16>> = [2048.0, 1.0, 1.0, 1.0]
        .iter()
        .map(|value| vec![f16::from_f32(*value); 65])
        .collect();
    assert_eq!(
        run(ReduceOp::Sum, DType::F16, &ranks),
        vec![f16::from_f32(2052.0); 65]
    );
    let ranks: Vec<Vec<bf16>> = [256.0, 1.0, 1.0, 1.0]
        .iter()
        .map(|value| vec![bf16::from_f32(*value); 65])
        .collect();
    assert_eq!(
        run(ReduceOp::Sum, DType::BF16, &ranks),
        vec![bf16::from_f32(260.0); 65]
    );
}

#[test]
fn truth_values_have_all_and_any_and_no_sum() {
    let ranks = [vec![0u8, 7, 1], vec![1, 1, 0]];
    assert_eq!(run(ReduceOp::Min, DType::Bool, &ranks), [0, 1, 0]);
    assert_eq!(run(ReduceOp::Max, DType::Bool, &ranks), [1, 1, 1]);
    let mut to = [0u8];
    let from = [to.as_ptr()];
    // SAFETY: one byte lies behind each pointer.
    assert!(!unsafe { reduce(ReduceOp::Sum, DType::Bool, to.as_mut_ptr(), &from, 1) });
}

#[test]
fn the_target_may_be_one_of_the_sources() {
    for place in 0..3 {
        let mut ranks: Vec<Vec<i32>> = (0..3)
            .map(|rank| (0..200).map(|index| index * 10 + rank).collect())
            .collect();
        let to = ranks[place].as_mut_ptr();
        let from: Vec<*const u8> = ranks
            .iter()
            .enumerate()
            .map(|(at, rank)| {
                if at == place {
                    to.cast_const().cast()
                } else {
                    rank.as_ptr().cast()
                }
            })
            .collect();
        // SAFETY: 200 elements lie behind each pointer; the target is one of the sources.
        assert!(unsafe { reduce(ReduceOp::Sum, DType::I32, to.cast(), &from, 200) });
        assert!(
            ranks[place]
                .iter()
                .enumerate()
                .all(|(index, sum)| *sum == index as i32 * 30 + 3)
        );
    }
}

#[test]
fn a_copy_is_one_from_and_to_any_address() {
    let from: Vec<u8> = (0..100_003u32).map(|at| at as u8).collect();
    for stores in [Stores::Cached, Stores::Streaming] {
        for (start, end) in [(0, 100_003), (1, 100_000), (16, 99_999), (7, 7), (64, 70)] {
            let mut to = vec![9u8; 100_003];
            let (source, target) = (
                from.as_ptr().wrapping_add(start),
                to.as_mut_ptr().wrapping_add(start),
            );
            // SAFETY: both ranges are inside their vectors.
            unsafe { copy(source, target, end - start, stores) };
            assert_eq!(to[start..end], from[start..end]);
            assert!(to[..start].iter().chain(&to[end..]).all(|it| *it == 9));
        }
    }
}
