//! Arithmetic on the elements of tensors.

use super::short::{Brain, Half};

/// A type of elements, with the types that it has while elements are combined. Every bit pattern is a valid element.
pub(super) trait Number: Copy + Default + 'static {
    /// The type for sum, product, minimum and maximum.
    type Wide: Copy;
    /// The type for the average: a sum that does not wrap.
    type Total: Copy;

    fn widen<const N: usize>(block: [Self; N]) -> [Self::Wide; N];
    fn narrow<const N: usize>(block: [Self::Wide; N]) -> [Self; N];
    fn add(one: Self::Wide, next: Self::Wide) -> Self::Wide;
    fn multiply(one: Self::Wide, next: Self::Wide) -> Self::Wide;
    fn least(one: Self::Wide, next: Self::Wide) -> Self::Wide;
    fn most(one: Self::Wide, next: Self::Wide) -> Self::Wide;

    fn totals<const N: usize>(block: [Self; N]) -> [Self::Total; N];
    fn add_total(one: Self::Total, next: Self::Total) -> Self::Total;
    fn means<const N: usize>(block: [Self::Total; N], ranks: usize) -> [Self; N];
}

macro_rules! integers {
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
            fn add(one: Self, next: Self) -> Self {
                one.wrapping_add(next)
            }
            #[inline(always)]
            fn multiply(one: Self, next: Self) -> Self {
                one.wrapping_mul(next)
            }
            #[inline(always)]
            fn least(one: Self, next: Self) -> Self {
                one.min(next)
            }
            #[inline(always)]
            fn most(one: Self, next: Self) -> Self {
                one.max(next)
            }
            #[inline(always)]
            fn totals<const N: usize>(block: [Self; N]) -> [$total; N] {
                block.map(<$total>::from)
            }
            #[inline(always)]
            fn add_total(one: $total, next: $total) -> $total {
                one + next
            }
            #[inline(always)]
            fn means<const N: usize>(block: [$total; N], ranks: usize) -> [Self; N] {
                // The mean is between the smallest and the largest element, so it fits.
                block.map(|total| (total / ranks as $total) as $type)
            }
        }
    )+};
}

integers!(u8 => u32, u16 => u32, u32 => u64, u64 => u128, i8 => i32, i16 => i32, i32 => i64, i64 => i128);

macro_rules! floats {
    ($($type:ty),+) => {$(
        impl Number for $type {
            type Wide = $type;
            type Total = $type;

            #[inline(always)]
            fn widen<const N: usize>(block: [Self; N]) -> [Self; N] {
                block
            }
            #[inline(always)]
            fn narrow<const N: usize>(block: [Self; N]) -> [Self; N] {
                block
            }
            #[inline(always)]
            fn add(one: Self, next: Self) -> Self {
                one + next
            }
            #[inline(always)]
            fn multiply(one: Self, next: Self) -> Self {
                one * next
            }
            #[inline(always)]
            fn least(one: Self, next: Self) -> Self {
                if one <= next || one.is_nan() { one } else { next }
            }
            #[inline(always)]
            fn most(one: Self, next: Self) -> Self {
                if one >= next || one.is_nan() { one } else { next }
            }
            #[inline(always)]
            fn totals<const N: usize>(block: [Self; N]) -> [Self; N] {
                block
            }
            #[inline(always)]
            fn add_total(one: Self, next: Self) -> Self {
                one + next
            }
            #[inline(always)]
            fn means<const N: usize>(block: [Self; N], ranks: usize) -> [Self; N] {
                block.map(|total| total / ranks as $type)
            }
        }
    )+};
}

floats!(f32, f64);

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
            fn add(one: f32, next: f32) -> f32 {
                one + next
            }
            #[inline(always)]
            fn multiply(one: f32, next: f32) -> f32 {
                one * next
            }
            #[inline(always)]
            fn least(one: f32, next: f32) -> f32 {
                f32::least(one, next)
            }
            #[inline(always)]
            fn most(one: f32, next: f32) -> f32 {
                f32::most(one, next)
            }
            #[inline(always)]
            fn totals<const N: usize>(block: [Self; N]) -> [f32; N] {
                Self::widen(block)
            }
            #[inline(always)]
            fn add_total(one: f32, next: f32) -> f32 {
                one + next
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
    fn add(one: bool, next: bool) -> bool {
        one | next
    }
    #[inline(always)]
    fn multiply(one: bool, next: bool) -> bool {
        one & next
    }
    #[inline(always)]
    fn least(one: bool, next: bool) -> bool {
        one & next
    }
    #[inline(always)]
    fn most(one: bool, next: bool) -> bool {
        one | next
    }
    #[inline(always)]
    fn totals<const N: usize>(block: [Self; N]) -> [bool; N] {
        Self::widen(block)
    }
    #[inline(always)]
    fn add_total(one: bool, next: bool) -> bool {
        one | next
    }
    #[inline(always)]
    fn means<const N: usize>(block: [bool; N], _ranks: usize) -> [Self; N] {
        Self::narrow(block)
    }
}
