//! The reference: every operation in one thread, element by element. The contract compares any communicator with it.

use selvedge_channels::{DType, Element, Tensor};

use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};

/// Returns the error that every rank gets for these operations and tensors, if they have no result.
pub fn refused(operations: &[Collective], brought: &[Vec<Tensor>]) -> Option<CommError> {
    let ranks = operations.len();
    let first = *operations.first()?;
    let shapes = |rank: usize| -> Vec<_> {
        let tensors = brought.get(rank).map_or(&[] as &[Tensor], Vec::as_slice);
        let seen = tensors.iter().filter(|_| first.reads_all());
        seen.map(|tensor| (tensor.dtype(), tensor.shape().to_vec()))
            .collect()
    };
    let differs = |rank: &usize| operations.get(*rank) != Some(&first) || shapes(*rank) != shapes(0);
    if let Some(rank) = (0..ranks).find(differs) {
        let name = |rank: usize| format!("{:?} of {:?}", operations.get(rank), shapes(rank));
        return Some(CommError::Mismatch {
            first: name(0),
            rank,
            other: name(rank),
        });
    }
    let giver = first.root().filter(|_| !first.reads_all()).unwrap_or(0);
    brought.get(giver)?.iter().find_map(|tensor| {
        let shape = tensor.shape();
        let parts = shape.first().is_some_and(|first| first.is_multiple_of(ranks));
        match first {
            _ if first.cuts() && !parts => Some(CommError::Indivisible {
                operation: first,
                shape: shape.to_vec(),
                ranks,
            }),
            Collective::AllGather | Collective::Gather { .. } if shape.is_empty() => {
                Some(CommError::Scalar { operation: first })
            }
            _ => {
                let op = first
                    .reduce_op()
                    .filter(|op| !op.is_defined_for(tensor.dtype()))?;
                Some(CommError::NoSuchReduction {
                    op,
                    dtype: tensor.dtype(),
                })
            }
        }
    })
}

/// Returns the result of rank `rank` when the ranks contribute `brought`, by rank; empty if the rank gets no result.
/// `None` if the operation is not defined for these contributions.
pub fn expected(operation: Collective, brought: &[Vec<Tensor>], rank: usize) -> Option<Vec<Tensor>> {
    if !operation.returns_to(rank) {
        return Some(Vec::new());
    }
    let ranks = brought.len();
    let giver = operation
        .root()
        .filter(|_| !operation.reads_all())
        .unwrap_or(rank);
    let giver = brought.get(giver)?;
    (0..giver.len())
        .map(|part| {
            let of = |rank: usize| brought.get(rank)?.get(part);
            let parts: Vec<&Tensor> = (0..ranks)
                .map(of)
                .collect::<Option<_>>()
                .or_else(|| Some(vec![giver.get(part)?]))?;
            match operation {
                Collective::AllReduce(op) | Collective::Reduce { op, .. } => reduced(op, &parts),
                Collective::ReduceScatter(op) => cut(&reduced(op, &parts)?, ranks, rank),
                Collective::AllGather | Collective::Gather { .. } => chained(&parts),
                Collective::Broadcast { .. } => giver.get(part).cloned(),
                Collective::Scatter { .. } => cut(giver.get(part)?, ranks, rank),
                Collective::AllToAll => {
                    let cuts: Vec<Tensor> = parts
                        .iter()
                        .map(|part| cut(part, ranks, rank))
                        .collect::<Option<_>>()?;
                    chained(&cuts.iter().collect::<Vec<_>>())
                }
                Collective::Barrier => None,
            }
        })
        .collect()
}

/// Returns part `rank` of `ranks` parts, along the first dimension.
fn cut(tensor: &Tensor, ranks: usize, rank: usize) -> Option<Tensor> {
    let mut shape = tensor.shape().to_vec();
    let first = shape.first_mut().filter(|first| first.is_multiple_of(ranks))?;
    *first /= ranks;
    let len = tensor.bytes().len() / ranks;
    Tensor::from_raw(
        tensor.dtype(),
        &shape,
        tensor.bytes().get(rank * len..(rank + 1) * len)?,
    )
    .ok()
}

fn chained(parts: &[&Tensor]) -> Option<Tensor> {
    let first = parts.first()?;
    let mut shape = first.shape().to_vec();
    *shape.first_mut()? *= parts.len();
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes()).copied().collect();
    Tensor::from_raw(first.dtype(), &shape, &bytes).ok()
}

fn reduced(op: ReduceOp, parts: &[&Tensor]) -> Option<Tensor> {
    let dtype = parts.first()?.dtype();
    match dtype {
        DType::F32 => floats(op, parts),
        DType::F64 => doubles(op, parts),
        DType::F16 => halves(op, parts, F16),
        DType::BF16 => halves(op, parts, BF16),
        DType::U8 => integers::<u8>(op, parts, |x| x as u8),
        DType::U16 => integers::<u16>(op, parts, |x| x as u16),
        DType::U32 => integers::<u32>(op, parts, |x| x as u32),
        DType::U64 => integers::<u64>(op, parts, |x| x as u64),
        DType::I8 => integers::<i8>(op, parts, |x| x as i8),
        DType::I16 => integers::<i16>(op, parts, |x| x as i16),
        DType::I32 => integers::<i32>(op, parts, |x| x as i32),
        DType::I64 => integers::<i64>(op, parts, |x| x as i64),
        DType::Bool => truths(op, parts),
        _ => None,
    }
}

/// Combines the values of all ranks to one, element by element; the values are in the order of ranks.
fn each<E: Copy, R>(
    columns: &[Vec<E>],
    reduce: impl Fn(&mut dyn Iterator<Item = E>) -> Option<R>,
) -> Option<Vec<R>> {
    let len = columns.first()?.len();
    (0..len)
        .map(|index| reduce(&mut columns.iter().filter_map(|column| column.get(index).copied())))
        .collect()
}

fn lists<E: Element>(parts: &[&Tensor]) -> Option<Vec<Vec<E>>> {
    parts.iter().map(|part| part.to_vec::<E>().ok()).collect()
}

/// Combines integers in 128 bits, wider than any integer here, and wraps once at the end. (A product of eight 64-bit
/// numbers wraps in 128 bits too, but its lower 64 bits are right.)
fn integers<E: Element + Into<i128>>(
    op: ReduceOp,
    parts: &[&Tensor],
    wrap: impl Fn(i128) -> E,
) -> Option<Tensor> {
    let ranks = parts.len() as i128;
    let columns = each(&lists::<E>(parts)?, |values| {
        let values = values.map(Into::<i128>::into);
        let wide = match op {
            ReduceOp::Sum => values.fold(0, i128::wrapping_add),
            ReduceOp::Product => values.fold(1, i128::wrapping_mul),
            ReduceOp::Min => values.min()?,
            ReduceOp::Max => values.max()?,
            ReduceOp::Average => values.sum::<i128>() / ranks,
        };
        Some(wrap(wide))
    })?;
    Tensor::from_slice(&columns, parts.first()?.shape()).ok()
}

macro_rules! float {
    ($reduce:ident, $type:ty) => {
        fn $reduce(op: ReduceOp, values: &mut dyn Iterator<Item = $type>, ranks: usize) -> Option<$type> {
            let first = values.next()?;
            let chosen = |one: $type, next: $type, keep: bool| {
                if one.is_nan() || (keep && !next.is_nan()) {
                    one
                } else {
                    next
                }
            };
            Some(match op {
                ReduceOp::Sum => values.fold(first, |sum, next| sum + next),
                ReduceOp::Product => values.fold(first, |product, next| product * next),
                ReduceOp::Min => values.fold(first, |one, next| chosen(one, next, one <= next)),
                ReduceOp::Max => values.fold(first, |one, next| chosen(one, next, one >= next)),
                ReduceOp::Average => values.fold(first, |sum, next| sum + next) / ranks as $type,
            })
        }
    };
}

float!(float, f32);
float!(double, f64);

fn floats(op: ReduceOp, parts: &[&Tensor]) -> Option<Tensor> {
    let columns = each(&lists::<f32>(parts)?, |values| float(op, values, parts.len()))?;
    Tensor::from_slice(&columns, parts.first()?.shape()).ok()
}

fn doubles(op: ReduceOp, parts: &[&Tensor]) -> Option<Tensor> {
    let columns = each(&lists::<f64>(parts)?, |values| double(op, values, parts.len()))?;
    Tensor::from_slice(&columns, parts.first()?.shape()).ok()
}

/// The formats of 16-bit floats: bits of the exponent and bits of the fraction.
pub(super) const F16: (u32, u32) = (5, 10);
pub(super) const BF16: (u32, u32) = (8, 7);

/// Returns the value of a 16-bit float with these numbers of exponent and fraction bits, by the definition of the
/// format.
pub(super) fn widened(bits: u16, (exponents, fractions): (u32, u32)) -> f32 {
    let fraction = f64::from(bits & ((1 << fractions) - 1));
    let exponent = i32::from(bits >> fractions & ((1 << exponents) - 1));
    let bias = (1 << (exponents - 1)) - 1;
    let step = |exponent: i32| f64::from(exponent - bias - fractions.cast_signed()).exp2();
    let size = match exponent {
        0 => fraction * step(1),
        _ if exponent == 2 * bias + 1 && fraction == 0.0 => f64::INFINITY,
        _ if exponent == 2 * bias + 1 => f64::NAN,
        _ => (fraction + f64::from(1 << fractions)) * step(exponent),
    };
    (if bits >> 15 == 1 { -size } else { size }) as f32
}

/// Returns the nearest 16-bit float; of two equally near ones, the even one.
pub(super) fn narrowed(value: f32, (exponents, fractions): (u32, u32)) -> u16 {
    let sign = u16::from(value.is_sign_negative()) << 15;
    let bias = (1 << (exponents - 1)) - 1;
    let infinity = (2 * bias + 1) << fractions;
    if value.is_nan() {
        return sign | infinity as u16 | 1 << (fractions - 1);
    }
    if value.is_infinite() {
        return sign | infinity as u16;
    }
    let size = f64::from(value.abs());
    // The exponent of the step between neighbours. All numbers below the normal ones have the step of the smallest
    // normal numbers.
    let exponent = if size == 0.0 {
        1 - bias
    } else {
        (size.log2().floor() as i32).max(1 - bias)
    };
    let steps = (size / f64::from(exponent - fractions.cast_signed()).exp2()).round_ties_even();
    // One step beyond the last number of an exponent is the first number of the next exponent.
    let bits = f64::from((exponent + bias - 1) << fractions) + steps;
    sign | bits.min(f64::from(infinity)) as u16
}

fn halves(op: ReduceOp, parts: &[&Tensor], format: (u32, u32)) -> Option<Tensor> {
    let bits = |part: &&Tensor| {
        let pairs = part.bytes().chunks_exact(2);
        let pairs = pairs.map(|pair| <[u8; 2]>::try_from(pair).map(u16::from_ne_bytes));
        pairs.collect::<Result<Vec<u16>, _>>().ok()
    };
    let columns = parts.iter().map(bits).collect::<Option<Vec<_>>>()?;
    let columns = each(&columns, |values| {
        let reduced = float(op, &mut values.map(|bits| widened(bits, format)), parts.len());
        reduced.map(|reduced| narrowed(reduced, format))
    })?;
    let first = parts.first()?;
    let bytes: Vec<u8> = columns.into_iter().flat_map(u16::to_ne_bytes).collect();
    Tensor::from_raw(first.dtype(), first.shape(), &bytes).ok()
}

fn truths(op: ReduceOp, parts: &[&Tensor]) -> Option<Tensor> {
    let columns: Vec<Vec<bool>> = parts
        .iter()
        .map(|part| part.to_bools().ok())
        .collect::<Option<_>>()?;
    let columns = each(&columns, |values| match op {
        ReduceOp::Min => Some(values.fold(true, |all, next| all & next)),
        ReduceOp::Max => Some(values.fold(false, |any, next| any | next)),
        _ => None,
    });
    Tensor::from_bools(&columns?, parts.first()?.shape()).ok()
}
