//! Values as bytes: a small encoded head and raw, aligned parts.
//!
//! ```text
//! 0        4        8            8 + 8·parts        64-byte boundary
//! | head u32 | parts u32 | lengths u64 … | head bytes | pad | part 0 | pad | part 1 | …
//! ```
//!
//! Anything that serde can serialise is a payload: it goes through postcard into the head. What is large and flat
//! goes out as a part instead, copied once into the slot and read there in place: `String`, `Vec` of a primitive
//! number, [`Tensor`], and a `Tensor` anywhere inside another value. Readers believe nothing they have not checked.

mod collector;
mod decode;
mod element;
mod encode;
mod tensor;

pub(crate) use decode::decode_in_place;
pub use decode::{decode, view_slice, view_str};
pub use element::Element;
pub use encode::{Encoded, encode};
pub use tensor::{DType, Tensor, TensorError};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everything that may travel along an edge: owned, cloneable data that serde can serialise.
///
/// Implemented for every such type; derive `Serialize`, `Deserialize` and `Clone`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel along an edge",
    label = "not a wire type",
    note = "what travels along an edge implements `Serialize`, `DeserializeOwned`, `Clone`, `Send` and `Sync`"
)]
pub trait Wire: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Wire for T {}

/// Alignment of parts, and of payloads in a slot.
pub const PART_ALIGN: usize = 64;
/// No value has more parts than this.
const PARTS_MAX: usize = 1 << 16;

/// Offsets of a frame: of the head, and of each part with its length.
struct Offsets {
    head: usize,
    next_part: usize,
}

/// Where head and first part of a frame with so many parts begin; `None` on overflow.
fn offsets(head_len: usize, parts: usize) -> Option<Offsets> {
    let head = parts.checked_mul(8)?.checked_add(8)?;
    let next_part = head.checked_add(head_len)?.checked_next_multiple_of(PART_ALIGN)?;
    Some(Offsets { head, next_part })
}
