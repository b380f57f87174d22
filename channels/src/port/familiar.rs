//! Types whose traits are known to code that is generic over them: numbers, text, and what is made of them.

use std::any::TypeId;

use crate::payload::Tensor;
use crate::port::payload_type::PayloadType;

/// Makes the list of familiar types: each one, and a `Vec` of it.
macro_rules! familiar {
    ($($name:ty),+ $(,)?) => {
        const FAMILIAR: &[fn() -> PayloadType] = &[$(PayloadType::of::<$name>, PayloadType::of::<Vec<$name>>),+];
    };
}

familiar!(
    (),
    bool,
    char,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    f32,
    f64,
    String,
    Tensor,
);

/// The type with this id, with all its traits.
pub(super) fn familiar(id: TypeId) -> Option<PayloadType> {
    FAMILIAR.iter().map(|of| of()).find(|payload| payload.id() == id)
}
