//! Arithmetic on the elements of tensors.

use super::short::{Brain, Half};

/// The operations on a type that elements have while they are combined.
pub(super) trait Arithmetic: Copy {
    fn add(self, next: Self) -> Self;
    fn multiply(self, next: Self) -> Self;
    fn least(self, next: Self) -> Self;
    fn most(self, next: Self) -> Self;
}

macro_rules! arithmetic {
    ($($type:ty),+ => |$one:ident, $next:ident| $add:expr, $multiply:expr, $least:expr, $most:expr) => {$(
        impl Arithmetic for $type {
            #[inline(always)]
            fn add(self, next: Self) -> Self {
                let ($one, $next) = (self, next);
                $add
            }
            #[inline(always)]
            fn multiply(self, next: Self) -> Self {
                let ($one, $next) = (self, next);
                $multiply
            }
            #[inline(always)]
            fn least(self, next: Self) -> Self {
                let ($one, $next) = (self, next);
                $least
            }
            #[inline(always)]
            fn most(self, next: Self) -> Self {
                let ($one, $next) = (self, next);
                $most
            }
        }
    )+};
}

arithmetic!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128 =>
    |one, next| one.wrapping_add(next), one.wrapping_mul(next), one.min(next), one.max(next));
arithmetic!(f32, f64 =>
    |one, next| one + next, one * next,
    if one <= next || one.is_nan() { one } else { next },
    if one >= next || one.is_nan() { one } else { next });
arithmetic!(bool => |one, next| one | next, one & next, one & next, one | next);

/// A type of elements, with the types that it has while elements are combined. Every bit pattern is a valid element.
pub(super) trait Number: Copy + Default + 'static {
    /// The type for sum, product, minimum and maximum.
    type Wide: Arithmetic;
    /// The type for the average: a sum that does not wrap.
    type Total: Arithmetic;

    fn widen<const N: usize>(block: [Self; N]) -> [Self::Wide; N];
    fn narrow<const N: usize>(block: [Self::Wide; N]) -> [Self; N];
    fn totals<const N: usize>(block: [Self; N]) -> [Self::Total; N];
    fn means<const N: usize>(block: [Self::Total; N], ranks: usize) -> [Self; N];
}

macro_rules! numbers {
    ($($type:ty => $total:ty),+) => {$(
        impl Number for $type {
            type Wide = $type;
            type Total = $total;

            #[inline(always)]
            fn widen<const N: usize>(block: [Self; N]) -> [Self; N] {
                block
            }
            #[inline(always)]
            fn narrow<const N: usize>(block: [Self; N]) -> [Self; N] {
                block
            }
            #[inline(always)]
            fn totals<const N: usize>(block: [Self; N]) -> [$total; N] {
                block.map(<$total>::from)
            }
            #[inline(always)]
            fn means<const N: usize>(block: [$total; N], ranks: usize) -> [Self; N] {
                // The mean is between the smallest and the largest element, so it fits.
                block.map(|total| (total / ranks as $total) as $type)
            }
        }
    )+};
}

numbers!(u8 => u32, u16 => u32, u32 => u64, u64 => u128, i8 => i32, i16 => i32, i32 => i64, i64 => i128);
numbers!(f32 => f32, f64 => f64);

macro_rules! halves {
    ($($type:ty),+) => {$(
        impl Number for $type {
            type Wide = f32;
            type Total = f32;

            #[inline(always)]
            fn widen<const N: usize>(block: [Self; N]) -> [f32; N] {
                block.map(Self::to_f32)
            }
            #[inline(always)]
            fn narrow<const N: usize>(block: [f32; N]) -> [Self; N] {
                block.map(Self::from_f32)
            }
            #[inline(always)]
            fn totals<const N: usize>(block: [Self; N]) -> [f32; N] {
                Self::widen(block)
            }
            #[inline(always)]
            fn means<const N: usize>(block: [f32; N], ranks: usize) -> [Self; N] {
                Self::narrow(block.map(|total| total / ranks as f32))
            }
        }
    )+};
}

halves!(Half, Brain);

/// A boolean as a byte: 0 is false, any other byte is true, and results are 0 or 1.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub(super) struct Truth(u8);

impl Number for Truth {
    type Wide = bool;
    type Total = bool;

    #[inline(always)]
    fn widen<const N: usize>(block: [Self; N]) -> [bool; N] {
        block.map(|truth| truth.0 != 0)
    }
    #[inline(always)]
    fn narrow<const N: usize>(block: [bool; N]) -> [Self; N] {
        block.map(|truth| Truth(u8::from(truth)))
    }
    #[inline(always)]
    fn totals<const N: usize>(block: [Self; N]) -> [bool; N] {
        Self::widen(block)
    }
    #[inline(always)]
    fn means<const N: usize>(block: [bool; N], _ranks: usize) -> [Self; N] {
        Self::narrow(block)
    }
}
