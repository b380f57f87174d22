//! Values by themselves, packed, with all their bytes in the head: for errors, which no part accompanies.

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::codec::SerdeError;
use super::collector::{Collecting, Providing};
use super::decode::read;
use super::encode::{HeadBytes, write_head};
use crate::error::{DecodeError, EncodeError};

/// Encodes a value packed, whether its type can read it so or not: the caller has to find that out.
///
/// # Errors
/// [`EncodeError::Serialize`] when the value's `Serialize` fails or the value holds a tensor, [`EncodeError::TooDeep`].
pub fn to_packed<T: Serialize>(value: &T) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = HeadBytes::new();
    let collecting = Collecting::begin();
    let written = write_head::<_, _, false>(value, None, &mut bytes);
    let parts = collecting.end();
    written?;
    match parts.is_empty() {
        true => Ok(bytes.as_slice().to_vec()),
        false => Err(EncodeError::Serialize {
            type_name: type_name::<T>(),
            error: SerdeError::said("a tensor travels in a payload only"),
        }),
    }
}

/// Decodes a packed value, which takes all of the bytes.
///
/// # Errors
/// [`DecodeError`] when the bytes are not a `T`.
pub fn from_packed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let _no_parts = Providing::begin(Vec::new());
    read::<T, false>(bytes)
}
