//! Values as bytes: a small encoded head and raw, aligned parts.
//!
//! ```text
//! 0            4         6        7           8             8 + 8·parts   64-byte boundary
//! | head u32   | parts u16 | form u8 | version u8 | lengths u64 … | head bytes | pad | part 0 | pad | part 1 | …
//! ```
//!
//! Anything that serde can serialise is a payload: it goes into the head, packed or by name (`codec`), where a number by itself is
//! its own bytes: there is nothing to compute, and few stores to a line that another core polls. What is large and flat
//! goes out as a part instead, copied once into the slot and read there in place: `String`, `Vec` of a primitive
//! number, [`Tensor`], and a `Tensor` anywhere inside another value (the idea of Python's pickle 5 and of Monarch's
//! `serde_multipart`). Numbers are little-endian; `form` says which kind of value the bytes are, so that a `Vec<u32>`
//! is not read as a `Vec<f32>`.
//!
//! Readers believe nothing they have not checked: bytes of any content give a value or a [`DecodeError`], and
//! allocate no more than a small multiple of their own length. Two things are up to the type that is decoded, as with
//! every serde format: a type that nests without end needs stack in proportion, and a `Vec` of a type without size
//! costs time in proportion to the length it claims.
//!
//! [`DecodeError`]: crate::DecodeError

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
mod survey;
mod tensor;

pub use codec::SerdeError;
pub(crate) use codec::{Way, way_of};
pub(crate) use decode::decode_in_place;
pub use decode::{decode, view_slice, view_str};
pub(crate) use direct::{Whole, is_plain, write_short};
pub use element::{DType, Element, bytes_of};
pub(crate) use encode::encode_as;
pub use encode::{Encoded, encode};
pub use frame::PART_ALIGN;
#[cfg(all(feature = "dlpack", feature = "cuda"))]
pub(crate) use interop::dlpack::{Capsule, described};
#[cfg(feature = "dlpack")]
pub use interop::dlpack::{DlPack, DlPackError, raw as dlpack};
pub use layout::{DIMENSIONS_MAX, TensorLayout};
pub(crate) use numbers::NumbersFrame;
#[cfg(feature = "cuda")]
pub(crate) use survey::note;
pub(crate) use survey::{Seen, survey};
pub use tensor::{Tensor, TensorError};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Everything that may travel along an edge: owned, cloneable data that serde can serialise.
///
/// Implemented for every such type; derive `Serialize`, `Deserialize` and `Clone`. With whatever serde lets a type do, also
/// `skip_serializing_if`, `tag`, `untagged` and `flatten`, a value arrives as itself, or is refused by its type's name. To find out
/// how it is to be written its `Deserialize` is run before the first one is sent, on made-up values. What serde is told never to
/// write (`#[serde(skip)]`) stays behind.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel along an edge",
    label = "not a wire type",
    note = "its type needs `#[derive(Clone, Serialize, Deserialize)]`, and must be `Send` and `Sync` and borrow nothing"
)]
pub trait Wire: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {}

#[diagnostic::do_not_recommend] // else each of these is an error of its own
impl<T: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Wire for T {}

/// [`Wire`], for bounds on types that generated code knows: over a lifetime, such a bound is looked at where it is used and not
/// where it is written, so that what cannot travel is one mistake and not one of every function that names it.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel along an edge",
    label = "an operation takes or gives `{Self}`",
    note = "its type needs `#[derive(Clone, Serialize, Deserialize)]`, and must be `Send` and `Sync` and borrow nothing"
)]
pub trait Travels<'a>: Wire {}

#[diagnostic::do_not_recommend]
impl<T: Wire> Travels<'_> for T {}
