//! Values with several handles, which stay one value in a message.
//!
//! The first handle that a message meets writes a number and the value; a further one writes the number only. The number is
//! known again once the value is written to its end, so a value that contains itself never comes to an end, and is refused as one
//! that nests too deep. The reader keeps the values by their numbers until the message is read. A number that has not come, or
//! names a value of another type, is an error.

use std::any::type_name;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{EnumAccess, SeqAccess, VariantAccess, Visitor};
use serde::ser::{Error as _, SerializeTupleVariant};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::codec::{SHARED_NAME, is_ours, is_trial};
use super::collector::{self, AnyShared, Met};

/// An `Arc` that keeps its identity within a message: handles on one value are decoded as handles on one value.
///
/// Serde encodes an `Arc` as its value, so a list that holds one `Arc` twice is decoded as a list of two values. A list that holds
/// one `Shared` twice contains the value once, and is decoded as two handles on one value. This holds within one message: one
/// value on an edge, one call's arguments, one object that is put. Two messages have two values. Within a process a value that is
/// moved or cloned keeps its handles, as with an `Arc`. Other formats than that of messages, such as JSON, encode a `Shared`
/// as its value.
///
/// A handle is made of an `Arc` and is one again by `From`. A message finds a value again by its address, for which it takes some
/// memory. In a type that is encoded by name (see [`Wire`](crate::Wire)), sets and maps whose order is random must not hold two
/// handles on one value: such a value is refused.
///
/// ```
/// use selvedge_channels::{Shared, decode, encode};
///
/// let row = Shared::new(vec![1.5_f32, 2.5]);
/// let table = vec![row.clone(), row];
/// let table: Vec<Shared<Vec<f32>>> = decode(&encode(&table)?.to_vec())?;
/// assert!(Shared::ptr_eq(&table[0], &table[1]));
/// assert_eq!(table[1][1], 2.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A long chain of values that hold each other by `Shared` is dropped one by one, without a stack in proportion to its length.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared<T: Send + Sync + 'static> {
    value: Arc<T>,
    /// After the value, whose last handle is then in the list.
    list: EndOfHandle,
}

impl<T: Send + Sync + 'static> Shared<T> {
    /// Makes a handle on a value.
    pub fn new(value: T) -> Self {
        Shared::from(Arc::new(value))
    }

    /// Whether two handles are on one value.
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&this.value, &other.value)
    }
}

impl<T: Send + Sync + 'static> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared::from(Arc::clone(&self.value))
    }
}

impl<T: Send + Sync + 'static> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug + Send + Sync + 'static> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Send + Sync + 'static> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared::new(value)
    }
}

impl<T: Send + Sync + 'static> From<Arc<T>> for Shared<T> {
    fn from(value: Arc<T>) -> Self {
        Shared {
            value,
            list: EndOfHandle,
        }
    }
}

impl<T: Send + Sync + 'static> From<Shared<T>> for Arc<T> {
    fn from(shared: Shared<T>) -> Self {
        Arc::clone(&shared.value)
    }
}

/// The values that the outermost drop of a handle on a thread has yet to drop.
struct LeftValues {
    values: Vec<AnyShared>,
    /// Whether a drop works through them.
    is_dropping: bool,
}

thread_local! {
    static LEFT: RefCell<LeftValues> = const {
        RefCell::new(LeftValues { values: Vec::new(), is_dropping: false })
    };
}

impl<T: Send + Sync + 'static> Drop for Shared<T> {
    /// Puts the value of the last handle into the list, from which the outermost drop takes one after the other. Bytes of a small
    /// depth may make a long chain, since each value may name the one before it.
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() && Arc::strong_count(&self.value) == 1 {
            // An error means that the thread ends, and has no list any more.
            let _ = LEFT.try_with(|left| {
                left.borrow_mut()
                    .values
                    .push(Arc::clone(&self.value) as AnyShared)
            });
        }
    }
}

/// The end of a handle: the outermost one drops what is in the list.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct EndOfHandle;

impl Drop for EndOfHandle {
    fn drop(&mut self) {
        let begins = LEFT.try_with(|left| {
            let mut left = left.borrow_mut();
            let begins = !left.is_dropping && !left.values.is_empty();
            left.is_dropping |= begins;
            begins
        });
        if begins == Ok(true) {
            let _end = EndOfDrops;
            // The list is not borrowed while a value is dropped, which is user code.
            while let Some(next) = LEFT.with_borrow_mut(|left| left.values.pop()) {
                drop(next);
            }
        }
    }
}

/// The end of the outermost drop, also if the drop of a value panics: what is left then is dropped by the next one.
struct EndOfDrops;

impl Drop for EndOfDrops {
    fn drop(&mut self) {
        let _ = LEFT.try_with(|left| left.borrow_mut().is_dropping = false);
    }
}

/// The two forms of a handle in a message.
#[derive(Deserialize)]
#[serde(variant_identifier, rename_all = "lowercase")]
enum SharedForm {
    /// The number, and the value.
    Whole,
    /// The number of a value that came before.
    Again,
}

const WHOLE: &str = "whole";
const AGAIN: &str = "again";

impl<T: Serialize + Send + Sync + 'static> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !is_ours::<S::Error>() {
            return self.value.serialize(serializer);
        }
        let value: AnyShared = Arc::clone(&self.value) as AnyShared;
        match collector::meet(&value) {
            Some(Met::Again(number)) => serializer.serialize_newtype_variant(SHARED_NAME, 1, AGAIN, &number),
            Some(Met::New(number)) => {
                let mut fields = serializer.serialize_tuple_variant(SHARED_NAME, 0, WHOLE, 2)?;
                fields.serialize_field(&number)?;
                fields.serialize_field(&*self.value)?;
                let written = fields.end()?;
                collector::note_written(number, value);
                Ok(written)
            }
            None => Err(S::Error::custom("a `Shared` travels in a message only")),
        }
    }
}

impl<'de, T: Deserialize<'de> + Send + Sync + 'static> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !is_ours::<D::Error>() {
            return T::deserialize(deserializer).map(Shared::new);
        }
        deserializer.deserialize_enum(SHARED_NAME, &[WHOLE, AGAIN], SharedVisitor(PhantomData))
    }
}

struct SharedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Send + Sync + 'static> Visitor<'de> for SharedVisitor<T> {
    type Value = Shared<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a shared {}", type_name::<T>())
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Shared<T>, A::Error> {
        match data.variant()? {
            (SharedForm::Whole, variant) => variant.tuple_variant(2, self),
            (SharedForm::Again, variant) => again(variant.newtype_variant()?),
        }
    }

    /// Reads the form `Whole`.
    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Shared<T>, A::Error> {
        let number: u32 = field(fields.next_element()?)?;
        let value = Arc::new(field(fields.next_element::<T>()?)?);
        // A made-up value belongs to no message.
        if !is_trial() {
            collector::note_read(number, Arc::clone(&value) as AnyShared);
        }
        Ok(Shared::from(value))
    }
}

fn field<F, E: serde::de::Error>(found: Option<F>) -> Result<F, E> {
    found.ok_or_else(|| E::custom("a shared value without its number or its content"))
}

/// A further handle on a value that was read before.
fn again<T: Send + Sync + 'static, E: serde::de::Error>(number: u32) -> Result<Shared<T>, E> {
    let value = collector::read_before(number)
        .ok_or_else(|| E::custom(format_args!("the shared value {number} has not come before")))?;
    let value = value.downcast().map_err(|_| {
        let wanted = type_name::<T>();
        E::custom(format_args!("the shared value {number} is not a {wanted}"))
    });
    value.map(|value: Arc<T>| Shared::from(value))
}
