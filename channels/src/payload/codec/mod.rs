//! The codec for heads of values, with two forms.
//!
//! *Packed* is postcard's format: it omits everything that the type implies. Packed bytes can be read only by a type
//! that reads, field by field, the same kinds of values that were written. Serde allows types that do not:
//! `skip_serializing_if` leaves fields out, `flatten` writes maps of unknown length, `untagged` and `tag` first read a
//! value of any kind and then inspect it.
//!
//! *Named* is for these types. It tags every value with its kind, and writes fields and variants with their names. It
//! distinguishes `Some(None)` from `None`, one number type from another, and bytes from lists. A type that asks for any
//! value gets the same view as from JSON.
//!
//! A [`trial`](trial::way_of) of the type chooses the form. It shows the type's `Deserialize` made-up values and
//! records the kinds and names that it asks for, place by place. A value is encoded packed if it writes exactly these
//! kinds and names. Every other value is encoded by name, and before it is sent it is decoded again and compared;
//! lists, sets and maps that differ only in their order count as equal there.

mod back;
mod error;
mod named;
mod one_entry;
mod read;
mod search;
mod shape;
mod text;
mod trial;
mod unlike;
mod variants;
mod write;

pub(crate) use back::arrives;
pub use error::SerdeError;
pub(super) use error::is_ours;
pub(super) use read::ValueReader;
pub(super) use shape::Shape;
pub(crate) use trial::{Way, has_records, say_named, way_of};
pub use trial::{is_trial, note_record};
pub(super) use write::{ByteSink, Stop, ValueWriter};

/// The maximum number of levels of a value: of lists, maps, structs, options and variants with content inside one another.
/// Each takes stack of the thread that encodes or decodes the value, even a newtype, which takes no byte. A value that nests
/// deeper, and so every value that contains itself, is an error, and not a stack that overflows. The limit leaves room on a
/// stack of 2 MiB in a build without optimisation (`tests/deep.rs`).
pub(in crate::payload) const LEVELS_MAX: u16 = 256;

/// The maximum number of list elements and map keys that take no bytes, in one packed value. The length of the bytes
/// does not bound their number, and each may take memory. A type that exceeds this limit is encoded by name, where each
/// takes a byte.
const EMPTY_MAX: usize = 1 << 16;

/// The name by which a trial knows the enum of a shared value: its first variant has the value, its second a number.
pub(in crate::payload) const SHARED_NAME: &str = "selvedge::Shared";

/// The tags of the named form. A tag tells the kind of the bytes that follow it. Numbers follow in little-endian bytes,
/// text and bytes after their length.
mod tag {
    pub(super) const UNIT: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const U8: u8 = 3;
    pub(super) const U16: u8 = 4;
    pub(super) const U32: u8 = 5;
    pub(super) const U64: u8 = 6;
    pub(super) const U128: u8 = 7;
    pub(super) const I8: u8 = 8;
    pub(super) const I16: u8 = 9;
    pub(super) const I32: u8 = 10;
    pub(super) const I64: u8 = 11;
    pub(super) const I128: u8 = 12;
    pub(super) const F32: u8 = 13;
    pub(super) const F64: u8 = 14;
    /// Followed by the code point as a `u32`.
    pub(super) const CHAR: u8 = 15;
    pub(super) const STR: u8 = 16;
    pub(super) const BYTES: u8 = 17;
    pub(super) const NONE: u8 = 18;
    /// Followed by a value.
    pub(super) const SOME: u8 = 19;
    /// Followed by values, then `END`.
    pub(super) const SEQ: u8 = 20;
    /// Followed by keys and values in turn, then `END`. The keys of a struct are the names of its fields.
    pub(super) const MAP: u8 = 21;
    /// Followed by a name.
    pub(super) const UNIT_VARIANT: u8 = 22;
    /// Followed by a name and a value.
    pub(super) const VARIANT: u8 = 23;
    pub(super) const END: u8 = 24;
    /// Followed by values, then `END`. Their order is significant, unlike that of a `SEQ`, which may be a set.
    pub(super) const TUPLE: u8 = 25;
    // Tags that occur only in a shape.
    pub(super) const STRUCT: u8 = 26;
    pub(super) const ENUM: u8 = 27;
    pub(super) const UNREAD: u8 = 31;
}
