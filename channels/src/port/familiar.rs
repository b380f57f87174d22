//! Types whose traits are known to code that is generic over them: the common numbers, and text.

use std::any::TypeId;

use crate::port::payload_type::PayloadType;

/// Makes the list of familiar types.
macro_rules! familiar {
    ($($name:ty),+ $(,)?) => {
        const FAMILIAR: &[fn() -> PayloadType] = &[$(PayloadType::of::<$name>),+];
    };
}

// Every type here is compiled into every program with all ends of channels, some 150 kB without optimisation. So the
// list has the types of most inputs, and no more; the compiler finds others among the methods of the graph's actors.
familiar!(bool, i32, i64, u32, u64, usize, f32, f64, String);

/// The type with this id, with all its traits.
pub(super) fn familiar(id: TypeId) -> Option<PayloadType> {
    FAMILIAR.iter().map(|of| of()).find(|payload| payload.id() == id)
}
