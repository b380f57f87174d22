//! The decoder of values that are encoded by name: kinds by their tags, much as a JSON reader sees them.
//!
//! A type that asks for one kind gets that kind or an error, which names the kind that is there. So the code of a type's visitor has
//! the kinds that the type reads, and no others.

use serde::de::{Expected, Visitor};

use super::error::SerdeError;
use super::one_entry::OneEntry;
use super::read::{ReadItems, Result, ValueReader};
use super::tag;
use super::unlike::Unlike;

impl<'de, const NAMED: bool> ValueReader<'de, NAMED> {
    /// Reads the items of a list or map up to its end.
    fn items<R>(
        &mut self,
        names: Option<&'static [&'static str]>,
        visit: impl FnOnce(&mut ReadItems<'_, 'de, NAMED>) -> Result<R>,
    ) -> Result<R> {
        self.enter()?;
        let mut items = ReadItems::new(self, 0, names);
        let value = visit(&mut items);
        let ended = match &value {
            Ok(_) => items.finish(),
            Err(_) => Ok(()),
        };
        self.depth -= 1;
        ended.and(value)
    }

    /// Reads a list by its named form. Other kinds are refused, as JSON readers do.
    pub(super) fn list<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let depth = self.depth;
        let tag = self.content()?;
        let value = match tag {
            tag::SEQ | tag::TUPLE => self.items(None, |items| visitor.visit_seq(items)),
            _ => Err(self.refused(tag, &visitor)),
        };
        self.depth = depth;
        value
    }

    /// Reads a map by its named form, or a struct of these names, which may be a list. Other kinds are refused, as JSON readers do.
    pub(super) fn entries<V: Visitor<'de>>(
        &mut self,
        names: Option<&'static [&'static str]>,
        visitor: V,
    ) -> Result<V::Value> {
        let depth = self.depth;
        let tag = self.content()?;
        let value = match tag {
            tag::SEQ | tag::TUPLE if names.is_some() => self.items(names, |items| visitor.visit_seq(items)),
            tag::MAP => self.items(None, |items| visitor.visit_map(items)),
            tag::VARIANT => self.text().and_then(|name| self.one_entry(name, visitor)),
            _ => Err(self.refused(tag, &visitor)),
        };
        self.depth = depth;
        value
    }

    /// Reads a name, or another key of a map, by its named form. All numbers of a sort look the same to a key.
    pub(super) fn key<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let tag = self.byte()?;
        match tag {
            tag::STR | tag::UNIT_VARIANT => visitor.visit_borrowed_str(self.text()?),
            tag::BYTES => visitor.visit_borrowed_bytes(self.lengthy()?),
            tag::CHAR => visitor.visit_char(self.letter()?),
            tag::FALSE | tag::TRUE => visitor.visit_bool(tag == tag::TRUE),
            tag::U8 | tag::U16 | tag::U32 | tag::U64 => visitor.visit_u64(self.unsigned_of(tag)?),
            tag::I8 | tag::I16 | tag::I32 | tag::I64 => visitor.visit_i64(self.signed_of(tag)?),
            tag::F32 => visitor.visit_f32(f32::from_le_bytes(self.array()?)),
            tag::F64 => visitor.visit_f64(f64::from_le_bytes(self.array()?)),
            _ => Err(self.refused(tag, &visitor)),
        }
    }

    fn unsigned_of(&mut self, tag: u8) -> Result<u64> {
        Ok(match tag {
            tag::U8 => self.byte()?.into(),
            tag::U16 => u16::from_le_bytes(self.array()?).into(),
            tag::U32 => u32::from_le_bytes(self.array()?).into(),
            _ => u64::from_le_bytes(self.array()?),
        })
    }

    fn signed_of(&mut self, tag: u8) -> Result<i64> {
        Ok(match tag {
            tag::I8 => i8::from_le_bytes(self.array()?).into(),
            tag::I16 => i16::from_le_bytes(self.array()?).into(),
            tag::I32 => i32::from_le_bytes(self.array()?).into(),
            _ => i64::from_le_bytes(self.array()?),
        })
    }

    fn letter(&mut self) -> Result<char> {
        let letter = char::from_u32(u32::from_le_bytes(self.array()?));
        letter.ok_or_else(|| SerdeError::said("it holds a letter that is none"))
    }

    /// Reads the tag of the next value. That of an option whose content is unambiguous is passed over, one level deeper.
    fn content(&mut self) -> Result<u8> {
        if let [tag::SOME, inner, ..] = self.bytes
            && !matches!(*inner, tag::NONE | tag::SOME | tag::UNIT)
        {
            self.enter()?;
            self.byte()?;
        }
        self.byte()
    }

    /// The error for a value of another kind than the type reads, whose tag has been read.
    #[cold]
    fn refused(&mut self, tag: u8, expected: &dyn Expected) -> SerdeError {
        match self.tagged(tag, Unlike(expected)) {
            Err(error) => error,
            Ok(never) => match never {},
        }
    }

    /// Shows a variant as a JSON reader presents it.
    fn one_entry<V: Visitor<'de>>(&mut self, name: &'de str, visitor: V) -> Result<V::Value> {
        self.deeper(|reader| {
            visitor.visit_map(OneEntry {
                name: Some(name),
                reader,
            })
        })
    }

    /// Passes the next value to `visitor` as its tag says, much as a JSON reader would.
    pub(super) fn any<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let tag = self.byte()?;
        self.tagged(tag, visitor)
    }

    /// Passes the next value, whose tag has been read, to `visitor`.
    fn tagged<V: Visitor<'de>>(&mut self, tag: u8, visitor: V) -> Result<V::Value> {
        match tag {
            tag::UNIT => visitor.visit_unit(),
            tag::FALSE => visitor.visit_bool(false),
            tag::TRUE => visitor.visit_bool(true),
            tag::U8 => visitor.visit_u8(self.byte()?),
            tag::U16 => visitor.visit_u16(u16::from_le_bytes(self.array()?)),
            tag::U32 => visitor.visit_u32(u32::from_le_bytes(self.array()?)),
            tag::U64 => visitor.visit_u64(u64::from_le_bytes(self.array()?)),
            tag::U128 => {
                let number = u128::from_le_bytes(self.array()?);
                match u64::try_from(number) {
                    Ok(number) => visitor.visit_u64(number),
                    Err(_) => visitor.visit_u128(number),
                }
            }
            tag::I8 => visitor.visit_i8(i8::from_le_bytes(self.array()?)),
            tag::I16 => visitor.visit_i16(i16::from_le_bytes(self.array()?)),
            tag::I32 => visitor.visit_i32(i32::from_le_bytes(self.array()?)),
            tag::I64 => visitor.visit_i64(i64::from_le_bytes(self.array()?)),
            tag::I128 => {
                let number = i128::from_le_bytes(self.array()?);
                match i64::try_from(number) {
                    Ok(number) => visitor.visit_i64(number),
                    Err(_) => visitor.visit_i128(number),
                }
            }
            tag::F32 => visitor.visit_f32(f32::from_le_bytes(self.array()?)),
            tag::F64 => visitor.visit_f64(f64::from_le_bytes(self.array()?)),
            tag::CHAR => visitor.visit_char(self.letter()?),
            tag::STR => visitor.visit_borrowed_str(self.text()?),
            tag::BYTES => visitor.visit_borrowed_bytes(self.lengthy()?),
            tag::NONE => visitor.visit_none(),
            // A visitor that does not handle options gets the content itself, if that is unambiguous.
            tag::SOME => match self.bytes.first() {
                Some(&(tag::NONE | tag::SOME | tag::UNIT)) => {
                    self.deeper(|reader| visitor.visit_some(&mut *reader))
                }
                _ => self.deeper(|reader| reader.any(visitor)),
            },
            tag::SEQ | tag::TUPLE => self.items(None, |items| visitor.visit_seq(items)),
            tag::MAP => self.items(None, |items| visitor.visit_map(items)),
            tag::UNIT_VARIANT => visitor.visit_borrowed_str(self.text()?),
            tag::VARIANT => {
                let name = self.text()?;
                self.one_entry(name, visitor)
            }
            _ => Err(SerdeError::said("it holds a tag that is none")),
        }
    }
}
