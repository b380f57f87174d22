//! The trial of a type: decides whether its values are encoded packed or by name. It shows the type's `Deserialize`
//! made-up values and records each read.
//!
//! The trial repeats until every variant of every enum that it has met was read once. In each run, the first option of
//! a type is `Some` and the first list has one element; later ones are empty, so that recursive types end. A type is
//! encoded by name if it asks for a value of any kind, refuses the made-up values, panics, or takes too many steps.

use std::any::TypeId;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::RwLock;
use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::error::SerdeError;
use super::search::Unreadable;
use super::shape::{Child, Shape, ShapeSlot};
use super::variants::Enum;
use super::{SHARED_NAME, tag};

/// The maximum number of steps of a trial: more than any type needs that is known to be encoded packed.
const STEPS_MAX: usize = 100_000;
const DEPTH_MAX: usize = 200;

/// The form in which values of a type are encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Packed, if the value writes exactly the kinds and names in this shape.
    Packed(&'static Shape),
    /// By name.
    Named,
}

static WAYS: RwLock<Option<HashMap<TypeId, Way>>> = RwLock::new(None);

/// The types whose trials have met something with records.
static RECORDED: RwLock<BTreeSet<TypeId>> = RwLock::new(BTreeSet::new());

thread_local! {
    /// The last answer on this thread. It is outdated if the type is encoded by name since; then the next packed
    /// attempt finds that out again.
    static LAST: Cell<Option<(TypeId, Way)>> = const { Cell::new(None) };
}

/// The form in which values of `T` are encoded. The first call for a type runs its trial.
#[inline]
pub(crate) fn way_of<T: DeserializeOwned + 'static>() -> Way {
    let id = TypeId::of::<T>();
    match LAST.get() {
        Some((last, way)) if last == id => way,
        _ => {
            let way = known_way_of(id, Trial::run::<T>);
            LAST.set(Some((id, way)));
            way
        }
    }
}

/// The form of the type whose made-up values `run` reads.
#[inline(never)]
fn known_way_of(id: TypeId, run: TrialRun) -> Way {
    if let Some(way) = WAYS.read().as_ref().and_then(|ways| ways.get(&id)) {
        return *way;
    }
    // Without the lock: the trial runs code of the type, which might take the lock itself.
    let before = HAS_RECORDS.replace(false);
    let found = Trial::of(run);
    if found.is_none() {
        Trial::search(run);
    }
    if HAS_RECORDS.replace(before) {
        RECORDED.write().insert(id);
    }
    let mut ways = WAYS.write();
    *ways
        .get_or_insert_default()
        .entry(id)
        // One shape per type, kept until the program ends.
        .or_insert_with(|| found.map_or(Way::Named, |shape| Way::Packed(Box::leak(Box::new(shape)))))
}

/// Marks a type as encoded by name, after a value of it has written something that the type does not read.
#[cold]
pub(crate) fn say_named<T: 'static>() {
    let mut ways = WAYS.write();
    ways.get_or_insert_default().insert(TypeId::of::<T>(), Way::Named);
    LAST.set(None);
}

thread_local! {
    static IS_TRIAL: Cell<bool> = const { Cell::new(false) };
    /// Whether the trial on this thread has met something with records.
    static HAS_RECORDS: Cell<bool> = const { Cell::new(false) };
}

/// Whether values of `T` may hold things with records, as far as the trial of the type has met any. The first call for a
/// type runs its trial.
pub(crate) fn has_records<T: DeserializeOwned + 'static>() -> bool {
    let _ = way_of::<T>();
    RECORDED.read().contains(&TypeId::of::<T>())
}

/// Notes that the trial on this thread reads something with records: [`RecordsOut`](crate::RecordsOut).
pub fn note_record() {
    HAS_RECORDS.set(true);
}

/// Whether a trial runs on this thread, so that `Deserialize` gets made-up values. A type whose values name something
/// beside them has to accept any name then.
pub fn is_trial() -> bool {
    IS_TRIAL.get()
}

/// A guard that marks a trial on this thread. Holds the previous mark.
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

/// Reads a made-up value of a type: [`Trial::run`].
pub(super) type TrialRun = fn(&mut Trial) -> bool;

pub(super) struct Trial {
    nodes: Vec<Vec<Child>>,
    /// The nodes by visitor type and tag.
    known: HashMap<(TypeId, u8), usize>,
    enums: HashMap<TypeId, Enum>,
    /// The visitor types of the options, lists and maps that were met in this run.
    met: HashSet<TypeId>,
    is_open: bool,
    /// True if the type cannot be read from packed bytes. Set even if the type ignores the error that reports it.
    is_unfit: bool,
    steps: usize,
    depth: usize,
    /// In a search, the fields that could not be read.
    pub(super) unreadable: Option<Unreadable>,
}

impl Trial {
    pub(super) fn new() -> Self {
        Trial {
            nodes: vec![vec![Child::new("")]],
            known: HashMap::new(),
            enums: HashMap::new(),
            met: HashSet::new(),
            is_open: false,
            is_unfit: false,
            steps: 0,
            depth: 0,
            unreadable: None,
        }
    }

    /// Runs the trial of a type. Returns its shape if it can be read from packed bytes.
    fn of(run: TrialRun) -> Option<Shape> {
        let mut trial = Trial::new();
        loop {
            match run(&mut trial) {
                true if trial.is_unfit => return None,
                true if !trial.is_open => return Some(Shape { nodes: trial.nodes }),
                true => {}
                false => return None,
            }
        }
    }

    /// Reads a made-up value. Returns whether it was read to its end.
    pub(super) fn run<T: DeserializeOwned>(&mut self) -> bool {
        self.met.clear();
        self.is_open = false;
        self.steps += 1;
        self.depth = 0;
        let _running = Running::start();
        let run = || T::deserialize(Probe::new(self, 0, 0)).map(crate::dispose::dispose);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(read) => read.is_ok(),
            Err(payload) => {
                crate::dispose::dispose(payload);
                false
            }
        }
    }

    fn step(&mut self) -> Result<(), SerdeError> {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.depth > DEPTH_MAX {
            return Err(self.unfit("the type is too large to be tried"));
        }
        Ok(())
    }

    #[cold]
    fn unfit(&mut self, why: &str) -> SerdeError {
        self.is_unfit = true;
        SerdeError::said(why)
    }

    fn kid(&mut self, node: usize, kid: usize) -> Option<&mut Child> {
        self.nodes.get_mut(node).and_then(|kids| kids.get_mut(kid))
    }

    /// Returns the node of the visitor of this type, which reads these parts, and adds it if it is new.
    pub(super) fn node(&mut self, visitor: TypeId, tag: u8, parts: PartNames<'_>) -> usize {
        let (new, nodes) = (self.nodes.len(), &mut self.nodes);
        let node = *self.known.entry((visitor, tag)).or_insert_with(|| {
            nodes.push(parts.names().map(Child::new).collect());
            new
        });
        let known = self.nodes.get(node).into_iter().flatten();
        self.is_unfit |= !known.map(|kid| kid.name).eq(parts.names());
        node
    }

    /// Begins to show a variant of an enum to the visitor of this type. Returns its index.
    fn begins_variant(&mut self, visitor: TypeId, variants: usize) -> usize {
        let state = self.enums.entry(visitor).or_insert_with(|| Enum::new(variants));
        let index = state.next();
        if let Some(tried) = state.variants.get_mut(index) {
            if let Some(search) = &mut self.unreadable {
                search.note_variant(!tried.is_started);
            }
            tried.is_started = true;
            tried.running += 1;
        }
        index
    }

    /// Ends to show a variant, which was read or not. The trial was open before or not.
    fn ends_variant(&mut self, visitor: TypeId, index: usize, is_read: bool, was_open: bool) {
        let is_open = std::mem::replace(&mut self.is_open, was_open);
        if let Some(state) = self.enums.get_mut(&visitor) {
            if let Some(tried) = state.variants.get_mut(index) {
                tried.running -= 1;
                tried.is_open = is_open;
            }
            state.first_read = state.first_read.or(is_read.then_some(index));
            self.is_open |= state.is_open();
        }
    }
}

/// The names of the parts that a visitor reads.
#[derive(Clone, Copy)]
pub(super) enum PartNames<'n> {
    Named(&'n [&'static str]),
    /// The number of parts, which have no names.
    Unnamed(usize),
}

impl PartNames<'_> {
    fn len(self) -> usize {
        match self {
            PartNames::Named(names) => names.len(),
            PartNames::Unnamed(count) => count,
        }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        let (names, count) = match self {
            PartNames::Named(names) => (*names, 0),
            PartNames::Unnamed(count) => (&[][..], *count),
        };
        names.iter().copied().chain(std::iter::repeat_n("", count))
    }
}

/// A deserializer that shows a made-up value.
pub(super) struct Probe<'t> {
    pub(super) trial: &'t mut Trial,
    /// The place that the value is read for: a part of a node.
    node: usize,
    kid: usize,
}

impl<'t> Probe<'t> {
    fn new(trial: &'t mut Trial, node: usize, kid: usize) -> Self {
        Probe { trial, node, kid }
    }

    /// Whether this is the first option, list or map of the visitor's type in this run.
    fn is_new<V>(&mut self) -> bool {
        self.trial.met.insert(typeid::of::<V>())
    }

    /// Records the value read at the place. A type that reads different values at one place is not encoded packed.
    fn reads(&mut self, tag: u8, node: usize) {
        let slot = ShapeSlot::new(tag, node);
        let is_it = self.trial.kid(self.node, self.kid).is_some_and(|kid| {
            if kid.slot == ShapeSlot::UNREAD {
                kid.slot = slot;
            }
            kid.slot == slot
        });
        self.trial.is_unfit |= !is_it;
    }

    /// Records a value with parts, and returns its node.
    fn reads_all<V>(&mut self, tag: u8, names: &[&'static str]) -> usize {
        let node = self.trial.node(typeid::of::<V>(), tag, PartNames::Named(names));
        self.reads(tag, node);
        node
    }

    /// Shows a shared value in its first form, which has the value and ends as the value does. Its second form, a number of a
    /// value that came before, is noted without being read: nothing came before.
    fn shared<'de, V: Visitor<'de>>(
        mut self,
        variants: &[&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        let node = self.reads_all::<V>(tag::ENUM, variants);
        let (trial, index) = (self.trial, 1);
        let again = TrialVariant {
            trial: &mut *trial,
            node,
            index,
        };
        again.comes(tag::VARIANT).reads(tag::U32, 0);
        trial.depth += 1;
        trial.step()?;
        let value = visitor.visit_enum(TrialVariant {
            trial: &mut *trial,
            node,
            index: 0,
        });
        trial.depth -= 1;
        value
    }

    /// Shows a list or map: of one element at first, empty later. It must be read to its end.
    fn items<V, R>(
        mut self,
        tag: u8,
        names: &[&'static str],
        visit: impl FnOnce(&mut Made<'_>) -> Result<R, SerdeError>,
    ) -> Result<R, SerdeError> {
        let node = self.reads_all::<V>(tag, names);
        let left = usize::from(self.is_new::<V>());
        let mut made = Made::new(self.trial, node, left);
        let value = visit(&mut made)?;
        let has_ended = made.has_ended;
        self.trial.is_unfit |= !has_ended;
        Ok(value)
    }

    /// Shows one value for each part.
    fn tuple<'de, V: Visitor<'de>>(
        mut self,
        tag: u8,
        parts: PartNames<'_>,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        let len = parts.len();
        if len > STEPS_MAX {
            return Err(self.trial.unfit("the type is too large to be tried"));
        }
        let node = self.trial.node(typeid::of::<V>(), tag, parts);
        self.reads(tag, node);
        let mut made = Made::new(self.trial, node, len);
        let value = visitor.visit_seq(&mut made)?;
        // In packed bytes, values left unread would be read as the values that follow.
        let is_short = made.left > 0;
        self.trial.is_unfit |= is_short;
        Ok(value)
    }
}

/// A list or map of made-up elements.
pub(super) struct Made<'t> {
    trial: &'t mut Trial,
    node: usize,
    left: usize,
    /// The place of the next element.
    pub(super) kid: usize,
    has_ended: bool,
}

impl<'t> Made<'t> {
    pub(super) fn new(trial: &'t mut Trial, node: usize, left: usize) -> Self {
        Made {
            trial,
            node,
            left,
            kid: 0,
            has_ended: false,
        }
    }

    pub(super) fn read<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, SerdeError> {
        self.trial.depth += 1;
        self.trial.step()?;
        let kids = self.trial.nodes.get(self.node).map_or(1, Vec::len);
        let place = self.kid % kids.max(1);
        self.kid += 1;
        let value = seed.deserialize(Probe::new(self.trial, self.node, place));
        self.trial.depth -= 1;
        // A type that continues after an error leaves the rest unread.
        self.trial.is_unfit |= value.is_err();
        if let (Err(_), Some(unreadable)) = (&value, &mut self.trial.unreadable) {
            unreadable.note((self.node, place));
        }
        value
    }

    fn goes_on(&mut self) -> bool {
        self.has_ended = self.left == 0;
        self.left = self.left.saturating_sub(1);
        !self.has_ended
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
struct TrialVariant<'t> {
    trial: &'t mut Trial,
    node: usize,
    index: u32,
}

impl<'t> TrialVariant<'t> {
    /// Records the form of the variant. Returns the probe for its content.
    fn comes(self, form: u8) -> Probe<'t> {
        let (node, kid) = (self.node, self.index as usize);
        let is_it = self.trial.kid(node, kid).is_some_and(|kid| {
            if kid.form == tag::UNREAD {
                kid.form = form;
            }
            kid.form == form
        });
        self.trial.is_unfit |= !is_it;
        Probe::new(self.trial, node, kid)
    }
}

impl<'de> EnumAccess<'de> for TrialVariant<'_> {
    type Error = SerdeError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), SerdeError> {
        let index: U32Deserializer<SerdeError> = self.index.into_deserializer();
        match seed.deserialize(index) {
            Ok(value) => Ok((value, self)),
            Err(error) => {
                self.trial.is_unfit = true;
                Err(error)
            }
        }
    }
}

impl<'de> VariantAccess<'de> for TrialVariant<'_> {
    type Error = SerdeError;

    fn unit_variant(self) -> Result<(), SerdeError> {
        self.comes(tag::UNIT_VARIANT);
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, SerdeError> {
        seed.deserialize(self.comes(tag::VARIANT))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, SerdeError> {
        self.comes(tag::TUPLE).deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.comes(tag::STRUCT).deserialize_struct("", fields, visitor)
    }
}

macro_rules! made_up {
    ($($method:ident: $visit:ident($value:expr), $tag:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, SerdeError> {
            self.reads(tag::$tag, 0);
            visitor.$visit($value)
        }
    )*};
}

macro_rules! asks {
    ($($method:ident)*) => {$(
        /// Returns an error: packed bytes do not tell which kind of value follows.
        fn $method<V: Visitor<'de>>(self, _: V) -> Result<V::Value, SerdeError> {
            Err(self.trial.unfit("the type asks what is there"))
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
        deserialize_str: visit_string("1".to_owned()), STR;
        deserialize_string: visit_string("1".to_owned()), STR;
        deserialize_bytes: visit_byte_buf(vec![1; 16]), BYTES;
        deserialize_byte_buf: visit_byte_buf(vec![1; 16]), BYTES;
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, SerdeError> {
        let node = self.reads_all::<V>(tag::SOME, &[""]);
        if !self.is_new::<V>() {
            return visitor.visit_none();
        }
        self.trial.depth += 1;
        self.trial.step()?;
        let value = visitor.visit_some(Probe::new(self.trial, node, 0));
        self.trial.depth -= 1;
        value
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, SerdeError> {
        self.reads(tag::UNIT, 0);
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.trial.depth += 1;
        self.trial.step()?;
        let value = visitor.visit_newtype_struct(Probe::new(self.trial, self.node, self.kid));
        self.trial.depth -= 1;
        value
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        self.items::<V, _>(tag::SEQ, &[""], |made| visitor.visit_seq(made))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, SerdeError> {
        self.tuple(tag::TUPLE, PartNames::Unnamed(len), visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, SerdeError> {
        self.items::<V, _>(tag::MAP, &["", ""], |made| visitor.visit_map(made))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        match self.trial.unreadable {
            None => self.tuple(tag::STRUCT, PartNames::Named(fields), visitor),
            Some(_) => self.searched(fields, visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        if name == SHARED_NAME {
            return self.shared(variants, visitor);
        }
        let node = self.reads_all::<V>(tag::ENUM, variants);
        let trial = self.trial;
        trial.step()?;
        let id = typeid::of::<V>();
        let index = trial.begins_variant(id, variants.len());
        let was_open = std::mem::take(&mut trial.is_open);
        trial.depth += 1;
        let value = visitor.visit_enum(TrialVariant {
            trial: &mut *trial,
            node,
            index: index as u32,
        });
        trial.depth -= 1;
        trial.ends_variant(id, index, value.is_ok(), was_open);
        value
    }
}
