//! The decoder of heads. The bytes may come from another process, so nothing in them is trusted.
//!
//! The end of a packed value is known only after it has been read. If a type continues after one of its parts could not
//! be read to its end, the position of the next value is unknown. The reader is then lost, and every later read fails.

use serde::de::value::{BorrowedStrDeserializer, U32Deserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::error::SerdeError;
use super::{EMPTY_MAX, LEVELS_MAX, tag};

/// A decoder of one value, encoded by name or packed.
pub(in crate::payload) struct ValueReader<'de, const NAMED: bool> {
    pub(super) bytes: &'de [u8],
    /// The number of levels that the current place is inside of.
    pub(super) depth: u16,
    /// True if the value nests too deep. Set even if its `Deserialize` makes another error of it.
    pub(in crate::payload) is_too_deep: bool,
    /// The number of further elements that may take no bytes.
    empty: usize,
    /// True if a packed value was not read to its end, so that the position of the next one is unknown.
    is_lost: bool,
}

pub(super) type Result<T> = std::result::Result<T, SerdeError>;

impl<'de, const NAMED: bool> ValueReader<'de, NAMED> {
    #[inline]
    pub(in crate::payload) fn new(bytes: &'de [u8]) -> Self {
        ValueReader {
            bytes,
            depth: 0,
            is_too_deep: false,
            empty: EMPTY_MAX,
            is_lost: false,
        }
    }

    /// Checks the end of the whole value.
    ///
    /// # Errors
    /// An error if some bytes have not been read, or a packed value not to its end.
    #[inline]
    pub(in crate::payload) fn finish(&self) -> Result<()> {
        match (self.is_lost, self.bytes) {
            (false, []) => Ok(()),
            (false, _) => Err(SerdeError::said("its `Deserialize` does not read all of it")),
            (true, _) => Err(self.short()),
        }
    }

    #[cold]
    fn short(&self) -> SerdeError {
        SerdeError::said(if self.is_lost {
            "its `Deserialize` goes on after an error, and packed bytes do not say where what follows begins"
        } else {
            "it ends too early"
        })
    }

    #[cold]
    fn unknown(&mut self) -> SerdeError {
        self.lose();
        SerdeError::said("its type asks what is there, which packed bytes do not say")
    }

    #[cold]
    fn too_deep(&mut self) -> SerdeError {
        self.is_too_deep = true;
        self.lose();
        SerdeError::too_deep()
    }

    /// Makes all later reads fail.
    #[cold]
    fn lose(&mut self) {
        (self.is_lost, self.bytes) = (true, &[]);
    }

    /// Reads a packed value. After an error the position of the next value is unknown.
    #[inline]
    fn whole<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        read(self).inspect_err(|_| self.lose())
    }

    /// Counts an element that took no bytes.
    fn empty(&mut self) -> Result<()> {
        let Some(left) = self.empty.checked_sub(1) else {
            return Err(SerdeError::said(format_args!(
                "more than {EMPTY_MAX} elements of its lists and maps take no bytes"
            )));
        };
        self.empty = left;
        Ok(())
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8> {
        let Some((first, rest)) = self.bytes.split_first() else {
            return Err(self.short());
        };
        self.bytes = rest;
        Ok(*first)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some((first, rest)) = self.bytes.split_first_chunk() else {
            return Err(self.short());
        };
        self.bytes = rest;
        Ok(*first)
    }

    #[inline]
    fn unsigned(&mut self) -> Result<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = u64::from(self.byte()?);
            let bits = byte & 0x7f;
            if shift > 63 || (bits << shift) >> shift != bits {
                return Err(SerdeError::said("it holds a number of more than 64 bits"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    #[inline]
    fn narrow<N: TryFrom<u64>>(&mut self) -> Result<N> {
        let number = self.unsigned()?;
        N::try_from(number).map_err(|_| SerdeError::said("it holds a number that is too large for its type"))
    }

    #[inline]
    fn narrow_signed<N: TryFrom<i64>>(&mut self) -> Result<N> {
        let number = self.unsigned()?;
        let number = (number >> 1).cast_signed() ^ -((number & 1).cast_signed());
        N::try_from(number).map_err(|_| SerdeError::said("it holds a number that is too large for its type"))
    }

    fn unsigned_128(&mut self) -> Result<u128> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = u128::from(self.byte()?);
            let bits = byte & 0x7f;
            if shift > 127 || (bits << shift) >> shift != bits {
                return Err(SerdeError::said("it holds a number of more than 128 bits"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    /// Reads a packed byte that is 0 or 1.
    #[inline]
    fn flag(&mut self, otherwise: &'static str) -> Result<bool> {
        self.whole(|reader| match reader.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SerdeError::said(otherwise)),
        })
    }

    #[inline]
    pub(super) fn lengthy(&mut self) -> Result<&'de [u8]> {
        let len = self.narrow::<usize>()?;
        let Some((found, rest)) = self.bytes.split_at_checked(len) else {
            return Err(self.short());
        };
        self.bytes = rest;
        Ok(found)
    }

    /// Reads something one level deeper.
    #[inline]
    pub(super) fn deeper<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.enter()?;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Consumes the end of a list or map, if it is next. Returns whether it was.
    fn ends(&mut self) -> bool {
        let Some((&tag::END, rest)) = self.bytes.split_first() else {
            return false;
        };
        self.bytes = rest;
        true
    }

    /// Goes one level deeper.
    pub(super) fn enter(&mut self) -> Result<()> {
        if self.depth >= LEVELS_MAX {
            return Err(self.too_deep());
        }
        self.depth += 1;
        Ok(())
    }
}

/// The unread rest of a list or a map.
pub(super) struct ReadItems<'r, 'de, const NAMED: bool> {
    reader: &'r mut ValueReader<'de, NAMED>,
    /// The number of items left, if no tag in the bytes ends them.
    left: usize,
    done: usize,
    has_ended: bool,
    /// True if the bytes contain the number of items.
    is_counted: bool,
    names: Option<&'static [&'static str]>,
}

impl<'r, 'de, const NAMED: bool> ReadItems<'r, 'de, NAMED> {
    /// Begins a list or map of `left` items; 0 for one whose end is a tag.
    #[inline]
    pub(super) fn new(
        reader: &'r mut ValueReader<'de, NAMED>,
        left: usize,
        names: Option<&'static [&'static str]>,
    ) -> Self {
        ReadItems {
            reader,
            left,
            done: 0,
            has_ended: false,
            is_counted: false,
            names,
        }
    }

    /// Begins a packed list or map, which starts with its length.
    #[inline]
    fn counted(reader: &'r mut ValueReader<'de, NAMED>) -> Result<Self> {
        let left = reader.whole(|reader| reader.narrow())?;
        let mut items = ReadItems::new(reader, left, None);
        items.is_counted = true;
        Ok(items)
    }

    /// Whether another item follows.
    #[inline]
    fn goes_on(&mut self) -> bool {
        if NAMED {
            self.has_ended = self.has_ended || self.reader.ends();
            return !self.has_ended;
        }
        let goes_on = self.left > 0;
        self.left = self.left.saturating_sub(1);
        goes_on
    }

    /// Reads packed items. Unless all of them are read, the position of the next value is unknown.
    #[inline]
    fn whole<R>(mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let len = self.left;
        let value = read(&mut self);
        if self.done != len {
            self.reader.lose();
        }
        value
    }

    /// Checks that no item is left, in the named form.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.goes_on() {
            return Err(SerdeError::said("it holds more than its type takes"));
        }
        Ok(())
    }

    #[inline]
    fn read<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        let index = self.done;
        let value = if !NAMED && self.reader.is_lost {
            Err(self.reader.short())
        } else {
            seed.deserialize(&mut *self.reader)
        };
        value.map_err(|error| match self.names.and_then(|names| names.get(index)) {
            Some(name) => error.in_name(name),
            None => error.in_index(index),
        })
    }

    /// Reads an element or a key. Counts those that take no bytes, since a false length may announce any number of
    /// them.
    #[inline]
    fn item<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        if !self.goes_on() {
            return Ok(None);
        }
        let before = self.reader.bytes.len();
        let value = self.read(seed)?;
        if self.is_counted && self.reader.bytes.len() == before {
            self.reader.empty().map_err(|error| error.in_index(self.done))?;
        }
        Ok(Some(value))
    }

    fn hint(&self) -> Option<usize> {
        // A false length must not reserve more memory than the bytes left justify.
        (!NAMED).then(|| self.left.min(self.reader.bytes.len()))
    }
}

impl<'de, const NAMED: bool> SeqAccess<'de> for ReadItems<'_, 'de, NAMED> {
    type Error = SerdeError;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        let value = self.item(seed)?;
        self.done += usize::from(value.is_some());
        Ok(value)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

impl<'de, const NAMED: bool> MapAccess<'de> for ReadItems<'_, 'de, NAMED> {
    type Error = SerdeError;

    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>> {
        self.item(seed)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value> {
        let value = self.read(seed)?;
        self.done += 1;
        Ok(value)
    }

    #[inline]
    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

/// A variant of an enum, and whether it has no content.
struct ReadVariant<'r, 'de, const NAMED: bool> {
    reader: &'r mut ValueReader<'de, NAMED>,
    name: &'de str,
    is_unit: bool,
}

impl<'r, 'de, const NAMED: bool> EnumAccess<'de> for ReadVariant<'r, 'de, NAMED> {
    type Error = SerdeError;
    type Variant = Self;

    #[inline]
    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self)> {
        let value = if NAMED {
            seed.deserialize(BorrowedStrDeserializer::new(self.name))?
        } else {
            let index: U32Deserializer<SerdeError> = self.reader.narrow::<u32>()?.into_deserializer();
            seed.deserialize(index)?
        };
        Ok((value, self))
    }
}

impl<'de, const NAMED: bool> ReadVariant<'_, 'de, NAMED> {
    fn bare<R>(&self) -> Result<R> {
        Err(SerdeError::said(format_args!(
            "its variant `{}` comes without what is in it",
            self.name
        )))
    }
}

impl<'de, const NAMED: bool> VariantAccess<'de> for ReadVariant<'_, 'de, NAMED> {
    type Error = SerdeError;

    #[inline]
    fn unit_variant(self) -> Result<()> {
        if !NAMED || self.is_unit {
            return Ok(());
        }
        serde::Deserialize::deserialize(self.reader)
    }

    #[inline]
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value> {
        if NAMED && self.is_unit {
            return self.bare();
        }
        self.reader.deeper(|reader| seed.deserialize(reader))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value> {
        if NAMED && self.is_unit {
            return self.bare();
        }
        self.reader.deserialize_tuple(len, visitor)
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if NAMED && self.is_unit {
            return self.bare();
        }
        self.reader.deserialize_struct("", fields, visitor)
    }
}

macro_rules! numbers {
    ($($method:ident: $visit:ident, $read:expr;)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            if NAMED {
                return self.any(visitor);
            }
            let read: fn(&mut ValueReader<'de, NAMED>) -> Result<_> = $read;
            visitor.$visit(self.whole(read)?)
        }
    )*};
}

impl<'de, const NAMED: bool> Deserializer<'de> for &mut ValueReader<'de, NAMED> {
    type Error = SerdeError;

    #[inline]
    fn is_human_readable(&self) -> bool {
        NAMED
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.any(visitor);
        }
        Err(self.unknown())
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.key(visitor);
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_any(visitor)
    }

    numbers! {
        deserialize_u8: visit_u8, |reader| reader.byte();
        deserialize_u16: visit_u16, |reader| reader.narrow();
        deserialize_u32: visit_u32, |reader| reader.narrow();
        deserialize_u64: visit_u64, |reader| reader.unsigned();
        deserialize_i8: visit_i8, |reader| reader.array().map(i8::from_le_bytes);
        deserialize_i16: visit_i16, |reader| reader.narrow_signed();
        deserialize_i32: visit_i32, |reader| reader.narrow_signed();
        deserialize_i64: visit_i64, |reader| reader.narrow_signed();
        deserialize_f32: visit_f32, |reader| reader.array().map(f32::from_le_bytes);
        deserialize_f64: visit_f64, |reader| reader.array().map(f64::from_le_bytes);
        deserialize_str: visit_string, |reader| reader.copied_text();
        deserialize_string: visit_string, |reader| reader.copied_text();
        deserialize_bytes: visit_byte_buf, |reader| reader.lengthy().map(<[u8]>::to_vec);
        deserialize_byte_buf: visit_byte_buf, |reader| reader.lengthy().map(<[u8]>::to_vec);
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED && self.bytes.first() != Some(&tag::U128) {
            return self.any(visitor);
        }
        if NAMED {
            self.byte()?;
            return visitor.visit_u128(u128::from_le_bytes(self.array()?));
        }
        visitor.visit_u128(self.whole(|reader| reader.unsigned_128())?)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED && self.bytes.first() != Some(&tag::I128) {
            return self.any(visitor);
        }
        if NAMED {
            self.byte()?;
            return visitor.visit_i128(i128::from_le_bytes(self.array()?));
        }
        let number = self.whole(|reader| reader.unsigned_128())?;
        visitor.visit_i128((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    #[inline]
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.any(visitor);
        }
        visitor.visit_bool(self.flag("it holds a bool that is none")?)
    }

    #[inline]
    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.any(visitor);
        }
        visitor.visit_char(self.whole(ValueReader::copied_letter)?)
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if !NAMED {
            if !self.flag("it holds an option that is none")? {
                return visitor.visit_none();
            }
            let left = self.bytes.len();
            let value = self.deeper(|reader| visitor.visit_some(reader));
            if value.is_err() && self.bytes.len() == left {
                // The content was not read, so the position of the next value is unknown.
                self.lose();
            }
            return value;
        }
        match self.bytes.first() {
            Some(&(tag::NONE | tag::UNIT)) => {
                self.byte()?;
                visitor.visit_none()
            }
            Some(&tag::SOME) => {
                self.byte()?;
                self.deeper(|reader| visitor.visit_some(reader))
            }
            _ => self.deeper(|reader| visitor.visit_some(reader)),
        }
    }

    #[inline]
    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.any(visitor);
        }
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        // It takes no byte, and stack like any other level.
        self.deeper(|reader| visitor.visit_newtype_struct(reader))
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.list(visitor);
        }
        self.deeper(|reader| ReadItems::counted(reader)?.whole(|items| visitor.visit_seq(items)))
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.list(visitor);
        }
        self.deeper(|reader| ReadItems::new(reader, len, None).whole(|items| visitor.visit_seq(items)))
    }

    #[inline]
    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value> {
        self.deserialize_tuple(len, visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if NAMED {
            return self.entries(None, visitor);
        }
        self.deeper(|reader| ReadItems::counted(reader)?.whole(|items| visitor.visit_map(items)))
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if !NAMED {
            return self.deeper(|reader| {
                let fields = ReadItems::new(reader, fields.len(), Some(fields));
                fields.whole(|items| visitor.visit_seq(items))
            });
        }
        self.entries(Some(fields), visitor)
    }

    #[inline]
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        if !NAMED {
            return self.whole(|reader| {
                visitor.visit_enum(ReadVariant {
                    reader,
                    name: "",
                    is_unit: false,
                })
            });
        }
        let kind = self.byte()?;
        if kind == tag::MAP && self.byte()? != tag::STR {
            return Err(SerdeError::said("it holds a map in place of a variant"));
        }
        let is_unit = matches!(kind, tag::UNIT_VARIANT | tag::STR);
        if !is_unit && !matches!(kind, tag::VARIANT | tag::MAP) {
            return Err(SerdeError::said("it holds something else in place of a variant"));
        }
        let name = self.text()?;
        let value = visitor.visit_enum(ReadVariant {
            reader: &mut *self,
            name,
            is_unit,
        })?;
        if kind == tag::MAP && !self.ends() {
            return Err(SerdeError::said("it holds more than a variant"));
        }
        Ok(value)
    }
}
