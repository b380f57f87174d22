//! Primitive numbers, whose vectors travel as raw bytes.
#![allow(unsafe_code)] // reinterprets numbers as bytes

use std::any::TypeId;

use super::tensor::DType;

mod sealed {
    pub trait Sealed {}
}

/// A number that a [`Tensor`](super::Tensor) may hold: no padding, every bit pattern valid.
pub trait Element: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// Its name at run time.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),+) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        })+

        /// Whether `Vec<E>` travels as a raw part.
        #[inline]
        pub(super) fn is_primitive<E: 'static>() -> bool {
            let id = TypeId::of::<E>();
            $(id == TypeId::of::<$type>())||+
        }

        /// The bytes of a value that is a `Vec` of a primitive; the check folds away at compile time.
        #[inline]
        pub(super) fn vec_bytes<T: 'static>(value: &T) -> Option<&[u8]> {
            let any: &dyn std::any::Any = value;
            $(if let Some(vector) = any.downcast_ref::<Vec<$type>>() {
                return Some(bytes_of(vector));
            })+
            None
        }

        /// A `Vec` of a primitive from bytes, if `T` is one: `Some(None)` when the length does not fit.
        pub(super) fn vec_from_bytes<T: 'static>(bytes: &[u8]) -> Option<Option<T>> {
            $(if TypeId::of::<T>() == TypeId::of::<Vec<$type>>() {
                return Some(copied::<$type>(bytes).and_then(|vector| {
                    let mut vector = Some(vector);
                    let any: &mut dyn std::any::Any = &mut vector;
                    any.downcast_mut::<Option<T>>().and_then(Option::take)
                }));
            })+
            None
        }
    };
}

elements!(
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f32 => F32, f64 => F64
);

/// The bytes of a slice of primitives.
pub(super) fn bytes_of<E: Element>(slice: &[E]) -> &[u8] {
    // SAFETY: `E` is a primitive number (sealed): no padding, and u8 has alignment 1; length and lifetime are the
    // slice's.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) }
}

/// Bytes as primitives, in place; `None` when length or alignment do not fit or `E` is no primitive.
pub(super) fn cast_slice<E: 'static>(bytes: &[u8]) -> Option<&[E]> {
    let fits = bytes.len().is_multiple_of(size_of::<E>().max(1))
        && bytes.as_ptr().addr().is_multiple_of(align_of::<E>());
    if !is_primitive::<E>() || !fits {
        return None;
    }
    // SAFETY: `E` is a primitive number, so every bit pattern is valid; aligned and of whole length by the check.
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<E>()) })
}

/// A vector copied from bytes of any alignment.
pub(super) fn copied<E: Element>(bytes: &[u8]) -> Option<Vec<E>> {
    if !bytes.len().is_multiple_of(size_of::<E>()) {
        return None;
    }
    let len = bytes.len() / size_of::<E>();
    let mut vector: Vec<E> = Vec::with_capacity(len);
    // SAFETY: capacity for `len` elements of `size_of::<E>()` bytes, source and target do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), vector.as_mut_ptr().cast(), bytes.len()) };
    // SAFETY: the first `len` elements were just written, and every bit pattern of `E` is valid.
    unsafe { vector.set_len(len) };
    Some(vector)
}
