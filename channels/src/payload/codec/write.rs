//! The encoder of heads.

use serde::ser::{
    Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

use super::error::SerdeError;
use super::shape::{Child, Shape, ShapeSlot};
use super::{EMPTY_MAX, LEVELS_MAX, tag};

/// A destination of bytes.
pub(in crate::payload) trait ByteSink {
    /// Takes bytes. Returns `false` if there is no room for them.
    fn put(&mut self, bytes: &[u8]) -> bool;
}

impl<S: ByteSink> ByteSink for &mut S {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> bool {
        (**self).put(bytes)
    }
}

/// The reason why a writer stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::payload) enum Stop {
    /// The sink has no room.
    Full,
    /// The value has to be encoded by name.
    Unpacked,
    /// The value nests too deep.
    TooDeep,
}

/// An encoder of one value, by name or packed.
pub(in crate::payload) struct ValueWriter<'s, S, const NAMED: bool> {
    pub(in crate::payload) sink: S,
    /// The shape that the type's `Deserialize` reads. If `None`, nothing is compared.
    shape: Option<&'s Shape>,
    /// The part of the shape at the current place.
    at: ShapeSlot,
    pub(in crate::payload) stop: Option<Stop>,
    /// The number of levels that the current place is inside of.
    depth: u16,
    /// The number of further elements that may take no bytes.
    empty: usize,
}

impl<'s, S: ByteSink, const NAMED: bool> ValueWriter<'s, S, NAMED> {
    #[inline]
    pub(in crate::payload) fn new(sink: S, shape: Option<&'s Shape>) -> Self {
        ValueWriter {
            sink,
            shape,
            at: shape.map_or(ShapeSlot::UNREAD, Shape::root),
            stop: None,
            depth: 0,
            empty: EMPTY_MAX,
        }
    }

    #[cold]
    fn stop(&mut self, stop: Stop) -> SerdeError {
        match *self.stop.get_or_insert(stop) {
            Stop::TooDeep => SerdeError::too_deep(),
            Stop::Full | Stop::Unpacked => SerdeError::stopped(),
        }
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), SerdeError> {
        if self.sink.put(bytes) {
            return Ok(());
        }
        Err(self.stop(Stop::Full))
    }

    #[inline]
    fn unsigned(&mut self, mut number: u64) -> Result<(), SerdeError> {
        // One byte at a time: a copy of variable length takes longer than writing most numbers.
        while number > 0x7f {
            self.put(&[number as u8 | 0x80])?;
            number >>= 7;
        }
        self.put(&[number as u8])
    }

    fn unsigned_128(&mut self, mut number: u128) -> Result<(), SerdeError> {
        while number > 0x7f {
            self.put(&[number as u8 | 0x80])?;
            number >>= 7;
        }
        self.put(&[number as u8])
    }

    #[inline]
    fn signed(&mut self, number: i64) -> Result<(), SerdeError> {
        self.unsigned((number << 1 ^ number >> 63).cast_unsigned())
    }

    #[inline]
    fn lengthy(&mut self, bytes: &[u8]) -> Result<(), SerdeError> {
        self.unsigned(bytes.len() as u64)?;
        self.put(bytes)
    }

    /// Stops the packed form, unless the type's `Deserialize` reads the current value at this place.
    #[inline]
    fn compare(&mut self, is_read: bool) -> Result<(), SerdeError> {
        if !is_read && self.shape.is_some() {
            return Err(self.stop(Stop::Unpacked));
        }
        Ok(())
    }

    /// Writes the tag of the next value. In the packed form, writes nothing and stops if the type reads another kind of
    /// value here.
    #[inline]
    fn kind(&mut self, tag: u8) -> Result<(), SerdeError> {
        if NAMED {
            return self.put(&[tag]);
        }
        self.compare(self.at.tag() == tag)
    }

    /// The parts of the shape inside the current place.
    #[inline]
    fn kids(&self) -> &'s [Child] {
        self.shape.map_or(&[], |shape| shape.kids(self.at))
    }

    /// Moves to the place of the next value.
    #[inline]
    fn goes_to(&mut self, kid: Option<&Child>) -> Result<(), SerdeError> {
        match kid {
            Some(kid) => {
                self.at = kid.slot;
                Ok(())
            }
            None => self.compare(false),
        }
    }

    /// Enters one more level of nesting. After an error nobody leaves the level: the writer has stopped then, or the value's
    /// `Serialize` has failed.
    #[inline]
    fn deeper(&mut self) -> Result<(), SerdeError> {
        if self.depth >= LEVELS_MAX {
            return Err(self.stop(Stop::TooDeep));
        }
        self.depth += 1;
        Ok(())
    }

    /// Writes a value one level deeper.
    #[inline]
    fn inside<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), SerdeError> {
        self.deeper()?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Begins a variant whose form is the given tag.
    #[inline]
    fn variant(&mut self, form: u8, index: u32, name: &'static str) -> Result<(), SerdeError> {
        if NAMED {
            let is_unit = form == tag::UNIT_VARIANT;
            self.put(&[if is_unit { tag::UNIT_VARIANT } else { tag::VARIANT }])?;
            return self.lengthy(name.as_bytes());
        }
        self.kind(tag::ENUM)?;
        let kid = self.kids().get(index as usize);
        self.goes_to(kid.filter(|kid| kid.form == form && kid.is_named(name)))?;
        self.unsigned(u64::from(index))
    }

    /// Begins a list or a map. The returned `WriteItems` writes its items and its end.
    #[inline]
    fn begin(&mut self, kind: u8, len: Option<usize>) -> Result<WriteItems<'_, 's, S, NAMED>, SerdeError> {
        self.deeper()?;
        if NAMED {
            self.put(&[if kind == tag::STRUCT { tag::MAP } else { kind }])?;
            return Ok(WriteItems {
                writer: self,
                kids: &[],
                len,
                done: 0,
            });
        }
        self.kind(kind)?;
        let kids = self.kids();
        let is_counted = matches!(kind, tag::SEQ | tag::MAP);
        self.compare(len.is_some_and(|len| is_counted || kids.len() == len))?;
        if let (true, Some(len)) = (is_counted, len) {
            if let (Some(shape), Some(kid)) = (self.shape, kids.first())
                && shape.is_empty(kid.slot)
            {
                let left = self.empty.checked_sub(len);
                self.compare(left.is_some())?;
                self.empty = left.unwrap_or_default();
            }
            self.unsigned(len as u64)?;
        }
        Ok(WriteItems {
            writer: self,
            kids,
            len,
            done: 0,
        })
    }
}

/// The unwritten rest of a list, a map or a struct.
pub(in crate::payload) struct WriteItems<'w, 's, S, const NAMED: bool> {
    writer: &'w mut ValueWriter<'s, S, NAMED>,
    /// The parts of the shape inside it.
    kids: &'s [Child],
    len: Option<usize>,
    done: usize,
}

impl<S: ByteSink, const NAMED: bool> WriteItems<'_, '_, S, NAMED> {
    /// Writes an element or a key, at this place of the shape.
    #[inline]
    fn item<T: ?Sized + Serialize>(&mut self, place: usize, value: &T) -> Result<(), SerdeError> {
        let index = self.done;
        self.done += 1;
        if !NAMED {
            self.writer.goes_to(self.kids.get(place))?;
        }
        let written = value.serialize(&mut *self.writer);
        written.map_err(|error| error.in_index(index))
    }

    #[inline]
    fn field<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Result<(), SerdeError> {
        if NAMED {
            self.writer.put(&[tag::STR])?;
            self.writer.lengthy(name.as_bytes())?;
        } else {
            let kid = self.kids.get(self.done);
            self.writer.goes_to(kid.filter(|kid| kid.is_named(name)))?;
        }
        self.done += 1;
        let written = value.serialize(&mut *self.writer);
        written.map_err(|error| error.in_name(name))
    }

    #[inline]
    fn close(self) -> Result<(), SerdeError> {
        self.writer.depth -= 1;
        if NAMED {
            return self.writer.put(&[tag::END]);
        }
        // Stops the packed form if more or fewer items were written than announced.
        self.writer.compare(self.len == Some(self.done))
    }
}

macro_rules! lists {
    ($($trait:ident :: $method:ident, $place:expr;)*) => {$(
        impl<S: ByteSink, const NAMED: bool> $trait for WriteItems<'_, '_, S, NAMED> {
            type Ok = ();
            type Error = SerdeError;

            #[inline]
            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), SerdeError> {
                let place: fn(usize) -> usize = $place;
                self.item(place(self.done), value)
            }

            #[inline]
            fn end(self) -> Result<(), SerdeError> {
                self.close()
            }
        }
    )*};
}

lists! {
    SerializeSeq::serialize_element, |_| 0;
    SerializeTuple::serialize_element, |done| done;
    SerializeTupleStruct::serialize_field, |done| done;
    SerializeTupleVariant::serialize_field, |done| done;
}

macro_rules! structs {
    ($($trait:ident),*) => {$(
        impl<S: ByteSink, const NAMED: bool> $trait for WriteItems<'_, '_, S, NAMED> {
            type Ok = ();
            type Error = SerdeError;

            #[inline]
            fn serialize_field<T: ?Sized + Serialize>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), SerdeError> {
                self.field(name, value)
            }

            fn skip_field(&mut self, _: &'static str) -> Result<(), SerdeError> {
                self.writer.compare(NAMED)
            }

            #[inline]
            fn end(self) -> Result<(), SerdeError> {
                self.close()
            }
        }
    )*};
}

structs!(SerializeStruct, SerializeStructVariant);

impl<S: ByteSink, const NAMED: bool> SerializeMap for WriteItems<'_, '_, S, NAMED> {
    type Ok = ();
    type Error = SerdeError;

    #[inline]
    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Result<(), SerdeError> {
        self.item(0, key)
    }

    #[inline]
    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), SerdeError> {
        let index = self.done.saturating_sub(1);
        if !NAMED {
            self.writer.goes_to(self.kids.get(1))?;
        }
        let written = value.serialize(&mut *self.writer);
        written.map_err(|error| error.in_index(index))
    }

    #[inline]
    fn end(self) -> Result<(), SerdeError> {
        self.close()
    }
}

macro_rules! numbers {
    ($($method:ident($type:ty): $tag:ident, $packed:ident;)*) => {$(
        #[inline]
        fn $method(self, number: $type) -> Result<(), SerdeError> {
            self.kind(tag::$tag)?;
            if NAMED {
                return self.put(&number.to_le_bytes());
            }
            self.$packed(number.into())
        }
    )*};
}

impl<'w, 's, S: ByteSink, const NAMED: bool> Serializer for &'w mut ValueWriter<'s, S, NAMED> {
    type Ok = ();
    type Error = SerdeError;
    type SerializeSeq = WriteItems<'w, 's, S, NAMED>;
    type SerializeTuple = WriteItems<'w, 's, S, NAMED>;
    type SerializeTupleStruct = WriteItems<'w, 's, S, NAMED>;
    type SerializeTupleVariant = WriteItems<'w, 's, S, NAMED>;
    type SerializeMap = WriteItems<'w, 's, S, NAMED>;
    type SerializeStruct = WriteItems<'w, 's, S, NAMED>;
    type SerializeStructVariant = WriteItems<'w, 's, S, NAMED>;

    /// Serde's buffer for `untagged` and similar types always reads as human-readable, no matter which format filled
    /// it. Values encoded by name are therefore written as human-readable too.
    #[inline]
    fn is_human_readable(&self) -> bool {
        NAMED
    }

    numbers! {
        serialize_u16(u16): U16, unsigned;
        serialize_u32(u32): U32, unsigned;
        serialize_u64(u64): U64, unsigned;
        serialize_u128(u128): U128, unsigned_128;
        serialize_i16(i16): I16, signed;
        serialize_i32(i32): I32, signed;
        serialize_i64(i64): I64, signed;
    }

    #[inline]
    fn serialize_i128(self, number: i128) -> Result<(), SerdeError> {
        self.kind(tag::I128)?;
        if NAMED {
            return self.put(&number.to_le_bytes());
        }
        self.unsigned_128((number << 1 ^ number >> 127).cast_unsigned())
    }

    #[inline]
    fn serialize_bool(self, value: bool) -> Result<(), SerdeError> {
        if NAMED {
            return self.put(&[if value { tag::TRUE } else { tag::FALSE }]);
        }
        self.kind(tag::TRUE)?;
        self.put(&[value.into()])
    }

    #[inline]
    fn serialize_u8(self, number: u8) -> Result<(), SerdeError> {
        self.kind(tag::U8)?;
        self.put(&[number])
    }

    #[inline]
    fn serialize_i8(self, number: i8) -> Result<(), SerdeError> {
        self.kind(tag::I8)?;
        self.put(&number.to_le_bytes())
    }

    #[inline]
    fn serialize_f32(self, number: f32) -> Result<(), SerdeError> {
        self.kind(tag::F32)?;
        self.put(&number.to_bits().to_le_bytes())
    }

    #[inline]
    fn serialize_f64(self, number: f64) -> Result<(), SerdeError> {
        self.kind(tag::F64)?;
        self.put(&number.to_bits().to_le_bytes())
    }

    #[inline]
    fn serialize_char(self, letter: char) -> Result<(), SerdeError> {
        self.kind(tag::CHAR)?;
        if NAMED {
            return self.put(&u32::from(letter).to_le_bytes());
        }
        self.lengthy(letter.encode_utf8(&mut [0; 4]).as_bytes())
    }

    #[inline]
    fn serialize_str(self, text: &str) -> Result<(), SerdeError> {
        self.kind(tag::STR)?;
        self.lengthy(text.as_bytes())
    }

    #[inline]
    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), SerdeError> {
        self.kind(tag::BYTES)?;
        self.lengthy(bytes)
    }

    #[inline]
    fn serialize_none(self) -> Result<(), SerdeError> {
        if NAMED {
            return self.put(&[tag::NONE]);
        }
        self.kind(tag::SOME)?;
        self.put(&[0])
    }

    #[inline]
    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Result<(), SerdeError> {
        self.kind(tag::SOME)?;
        if !NAMED {
            self.goes_to(self.kids().first())?;
            self.put(&[1])?;
        }
        self.inside(value)
    }

    #[inline]
    fn serialize_unit(self) -> Result<(), SerdeError> {
        self.kind(tag::UNIT)
    }

    #[inline]
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), SerdeError> {
        self.serialize_unit()
    }

    #[inline]
    fn serialize_unit_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
    ) -> Result<(), SerdeError> {
        self.variant(tag::UNIT_VARIANT, index, variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), SerdeError> {
        // It takes no byte, and stack like any other level.
        self.inside(value)
    }

    #[inline]
    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), SerdeError> {
        self.variant(tag::VARIANT, index, variant)?;
        self.inside(value).map_err(|error| error.in_name(variant))
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, SerdeError> {
        self.begin(tag::SEQ, len)
    }

    #[inline]
    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, SerdeError> {
        self.begin(tag::TUPLE, Some(len))
    }

    #[inline]
    fn serialize_tuple_struct(
        self,
        _: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, SerdeError> {
        self.begin(tag::TUPLE, Some(len))
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, SerdeError> {
        self.variant(tag::TUPLE, index, variant)?;
        self.begin(tag::TUPLE, Some(len))
    }

    #[inline]
    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, SerdeError> {
        self.begin(tag::MAP, len)
    }

    #[inline]
    fn serialize_struct(self, _: &'static str, len: usize) -> Result<Self::SerializeStruct, SerdeError> {
        self.begin(tag::STRUCT, Some(len))
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        _: &'static str,
        index: u32,
        variant: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, SerdeError> {
        self.variant(tag::STRUCT, index, variant)?;
        self.begin(tag::STRUCT, Some(len))
    }
}
