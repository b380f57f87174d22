//! Values with several handles, which stay one value in a message.
//!
//! The first handle that a message meets writes a number and the value; a further one writes the number only. The number is
//! known again once the value is written to its end, so a value that contains itself never comes to an end, and is refused as one
//! that nests too deep. The reader keeps the values by their numbers until the message is read. A number that has not come, or
//! names a value of another type, is an error.

use std::any::type_name;
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
#[derive(Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shared<T>(Arc<T>);

impl<T> Shared<T> {
    /// Makes a handle on a value.
    pub fn new(value: T) -> Self {
        Shared(Arc::new(value))
    }

    /// Whether two handles are on one value.
    #[must_use]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&this.0, &other.0)
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Shared::new(value)
    }
}

impl<T> From<Arc<T>> for Shared<T> {
    fn from(value: Arc<T>) -> Self {
        Shared(value)
    }
}

impl<T> From<Shared<T>> for Arc<T> {
    fn from(shared: Shared<T>) -> Self {
        shared.0
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
            return self.0.serialize(serializer);
        }
        let value: AnyShared = Arc::clone(&self.0) as AnyShared;
        match collector::meet(&value) {
            Some(Met::Again(number)) => serializer.serialize_newtype_variant(SHARED_NAME, 1, AGAIN, &number),
            Some(Met::New(number)) => {
                let mut fields = serializer.serialize_tuple_variant(SHARED_NAME, 0, WHOLE, 2)?;
                fields.serialize_field(&number)?;
                fields.serialize_field(&*self.0)?;
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
        Ok(Shared(value))
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
    value.map(Shared)
}
