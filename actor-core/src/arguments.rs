//! What an ordinary call carries: the value itself within a process, bytes between processes.

use std::any::Any;

use selvedge_channels::{Wire, decode, dispose, encode};

use crate::Failure;

/// In which form a call's arguments came; its result goes back in the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsKind {
    /// As a value of this process.
    Local,
    /// As encoded bytes.
    Bytes,
}

/// The arguments of an ordinary call, a tuple.
#[derive(Debug)]
pub enum Arguments {
    /// A tuple of this process, made by [`Arguments::local`].
    Local(Box<dyn Any + Send>),
    /// An encoded tuple.
    Bytes(Vec<u8>),
}

/// A tuple that nobody may read: then it is dropped on a thread that others need, whatever its drop panics with.
struct Underway<T>(Option<T>);

impl<T> Drop for Underway<T> {
    fn drop(&mut self) {
        dispose(self.0.take());
    }
}

impl Arguments {
    /// A tuple as it is, for an actor of this process.
    #[must_use]
    pub fn local<T: Wire>(value: T) -> Self {
        Arguments::Local(Box::new(Underway(Some(value))))
    }

    /// Which form this is.
    #[must_use]
    pub fn kind(&self) -> ArgumentsKind {
        match self {
            Arguments::Local(_) => ArgumentsKind::Local,
            Arguments::Bytes(_) => ArgumentsKind::Bytes,
        }
    }

    /// The arguments as a tuple `T`.
    ///
    /// # Errors
    /// [`Failure::Channel`] for bytes that are no `T`, [`Failure::Internal`] for a value of another type.
    pub fn into<T: Wire>(self) -> Result<T, Failure> {
        match self {
            Arguments::Local(value) => {
                let value = value.downcast::<Underway<T>>();
                let value = value.ok().and_then(|mut value| value.0.take());
                value.ok_or_else(|| another::<T>("arguments"))
            }
            Arguments::Bytes(bytes) => from_bytes(&bytes),
        }
    }
}

/// The result of an ordinary call.
#[derive(Debug)]
pub enum Returned {
    /// A value of this process.
    Local(Box<dyn Any + Send>),
    /// An encoded value.
    Bytes(Vec<u8>),
}

impl Returned {
    /// Puts a result into the form the arguments came in.
    ///
    /// # Errors
    /// [`Failure::Channel`] where the value cannot be encoded.
    pub fn new<T: Wire>(value: T, like: ArgumentsKind) -> Result<Self, Failure> {
        match like {
            ArgumentsKind::Local => Ok(Returned::Local(Box::new(value))),
            ArgumentsKind::Bytes => Ok(Returned::Bytes(to_bytes(&value)?)),
        }
    }

    /// The result as a `T`.
    ///
    /// # Errors
    /// As [`Arguments::into`].
    pub fn into<T: Wire>(self) -> Result<T, Failure> {
        match self {
            Returned::Local(value) => match value.downcast::<T>() {
                Ok(value) => Ok(*value),
                Err(_) => Err(another::<T>("result")),
            },
            Returned::Bytes(bytes) => from_bytes(&bytes),
        }
    }
}

pub(crate) fn to_bytes<T: Wire>(value: &T) -> Result<Vec<u8>, Failure> {
    let encoded = encode(value).map_err(|error| Failure::Channel(error.into()))?;
    Ok(encoded.to_vec())
}

fn from_bytes<T: Wire>(bytes: &[u8]) -> Result<T, Failure> {
    decode(bytes).map_err(|error| Failure::Channel(error.into()))
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
        assert_eq!(local.into::<(u32, String)>().unwrap(), (1, "a".to_owned()));
        let bytes = Arguments::Bytes(to_bytes(&(1_u32, "a".to_owned())).unwrap());
        assert_eq!(bytes.kind(), ArgumentsKind::Bytes);
        assert_eq!(bytes.into::<(u32, String)>().unwrap(), (1, "a".to_owned()));
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let local = Arguments::local(1_u32);
        assert!(matches!(local.into::<(String,)>(), Err(Failure::Internal(_))));
    }
}
