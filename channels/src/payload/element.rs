//! Primitive numbers, whose vectors travel as raw bytes.
#![allow(unsafe_code)] // reinterprets numbers as bytes

use std::any::{Any, TypeId};

use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[repr(u8)]
pub enum DType {
    /// Unsigned integers of 8 bits.
    U8 = 0,
    /// Unsigned integers of 16 bits.
    U16 = 1,
    /// Unsigned integers of 32 bits.
    U32 = 2,
    /// Unsigned integers of 64 bits.
    U64 = 3,
    /// Signed integers of 8 bits.
    I8 = 4,
    /// Signed integers of 16 bits.
    I16 = 5,
    /// Signed integers of 32 bits.
    I32 = 6,
    /// Signed integers of 64 bits.
    I64 = 7,
    /// Floats of 32 bits.
    F32 = 8,
    /// Floats of 64 bits.
    F64 = 9,
    /// Floats of 16 bits.
    F16 = 10,
    /// The `bfloat16` floats of 16 bits.
    BF16 = 11,
    /// One byte per element; 0 is false.
    Bool = 12,
}

impl DType {
    /// All types of elements.
    pub const ALL: [DType; 13] = {
        use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
        [U8, U16, U32, U64, I8, I16, I32, I64, F32, F64, F16, BF16, Bool]
    };

    /// The size of one element in bytes.
    pub const fn size_bytes(self) -> usize {
        match self {
            DType::U8 | DType::I8 | DType::Bool => 1,
            DType::U16 | DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 => 8,
        }
    }
}

mod sealed {
    /// A marker that only the element types implement.
    pub trait SealedElement {}
}

/// A number that a [`Tensor`](super::Tensor) may contain: it has no padding, and every bit pattern is valid. With the
/// feature `half`, the 16-bit floats of that crate are numbers too.
pub trait Element: sealed::SealedElement + Copy + Default + Send + Sync + 'static {
    /// The `DType` of the number.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($(#[$when:meta])? $type:ty => $dtype:ident),+) => {
        $($(#[$when])?
        impl sealed::SealedElement for $type {}
        $(#[$when])?
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        })+

        /// The `DType` of the type with this name, if it is a primitive number.
        #[inline]
        fn dtype_of_id(id: TypeId) -> Option<DType> {
            $($(#[$when])? {
                if id == TypeId::of::<$type>() {
                    return Some(DType::$dtype);
                }
            })+
            None
        }

        /// The `DType` of `E`, if the type with this name is `Vec<E>` and `E` is a primitive number.
        #[inline]
        fn vec_dtype_of_id(id: TypeId) -> Option<DType> {
            $($(#[$when])? {
                if id == TypeId::of::<Vec<$type>>() {
                    return Some(DType::$dtype);
                }
            })+
            None
        }

        /// The bytes of a `Vec` of these numbers; `None` for other types.
        #[inline]
        fn bytes_of_vec(any: &dyn Any, dtype: DType) -> Option<&[u8]> {
            match dtype {
                $($(#[$when])? DType::$dtype => any.downcast_ref::<Vec<$type>>().map(|vector| bytes_of(vector)),)+
                _ => None,
            }
        }

        /// The bytes of such a number; `None` for other types.
        #[inline]
        fn bytes_of_number(any: &dyn Any, dtype: DType) -> Option<&[u8]> {
            match dtype {
                $($(#[$when])? DType::$dtype => {
                    any.downcast_ref::<$type>().map(|number| bytes_of(std::slice::from_ref(number)))
                })+
                _ => None,
            }
        }

        /// Reads such a number from its bytes into an `Option` of its type. Returns `None` if the option has another type or the length
        /// does not fit.
        #[inline]
        fn read_number(option: &mut dyn Any, dtype: DType, bytes: &[u8]) -> Option<()> {
            match dtype {
                $($(#[$when])? DType::$dtype => *option.downcast_mut::<Option<$type>>()? = Some(read(bytes)?),)+
                _ => return None,
            }
            Some(())
        }

        /// Reads a `Vec` of these numbers from bytes into an `Option` of its type. Returns `None` if the option has another type, the
        /// length does not fit, or there is no memory.
        pub(super) fn read_vec(option: &mut dyn Any, dtype: DType, bytes: &[u8]) -> Option<()> {
            match dtype {
                $($(#[$when])? DType::$dtype => *option.downcast_mut::<Option<Vec<$type>>>()? = Some(copied(bytes)?),)+
                _ => return None,
            }
            Some(())
        }
    };
}

elements!(
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f32 => F32, f64 => F64,
    #[cfg(feature = "half")] half::f16 => F16,
    #[cfg(feature = "half")] half::bf16 => BF16
);

// The types are told apart in functions that are not generic, so that a program has them once, however many types it has. With
// optimisation they are inlined, and the compiler evaluates the comparisons.

/// The `DType` of `E`, if `E` is a primitive number.
#[inline]
pub(super) fn dtype_of<E: 'static>() -> Option<DType> {
    dtype_of_id(TypeId::of::<E>())
}

/// The `DType` of `E`, if `T` is `Vec<E>` and `E` is a primitive number.
#[inline]
pub(super) fn vec_dtype_of<T: 'static>() -> Option<DType> {
    vec_dtype_of_id(TypeId::of::<T>())
}

/// The bytes of a `Vec` of primitive numbers; `None` for other types.
#[inline]
pub(super) fn vec_bytes<T: 'static>(value: &T) -> Option<&[u8]> {
    bytes_of_vec(value, vec_dtype_of::<T>()?)
}

/// The bytes of a primitive number; `None` for other types.
#[inline]
pub(super) fn number_bytes<T: 'static>(value: &T) -> Option<&[u8]> {
    bytes_of_number(value, dtype_of::<T>()?)
}

/// Reads a primitive number from its bytes. Returns `None` if `T` is another type or the length does not fit.
#[inline]
pub(super) fn number_from_bytes<T: 'static>(bytes: &[u8]) -> Option<T> {
    let mut number = None::<T>;
    read_number(&mut number, dtype_of::<T>()?, bytes)?;
    number
}

/// Reads a `Vec` of primitive numbers from bytes. Returns `None` if `T` is another type, the length does not fit, or there is no
/// memory.
pub(super) fn vec_from_bytes<T: 'static>(bytes: &[u8]) -> Option<T> {
    let mut vector = None::<T>;
    read_vec(&mut vector, vec_dtype_of::<T>()?, bytes)?;
    vector
}

/// Returns `value`, if `T` is its type. Does not allocate.
#[inline]
pub(super) fn same_type<T: 'static, U: 'static>(value: U) -> Option<T> {
    let mut value = Some(value);
    let any: &mut dyn Any = &mut value;
    any.downcast_mut::<Option<T>>().and_then(Option::take)
}

/// The bytes of a slice of primitive numbers.
pub fn bytes_of<E: Element>(slice: &[E]) -> &[u8] {
    // SAFETY: `E` is a primitive number (sealed), so it has no padding, and `u8` has alignment 1. Length and lifetime
    // are those of the slice.
    unsafe { std::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice)) }
}

/// Whether the length and alignment of `bytes` fit a slice of `E`, and `E` is a primitive number.
fn is_slice_of<E: 'static>(bytes: &[u8]) -> bool {
    dtype_of::<E>().is_some()
        && bytes.len().is_multiple_of(size_of::<E>().max(1))
        && bytes.as_ptr().addr().is_multiple_of(align_of::<E>())
}

/// A view of bytes as primitive numbers. `None` if the length or alignment does not fit, or `E` is not a primitive
/// number.
#[inline]
pub(super) fn cast_slice<E: 'static>(bytes: &[u8]) -> Option<&[E]> {
    if !is_slice_of::<E>(bytes) {
        return None;
    }
    // SAFETY: `E` is a primitive number, so every bit pattern is valid. The check ensures that the bytes are aligned
    // and contain whole numbers.
    Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<E>()) })
}

/// A mutable view of bytes as primitive numbers. `None` if the length or alignment does not fit.
pub(super) fn cast_slice_mut<E: Element>(bytes: &mut [u8]) -> Option<&mut [E]> {
    if !is_slice_of::<E>(bytes) {
        return None;
    }
    // SAFETY: see `cast_slice`; borrowed exclusively, and every number written is valid as bytes.
    Some(unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<E>()) })
}

/// Reads a number from bytes of any alignment. Returns `None` if the length is not that of an `E`.
#[inline]
fn read<E: Element>(bytes: &[u8]) -> Option<E> {
    if bytes.len() != size_of::<E>() {
        return None;
    }
    // SAFETY: the bytes are as long as an `E`, and every bit pattern of `E` is valid.
    Some(unsafe { bytes.as_ptr().cast::<E>().read_unaligned() })
}

/// Copies bytes of any alignment to a vector of numbers. Returns `None` if the length does not fit or there is no
/// memory.
pub(super) fn copied<E: Element>(bytes: &[u8]) -> Option<Vec<E>> {
    if !bytes.len().is_multiple_of(size_of::<E>()) {
        return None;
    }
    let len = bytes.len() / size_of::<E>();
    let mut vector: Vec<E> = Vec::new();
    vector.try_reserve_exact(len).ok()?;
    // SAFETY: there is capacity for `len` elements of `size_of::<E>()` bytes; source and target do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), vector.as_mut_ptr().cast(), bytes.len()) };
    // SAFETY: the first `len` elements were just written, and every bit pattern of `E` is valid.
    unsafe { vector.set_len(len) };
    Some(vector)
}
