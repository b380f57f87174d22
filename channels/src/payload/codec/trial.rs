//! Which way values of a type go: its `Deserialize` is shown made-up values, and says with each step what it would read.
//!
//! It is run until every variant of every enum that it has come across was read once. An option is there where one of its type
//! is first met, and a list has an element; after that they are empty, so that types that hold themselves have an end. A type that
//! asks what is there, that refuses what it is shown, panics, or takes too long goes by name.

use std::any::TypeId;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::RwLock;
use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::error::SerdeError;
use super::tag;

/// More than any type that is known to go packed asks for.
const STEPS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 200;

/// Which way values of a type go.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Packed, where a value writes what this says is read.
    Packed(&'static Shape),
    /// By name.
    Named,
}

/// What a type's `Deserialize` reads, as far as packed bytes do not say it.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    structs: Vec<(&'static str, usize)>,
    enums: Vec<(&'static str, &'static [&'static str])>,
    /// Fields of variants, by the enum's name and the variant's number.
    variants: Vec<(&'static str, u32, usize)>,
    /// The kinds of what is read, one bit for each tag.
    pub(super) kinds: u32,
}

impl Shape {
    #[inline]
    pub(super) fn has_struct(&self, name: &str, len: usize) -> bool {
        self.structs.iter().any(|known| known.1 == len && known.0 == name)
    }

    #[inline]
    pub(super) fn has_fields(&self, name: &str, index: u32, len: usize) -> bool {
        let mut known = self.variants.iter();
        known.any(|known| known.1 == index && known.2 == len && known.0 == name)
    }

    #[inline]
    pub(super) fn has_variant(&self, name: &str, index: u32, variant: &str) -> bool {
        let mut known = self.enums.iter().filter(|known| known.0 == name);
        known.any(|(_, variants)| variants.get(index as usize) == Some(&variant))
    }
}

static WAYS: RwLock<Option<HashMap<TypeId, Way>>> = RwLock::new(None);

/// Which way values of a type go. The first question tries it.
pub(crate) fn way_of<T: DeserializeOwned + 'static>() -> Way {
    let id = TypeId::of::<T>();
    if let Some(way) = WAYS.read().as_ref().and_then(|ways| ways.get(&id)) {
        return *way;
    }
    // Without the lock, which the type's own code might ask for.
    let found = Trial::of::<T>();
    let mut ways = WAYS.write();
    *ways
        .get_or_insert_default()
        .entry(id)
        // One for each type, for as long as the program runs.
        .or_insert_with(|| found.map_or(Way::Named, |shape| Way::Packed(Box::leak(Box::new(shape)))))
}

/// A value of the type has not written what it reads.
#[cold]
pub(crate) fn say_named<T: 'static>() {
    let mut ways = WAYS.write();
    ways.get_or_insert_default().insert(TypeId::of::<T>(), Way::Named);
}

thread_local! {
    static IS_TRIAL: Cell<bool> = const { Cell::new(false) };
}

/// Whether a type is being tried, so that what it reads comes from nowhere.
pub(in crate::payload) fn is_trial() -> bool {
    IS_TRIAL.get()
}

/// A trial, on this thread.
struct Running(bool);

impl Running {
    fn start() -> Self {
        Running(IS_TRIAL.replace(true))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        IS_TRIAL.set(self.0);
    }
}

/// How far the trial of an enum is.
struct Enum {
    variants: Vec<Tried>,
    /// The first that was read to its end: reading it always has one.
    first_read: Option<usize>,
}

#[derive(Clone, Default)]
struct Tried {
    is_started: bool,
    /// How often it is being read, inside itself.
    running: usize,
    /// Something in it has not been read to the last variant.
    is_open: bool,
}

impl Enum {
    fn new(variants: usize) -> Self {
        Enum {
            variants: vec![Tried::default(); variants],
            first_read: None,
        }
    }

    /// The variant to be read next: one that was not, one with something left in it, or one that surely ends.
    fn next(&self) -> usize {
        let find = |wanted: fn(&Tried) -> bool| {
            let mut idle = self.variants.iter().enumerate();
            idle.find(|(_, tried)| tried.running == 0 && wanted(tried))
        };
        find(|tried| !tried.is_started)
            .or_else(|| find(|tried| tried.is_open))
            .map(|(index, _)| index)
            .or(self.first_read)
            .or_else(|| find(|_| true).map(|(index, _)| index))
            .unwrap_or(0)
    }

    fn is_open(&self) -> bool {
        let mut idle = self.variants.iter().filter(|tried| tried.running == 0);
        idle.any(|tried| !tried.is_started || tried.is_open)
    }
}

#[derive(Default)]
struct Trial {
    shape: Shape,
    enums: HashMap<TypeId, Enum>,
    /// Options, lists and maps that were met in this run.
    met: HashSet<TypeId>,
    is_open: bool,
    steps: usize,
    depth: usize,
}

impl Trial {
    /// What the type reads, where packed bytes do for it.
    fn of<T: DeserializeOwned>() -> Option<Shape> {
        let mut trial = Trial::default();
        loop {
            trial.met.clear();
            trial.is_open = false;
            trial.steps += 1;
            let _running = Running::start();
            let run = || T::deserialize(Probe(&mut trial)).map(crate::dispose::dispose);
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(())) if !trial.is_open => return Some(trial.shape),
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(payload) => {
                    // Its drop may panic as well.
                    std::mem::forget(payload);
                    return None;
                }
            }
        }
    }

    fn step(&mut self) -> Result<(), SerdeError> {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.depth > DEPTH_MAX {
            return Err(SerdeError::said("the type is too large to be tried"));
        }
        Ok(())
    }
}

fn note<K: PartialEq>(known: &mut Vec<K>, new: K) {
    if !known.contains(&new) {
        known.push(new);
    }
}

/// Shows a made-up value to who reads it.
struct Probe<'t>(&'t mut Trial);

impl Probe<'_> {
    /// Whether an option, a list or a map of this visitor's type is met for the first time in this run.
    fn is_new<V>(&mut self) -> bool {
        self.0.met.insert(typeid::of::<V>())
    }

    fn list<'de, V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, SerdeError> {
        visitor.visit_seq(Made { trial: self.0, left })
    }
}

/// So many made-up elements.
struct Made<'t> {
    trial: &'t mut Trial,
    left: usize,
}

impl Made<'_> {
    fn read<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, SerdeError> {
        self.trial.depth += 1;
        self.trial.step()?;
        let value = seed.deserialize(Probe(self.trial));
        self.trial.depth -= 1;
        value
    }

    fn goes_on(&mut self) -> bool {
        let goes_on = self.left > 0;
        self.left = self.left.saturating_sub(1);
        goes_on
    }
}

impl<'de> SeqAccess<'de> for Made<'_> {
    type Error = SerdeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, SerdeError> {
        if !self.goes_on() {
            return Ok(None);
        }
        self.read(seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Made<'_> {
    type Error = SerdeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, SerdeError> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, SerdeError> {
        self.read(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// A made-up variant.
struct Variant<'t> {
    trial: &'t mut Trial,
    name: &'static str,
    index: u32,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = SerdeError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), SerdeError> {
        let index: U32Deserializer<SerdeError> = self.index.into_deserializer();
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = SerdeError;

    fn unit_variant(self) -> Result<(), SerdeError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, SerdeError> {
        seed.deserialize(Probe(self.trial))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, SerdeError> {
        note(&mut self.trial.shape.variants, (self.name, self.index, len));
        Probe(self.trial).list(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.tuple_variant(fields.len(), visitor)
    }
}

macro_rules! made_up {
    ($($method:ident: $visit:ident($value:expr), $tag:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
            self.0.shape.kinds |= 1 << tag::$tag;
            visitor.$visit($value)
        }
    )*};
}

macro_rules! asks {
    ($($method:ident)*) => {$(
        /// Packed bytes have no answer.
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, SerdeError> {
            Err(SerdeError::said("the type asks what is there"))
        }
    )*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = SerdeError;

    fn is_human_readable(&self) -> bool {
        false
    }

    asks!(deserialize_any deserialize_identifier deserialize_ignored_any);

    made_up! {
        deserialize_bool: visit_bool(true), TRUE;
        deserialize_u8: visit_u8(1), U8;
        deserialize_u16: visit_u16(1), U16;
        deserialize_u32: visit_u32(1), U32;
        deserialize_u64: visit_u64(1), U64;
        deserialize_u128: visit_u128(1), U128;
        deserialize_i8: visit_i8(1), I8;
        deserialize_i16: visit_i16(1), I16;
        deserialize_i32: visit_i32(1), I32;
        deserialize_i64: visit_i64(1), I64;
        deserialize_i128: visit_i128(1), I128;
        deserialize_f32: visit_f32(1.0), F32;
        deserialize_f64: visit_f64(1.0), F64;
        deserialize_char: visit_char('1'), CHAR;
        deserialize_str: visit_borrowed_str("1"), STR;
        deserialize_string: visit_borrowed_str("1"), STR;
        deserialize_bytes: visit_borrowed_bytes(&[1; 16]), BYTES;
        deserialize_byte_buf: visit_borrowed_bytes(&[1; 16]), BYTES;
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, SerdeError> {
        self.0.shape.kinds |= 1 << tag::SOME;
        if !self.is_new::<V>() {
            return visitor.visit_none();
        }
        self.0.depth += 1;
        self.0.step()?;
        let value = visitor.visit_some(Probe(self.0));
        self.0.depth -= 1;
        value
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.0.depth += 1;
        self.0.step()?;
        let value = visitor.visit_newtype_struct(Probe(self.0));
        self.0.depth -= 1;
        value
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, SerdeError> {
        self.0.shape.kinds |= 1 << tag::SEQ;
        let len = usize::from(self.is_new::<V>());
        self.list(len, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, SerdeError> {
        self.list(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        note(&mut self.0.shape.structs, (name, len));
        self.list(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, SerdeError> {
        self.0.shape.kinds |= 1 << tag::MAP;
        let left = usize::from(self.is_new::<V>());
        visitor.visit_map(Made { trial: self.0, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.deserialize_tuple_struct(name, fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        let trial = self.0;
        trial.step()?;
        note(&mut trial.shape.enums, (name, variants));
        let id = typeid::of::<V>();
        let state = trial.enums.entry(id).or_insert_with(|| Enum::new(variants.len()));
        let index = state.next();
        if let Some(tried) = state.variants.get_mut(index) {
            tried.is_started = true;
            tried.running += 1;
        }
        let was_open = std::mem::take(&mut trial.is_open);
        trial.depth += 1;
        let value = visitor.visit_enum(Variant {
            trial: &mut *trial,
            name,
            index: u32::try_from(index).map_err(SerdeError::said)?,
        })?;
        trial.depth -= 1;
        let is_open = std::mem::replace(&mut trial.is_open, was_open);
        if let Some(state) = trial.enums.get_mut(&id) {
            if let Some(tried) = state.variants.get_mut(index) {
                tried.running -= 1;
                tried.is_open = is_open;
            }
            state.first_read.get_or_insert(index);
            trial.is_open |= state.is_open();
        }
        Ok(value)
    }
}
