//! A value as bytes, in one of two ways.
//!
//! *Packed* is postcard's format: what the type says is not said again. Bytes in it mean something only to a type that reads
//! what the value's type wrote, field by field. serde lets a type do otherwise: `skip_serializing_if` leaves fields out,
//! `flatten` writes maps of a length that nobody knows, `untagged` and `tag` read whatever is there and look at it afterwards.
//!
//! *Named* says what everything is, and calls fields and variants by their names. So it is for those types. It tells `Some(None)`
//! from `None`, one number type from another and bytes from lists; to who asks what is there it shows what JSON would.
//!
//! A [`trial`](trial::way_of) of the type says which: it shows the type's `Deserialize` made-up values and notes what it asks
//! for, place by place. A value goes packed while it writes that, of those kinds and names. All else goes by name, and comes
//! back, and is compared, before it is sent; lists, sets and maps that differ in nothing but their order are equal there.

mod back;
mod error;
mod read;
mod trial;
mod write;

pub(crate) use back::arrives;
pub use error::SerdeError;
pub(super) use error::is_ours;
pub(super) use read::Reader;
pub(super) use trial::{Shape, is_trial};
pub(crate) use trial::{Way, say_named, way_of};
pub(super) use write::{Sink, Stop, Writer};

/// How deep a value that goes by name may nest: who reads it may have to hold any of it before its type is known.
const NEST_MAX: u16 = 256;

/// How many elements of lists and keys of maps may take no bytes in a packed value, all of them together: no length of the bytes
/// bounds their number, and each may take memory. A type of which a value has more goes by name, where
/// each takes a byte.
const EMPTY_MAX: usize = 1 << 16;

/// What follows in the bytes of a value that goes by name. Numbers follow in little-endian bytes, text and bytes behind their
/// length.
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
    /// Its number, as of a `u32`.
    pub(super) const CHAR: u8 = 15;
    pub(super) const STR: u8 = 16;
    pub(super) const BYTES: u8 = 17;
    pub(super) const NONE: u8 = 18;
    /// A value.
    pub(super) const SOME: u8 = 19;
    /// Values, then `END`.
    pub(super) const SEQ: u8 = 20;
    /// Keys and values by turns, then `END`. A struct's keys are the names of its fields.
    pub(super) const MAP: u8 = 21;
    /// A name.
    pub(super) const UNIT_VARIANT: u8 = 22;
    /// A name and a value.
    pub(super) const VARIANT: u8 = 23;
    pub(super) const END: u8 = 24;
    /// Values, then `END`. They are of the type's order, which those of a `SEQ` need not be.
    pub(super) const TUPLE: u8 = 25;
    // What a shape alone says.
    pub(super) const STRUCT: u8 = 26;
    pub(super) const ENUM: u8 = 27;
    pub(super) const UNREAD: u8 = 31;
}
