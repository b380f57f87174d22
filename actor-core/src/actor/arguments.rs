//! Arguments and results of ordinary calls: values within a process, encoded bytes between processes.

use std::any::Any;

use selvedge_channels::{Payload, Traits, dispose};

use crate::Failure;
use crate::body::Body;
use crate::reference::content::ObjectValue;
use crate::reference::transit::{Beside, arriving, leaving};

/// The form of a call's arguments. The result is returned in the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsKind {
    /// A value of this process.
    Local,
    /// Encoded bytes.
    Bytes,
}

/// The arguments of an ordinary call, a tuple.
#[derive(Debug)]
pub enum Arguments {
    /// A tuple of this process, made by [`Arguments::local`].
    Local(Box<dyn Any + Send>),
    /// An encoded tuple.
    Bytes(Body),
}

/// A tuple that may be dropped without being read. The drop then runs on a thread that others need, so its panics are
/// caught.
struct InFlight<T>(Option<T>);

impl<T> Drop for InFlight<T> {
    fn drop(&mut self) {
        dispose(self.0.take());
    }
}

impl Arguments {
    /// Wraps a tuple, without encoding it, for an actor of this process.
    #[must_use]
    pub fn local<T: Payload>(value: T) -> Self {
        Arguments::Local(Box::new(InFlight(Some(value))))
    }

    /// The form of the arguments.
    #[must_use]
    pub fn kind(&self) -> ArgumentsKind {
        match self {
            Arguments::Local(_) => ArgumentsKind::Local,
            Arguments::Bytes(_) => ArgumentsKind::Bytes,
        }
    }

    /// Encodes the arguments, a tuple `T`.
    ///
    /// # Errors
    /// The errors of [`Arguments::into`], and [`Failure::Channel`] if the tuple cannot be encoded.
    pub(crate) fn encoded<T: Payload>(&self, traits: &Traits<T>) -> Result<Body, Failure> {
        match (self, self.tuple::<T>()) {
            (_, Some(tuple)) => Body::encoded(tuple, traits),
            (Arguments::Local(_), None) => Err(another::<T>("arguments")),
            (Arguments::Bytes(body), None) => Ok(body.clone()),
        }
    }

    /// The tuple, if it is one of this process and a `T`.
    pub(crate) fn tuple<T: Payload>(&self) -> Option<&T> {
        match self {
            Arguments::Local(value) => value.downcast_ref::<InFlight<T>>()?.0.as_ref(),
            Arguments::Bytes(_) => None,
        }
    }

    /// Converts the arguments into a tuple `T`.
    ///
    /// # Errors
    /// [`Failure::Channel`] for bytes that do not decode to a `T`, [`Failure::Internal`] for a value of another type.
    pub fn into<T: Payload>(self, traits: &Traits<T>) -> Result<T, Failure> {
        match self {
            Arguments::Local(value) => {
                let value = value.downcast::<InFlight<T>>();
                let value = value.ok().and_then(|mut value| value.0.take());
                value.ok_or_else(|| another::<T>("arguments"))
            }
            Arguments::Bytes(body) => body.decoded(traits),
        }
    }
}

/// The result of an ordinary call.
#[derive(Debug)]
pub enum Returned {
    /// A value of this process.
    Local(Box<dyn Any + Send>),
    /// An encoded value, and the references in it.
    Passed(Body, Beside),
    /// A value that stays in its process.
    Kept(ObjectValue),
}

impl Returned {
    /// Puts a result into the form of the arguments, `like`.
    ///
    /// # Errors
    /// [`Failure::Channel`] if the value cannot be encoded.
    pub fn new<T: Payload>(value: T, like: ArgumentsKind, traits: &Traits<T>) -> Result<Self, Failure> {
        match like {
            ArgumentsKind::Local => Ok(Returned::Local(Box::new(value))),
            ArgumentsKind::Bytes => Ok(Returned::Passed(
                Body::encoded(&value, traits)?,
                Beside::default(),
            )),
        }
    }

    /// Converts the result into a `T`.
    ///
    /// # Errors
    /// The errors of [`Arguments::into`].
    pub fn into<T: Payload>(self, traits: &Traits<T>) -> Result<T, Failure> {
        match self {
            Returned::Local(value) => match value.downcast::<T>() {
                Ok(value) => Ok(*value),
                Err(_) => Err(another::<T>("result")),
            },
            Returned::Passed(body, Beside(handles)) => arriving(handles, || body.decoded(traits)),
            Returned::Kept(_) => Err(another::<T>("result")),
        }
    }

    /// Encodes the result of a remote function, with the references in it.
    pub(crate) fn passed<T: Payload>(value: &T, traits: &Traits<T>) -> Result<Self, Failure> {
        let (body, handles) = leaving(|| Body::encoded(value, traits));
        Ok(Returned::Passed(body?, Beside(handles)))
    }
}

pub(crate) fn to_bytes<T>(value: &T, traits: &Traits<T>) -> Result<Vec<u8>, Failure> {
    let encoded = (traits.codec()?.encode)(value);
    encoded.map_err(Failure::of_channel)
}

/// Decodes the arguments of a constructor.
///
/// # Errors
/// [`Failure::Channel`] for bytes that do not decode to a `T`, or if serde does not know `T`.
pub fn decoded<T>(bytes: &[u8], traits: &Traits<T>) -> Result<T, Failure> {
    let decoded = (traits.codec()?.decode)(bytes);
    decoded.map_err(Failure::of_channel)
}

fn another<T>(what: &str) -> Failure {
    let wanted = std::any::type_name::<T>();
    Failure::Internal(format!(
        "the {what} of a call are read as `{wanted}` but hold another type"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_arrive_in_both_forms() {
        let local = Arguments::local((1_u32, "a".to_owned()));
        assert_eq!(
            local.into::<(u32, String)>(&Traits::LETTER).unwrap(),
            (1, "a".to_owned())
        );
        let bytes = Arguments::Bytes(Body::encoded(&(1_u32, "a".to_owned()), &Traits::LETTER).unwrap());
        assert_eq!(bytes.kind(), ArgumentsKind::Bytes);
        assert_eq!(
            bytes.into::<(u32, String)>(&Traits::LETTER).unwrap(),
            (1, "a".to_owned())
        );
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let local = Arguments::local(1_u32);
        assert!(matches!(
            local.into::<(String,)>(&Traits::LETTER),
            Err(Failure::Internal(_))
        ));
    }
}
