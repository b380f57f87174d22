//! The content of an object: a value, or the failure in its place.

use std::any::{Any, type_name};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use selvedge_channels::{Payload, Traits};
use selvedge_objects::store::StoreError;

use crate::body::{self, Body};
use crate::failure::Failure;

/// Any shared value.
pub(crate) type AnyShared = Arc<dyn Any + Send + Sync>;

/// Encodes a value of the type that the closure knows.
type Encode = Arc<dyn Fn(&(dyn Any + Send + Sync)) -> Result<Body, Failure> + Send + Sync>;

/// A value of any type, and the way to encode it.
#[derive(Clone)]
pub struct ObjectValue {
    value: AnyShared,
    type_name: &'static str,
    encode: Encode,
}

impl fmt::Debug for ObjectValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectValue({})", self.type_name)
    }
}

impl ObjectValue {
    /// A value with these traits. Other processes may fetch it if serde knows its type.
    pub(crate) fn new<T: Payload + Sync>(value: T, traits: &'static Traits<T>) -> Self {
        Self::encoded_by(value, move |value| Body::encoded(value, traits))
    }

    /// A value that is encoded in this way.
    pub(super) fn encoded_by<T: Send + Sync + 'static>(
        value: T,
        encode: impl Fn(&T) -> Result<Body, Failure> + Send + Sync + 'static,
    ) -> Self {
        ObjectValue {
            value: Arc::new(value),
            type_name: type_name::<T>(),
            encode: Arc::new(move |value| match value.downcast_ref::<T>() {
                Some(value) => encode(value),
                None => Err(Failure::Internal("a value is encoded as another type".to_owned())),
            }),
        }
    }

    /// A value of a type that serde does not know.
    #[cfg(test)]
    pub(crate) fn moved<T: Payload + Sync>(value: T) -> Self {
        ObjectValue::new(value, const { &Traits::NONE })
    }

    /// A value of a type that serde knows.
    #[cfg(test)]
    pub(crate) fn wire<T: selvedge_channels::Wire>(value: T) -> Self {
        ObjectValue::new(value, const { &Traits::LETTER })
    }

    /// The value, if it is of this type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        // A value of another type is not counted for the question.
        match self.value.as_ref().is::<T>() {
            true => Arc::clone(&self.value).downcast().ok(),
            false => None,
        }
    }

    /// Whether this is a clone of the other one.
    pub(super) fn is_same(&self, other: &ObjectValue) -> bool {
        Arc::ptr_eq(&self.value, &other.value)
    }

    /// Encodes the value. This runs user code.
    pub(crate) fn to_body(&self) -> Result<Body, Failure> {
        Failure::catch(|| (self.encode)(self.value.as_ref()))
    }
}

/// The way in which the last copy of a value was lost.
#[derive(Clone, Debug)]
pub(crate) struct LostCopy {
    pub(crate) why: String,
    /// Whether the store dropped it for want of room: nothing is wrong with the value or its call then.
    pub(crate) is_dropped: bool,
}

impl LostCopy {
    /// The way that a store tells; `None` if it has not lost the object.
    pub(super) fn by(error: &StoreError) -> Option<Self> {
        error.is_loss().then(|| LostCopy {
            why: error.to_string(),
            is_dropped: *error == StoreError::Dropped,
        })
    }
}

/// A value, or the failure in its place. A failure can be fetched any number of times.
pub(crate) type Content = Result<ObjectValue, Arc<Failure>>;

/// A failure as every process sees it: the user's error itself, shared, or the report of any other failure.
pub(crate) fn again(failure: &Failure) -> Failure {
    match failure {
        Failure::Error { .. } | Failure::Panic { .. } => failure.clone(),
        Failure::Unmade { functions, failure } => Failure::Unmade {
            functions: functions.clone(),
            failure: Box::new(again(failure)),
        },
        other => Failure::from_error(other.report()),
    }
}

/// Decodes a value. This runs user code.
pub(crate) fn decoded<T: Payload>(bytes: &Bytes, traits: &Traits<T>) -> Result<T, Failure> {
    Failure::catch(|| body::decoded(bytes, traits))
}

/// The failure of an object that will never be made.
pub(crate) fn creator_lost() -> Failure {
    Failure::from_error("the process that asked for the value has died before its call began".to_owned())
}
