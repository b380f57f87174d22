//! Elements of NCCL's types, and reductions over them.
//!
//! Values are reduced in the order of the ranks, so that every rank and every run gets the same bits. Sixteen-bit
//! floats are added up in 32 bits and rounded once.

use half::{bf16, f16};

/// Returns the bytes of an element, by NCCL's number of its type; `None` for a type that is not simulated.
pub(crate) fn size_bytes(elements: u32) -> Option<u64> {
    match elements {
        0 | 1 => Some(1),
        6 | 9 => Some(2),
        2 | 3 | 7 => Some(4),
        4 | 5 | 8 => Some(8),
        _ => None,
    }
}

/// Whether this number names a reduction.
pub(crate) fn is_reduction(reduction: u32) -> bool {
    reduction <= AVERAGE
}

const PRODUCT: u32 = 1;
const MAX: u32 = 2;
const MIN: u32 = 3;
const AVERAGE: u32 = 4;

/// Reduces one vector per rank to one vector.
pub(crate) fn reduce(elements: u32, reduction: u32, inputs: &[Vec<u8>]) -> Vec<u8> {
    match elements {
        0 => fold::<i8>(reduction, inputs),
        1 => fold::<u8>(reduction, inputs),
        2 => fold::<i32>(reduction, inputs),
        3 => fold::<u32>(reduction, inputs),
        4 => fold::<i64>(reduction, inputs),
        5 => fold::<u64>(reduction, inputs),
        6 => fold::<f16>(reduction, inputs),
        7 => fold::<f32>(reduction, inputs),
        8 => fold::<f64>(reduction, inputs),
        9 => fold::<bf16>(reduction, inputs),
        _ => Vec::new(),
    }
}

fn fold<E: Element>(reduction: u32, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut vectors = inputs.iter().map(|bytes| E::read(bytes));
    let mut result = vectors.next().unwrap_or_default();
    for vector in vectors {
        for (left, right) in result.iter_mut().zip(vector) {
            *left = match reduction {
                PRODUCT => E::multiply(*left, right),
                MAX => E::greater(*left, right),
                MIN => E::smaller(*left, right),
                // A sum; an average is a sum until the division below.
                _ => E::add(*left, right),
            };
        }
    }
    if reduction == AVERAGE {
        result
            .iter_mut()
            .for_each(|sum| *sum = E::divide(*sum, inputs.len()));
    }
    E::write(&result)
}

/// A type of elements, and the type in which its values are added up.
trait Element {
    type Wide: Copy;
    fn read(bytes: &[u8]) -> Vec<Self::Wide>;
    fn write(values: &[Self::Wide]) -> Vec<u8>;
    fn add(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn multiply(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn greater(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn smaller(left: Self::Wide, right: Self::Wide) -> Self::Wide;
    fn divide(sum: Self::Wide, by: usize) -> Self::Wide;
}

macro_rules! element {
    ($type:ty as $wide:ty, $to:expr, $from:expr, $add:expr, $multiply:expr) => {
        impl Element for $type {
            type Wide = $wide;

            fn read(bytes: &[u8]) -> Vec<$wide> {
                let (values, _) = bytes.as_chunks();
                values
                    .iter()
                    .map(|bytes| $to(<$type>::from_ne_bytes(*bytes)))
                    .collect()
            }

            fn write(values: &[$wide]) -> Vec<u8> {
                values
                    .iter()
                    .flat_map(|value| <$type>::to_ne_bytes($from(*value)))
                    .collect()
            }

            fn add(left: $wide, right: $wide) -> $wide {
                $add(left, right)
            }

            fn multiply(left: $wide, right: $wide) -> $wide {
                $multiply(left, right)
            }

            fn greater(left: $wide, right: $wide) -> $wide {
                <$wide>::max(left, right)
            }

            fn smaller(left: $wide, right: $wide) -> $wide {
                <$wide>::min(left, right)
            }

            fn divide(sum: $wide, by: usize) -> $wide {
                sum / (by as $wide)
            }
        }
    };
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(element!($type as $type, std::convert::identity, std::convert::identity, <$type>::wrapping_add, <$type>::wrapping_mul);)*
    };
}

integers!(i8, u8, i32, u32, i64, u64);
element!(f32 as f32, f32::from, f32::from, |a, b| a + b, |a, b| a * b);
element!(f64 as f64, f64::from, f64::from, |a, b| a + b, |a, b| a * b);
element!(f16 as f32, f16::to_f32, f16::from_f32, |a, b| a + b, |a, b| a * b);
element!(bf16 as f32, bf16::to_f32, bf16::from_f32, |a, b| a + b, |a, b| a
    * b);

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: u32 = 0;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }

    #[test]
    fn vectors_are_reduced_element_by_element() {
        let inputs = [bytes(&[1.0, -2.0]), bytes(&[3.0, 5.0])];
        let reduced: Vec<_> = (0..5).map(|reduction| reduce(7, reduction, &inputs)).collect();
        let expected = [[4.0, 3.0], [3.0, -10.0], [3.0, 5.0], [1.0, -2.0], [2.0, 1.5]];
        assert_eq!(reduced, expected.map(|values| bytes(&values)));
    }

    #[test]
    fn small_floats_are_rounded_once() {
        let one = |value: f32| f16::from_f32(value).to_ne_bytes().to_vec();
        // 2048 + 1 is not an f16, so adding the numbers one by one would lose both.
        assert_eq!(reduce(6, SUM, &[one(2048.0), one(1.0), one(1.0)]), one(2050.0));
        let one = |value: f32| bf16::from_f32(value).to_ne_bytes().to_vec();
        assert_eq!(reduce(9, SUM, &[one(256.0), one(1.0), one(1.0)]), one(258.0));
    }

    #[test]
    fn integers_go_round() {
        assert_eq!(reduce(1, SUM, &[vec![250], vec![10]]), [4]);
        assert_eq!(reduce(0, PRODUCT, &[vec![100], vec![2]]), [200]);
    }
}
