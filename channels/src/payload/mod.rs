//! Payloads: values as bytes, with a small encoded head and raw, aligned parts.
//!
//! ```text
//! 0            4         6        7           8             8 + 8·parts   64-byte boundary
//! | head u32   | parts u16 | form u8 | version u8 | lengths u64 … | head bytes | pad | part 0 | pad | part 1 | …
//! ```
//!
//! Anything that serde can serialise is a payload. It goes into the head, packed or by name (`codec`). A number by
//! itself is stored as its own bytes, so that nothing is computed and few stores go to a line that another core polls.
//! Large, flat data becomes a part instead, which is copied once into the slot and read there in place: `String`, `Vec`
//! of a primitive number, [`Tensor`], and a `Tensor` anywhere inside another value (the idea of Python's pickle 5 and
//! of Monarch's `serde_multipart`). Numbers are little-endian. `form` contains the kind of value, so that a `Vec<u32>`
//! is not read as a `Vec<f32>`.
//!
//! Readers check everything before they use it: bytes of any content give a value or a [`DecodeError`], and allocate no
//! more than a small multiple of their own length. List elements and map keys that take no bytes are bounded by a fixed
//! number. A value nests at most 256 levels deep, so that no type and no bytes make the stack overflow.
//!
//! [`DecodeError`]: crate::DecodeError

pub mod as_bytes;
mod bytes64;
mod codec;
mod collector;
mod decode;
mod direct;
mod element;
mod encode;
mod frame;
mod interop;
mod layout;
mod numbers;
mod packed;
mod scope;
mod shared_value;
mod survey;
mod tensor;

pub use codec::SerdeError;
pub(crate) use codec::{Way, has_records, way_of};
pub use codec::{is_trial, note_record};
pub(crate) use decode::decode_in_place;
pub use decode::{decode, decode_kept, view_slice, view_str};
pub(crate) use direct::{Whole, is_plain, write_short};
pub use element::{DType, Element, bytes_of};
pub(crate) use encode::encode_as;
pub use encode::{Encoded, EncodedSegment, EncodedSegments, ShortBytes, encode};
pub use frame::PART_ALIGN;
#[cfg(feature = "arrow")]
pub use interop::arrow;
#[cfg(all(feature = "dlpack", feature = "cuda"))]
pub(crate) use interop::dlpack::{Capsule, described};
#[cfg(feature = "dlpack")]
pub use interop::dlpack::{DlPack, DlPackError, raw as dlpack};
pub use layout::{DIMENSIONS_MAX, TensorError, TensorLayout, byte_count, check_shape, element_count};
pub(crate) use numbers::NumbersFrame;
pub use packed::{from_packed, to_packed};
pub use scope::{Scope, ScopePlace};
pub use shared_value::Shared;
#[cfg(feature = "cuda")]
pub(crate) use survey::note;
pub(crate) use survey::{Seen, survey};
pub use tensor::Tensor;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value that may travel along an edge between threads: it may be sent, and borrows nothing.
///
/// The trait is implemented for every such type: a `Sender`, a file or a `Box<dyn Fn() + Send>` is a payload. A payload
/// with several readers must be `Clone`, and `Sync` if they are in several threads. A payload that crosses a process must
/// be [`Wire`]. A graph that asks for more than the type of an edge can do is refused when it is compiled.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel along an edge",
    label = "no payload",
    note = "its type must be `Send` and borrow nothing"
)]
pub trait Payload: Send + 'static {}

#[diagnostic::do_not_recommend] // else the compiler reports each of these bounds as an error of its own
impl<T: Send + 'static> Payload for T {}

/// A payload that may cross processes: owned, cloneable data that serde can serialise.
///
/// The trait is implemented for every such type; derive `Serialize`, `Deserialize` and `Clone`. A value is either
/// decoded as the same value, or refused with an error that names its type. This holds for all types that serde allows,
/// including those with `skip_serializing_if`, `tag`, `untagged` and `flatten`. Before the first value of a type is
/// sent, the type's `Deserialize` is run on made-up values, to find out how its values have to be encoded. Fields that
/// serde never writes (`#[serde(skip)]`) are not sent.
///
/// A value nests at most 256 levels deep: each list, map, struct, newtype, option and variant with content inside another is one.
/// The arguments of a call take two of them.
/// A value that nests deeper, or contains itself through an `Arc` and a lock, is [`EncodeError::TooDeep`](crate::EncodeError::TooDeep).
/// (A value that contains itself through a `Mutex` waits for itself in serde's `Serialize` of the `Mutex`, before it is encoded; an
/// `RwLock` is read.) Keep a long list or a graph in a `Vec`, whose elements name each other by their indices. A shared part is
/// encoded once for each `Arc` on it, and decoded as separate values; [`Shared`] keeps it one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot cross a process",
    label = "not a wire type",
    note = "its type needs `#[derive(Clone, Serialize, Deserialize)]`, and must be `Send` and `Sync` and borrow nothing"
)]
pub trait Wire: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Wire for T {}

/// [`Payload`] for bounds on concrete types in generated code. The compiler checks a bound with a lifetime where it is
/// used, and not where it is written. So a type that cannot travel is one error, and not one for every function that
/// names it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel along an edge",
    label = "an actor takes or gives `{Self}`",
    note = "its type must be `Send` and borrow nothing"
)]
pub trait Travels<'a>: Payload {}

#[diagnostic::do_not_recommend]
impl<T: Payload> Travels<'_> for T {}
