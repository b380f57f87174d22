//! Codecs of errors: an error that serde can encode keeps its type when it leaves its process.

use std::any::{TypeId, type_name};
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use selvedge_channels::{dispose, from_packed, to_packed};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum number of bytes of an encoded error. A larger error travels as its texts only.
pub(crate) const ERROR_BYTES_MAX: usize = 64 * 1024;

/// A user's error, shared by everybody who sees it.
pub type SharedError = Arc<dyn Error + Send + Sync>;

/// The functions that encode and decode errors of one type.
pub struct ErrorCodec {
    type_name: fn() -> &'static str,
    id: fn() -> TypeId,
    encode: fn(&SharedError) -> Option<Vec<u8>>,
    decode: fn(&[u8]) -> Option<SharedError>,
}

impl fmt::Debug for ErrorCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorCodec({})", self.type_name())
    }
}

impl ErrorCodec {
    pub(crate) const fn of<E: Error + Serialize + DeserializeOwned + Send + Sync + 'static>() -> Self {
        ErrorCodec {
            type_name: type_name::<E>,
            id: TypeId::of::<E>,
            encode: |error| to_bytes(error.downcast_ref::<E>()?),
            decode: |bytes| Some(Arc::new(from_packed::<E>(bytes).ok()?)),
        }
    }

    /// The id of the type.
    pub(crate) fn id(&self) -> TypeId {
        (self.id)()
    }

    /// The name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        (self.type_name)()
    }

    /// Encodes an error of the codec's type. Returns `None` for another error, and for one that cannot be encoded or is
    /// too large. The error's `Serialize` is user code, so a panic in it is caught.
    pub(crate) fn encode(&self, error: &SharedError) -> Option<Vec<u8>> {
        caught(|| (self.encode)(error))
    }

    /// Decodes an error of the codec's type. Returns `None` if the bytes are not one. The error's `Deserialize` is user
    /// code, so a panic in it is caught.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Option<SharedError> {
        caught(|| (self.decode)(bytes))
    }
}

fn caught<T>(run: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        dispose(payload);
        None
    })
}

/// Encodes an error, unless it would be decoded as another one.
fn to_bytes<E: Serialize + DeserializeOwned>(error: &E) -> Option<Vec<u8>> {
    let bytes = to_packed(error).ok()?;
    let again = to_packed(&from_packed::<E>(&bytes).ok()?).ok()?;
    (bytes.len() <= ERROR_BYTES_MAX && again == bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
    #[error("{code} of {}", parts.join(", "))]
    struct Coded {
        code: u32,
        parts: Vec<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<u8>,
    }

    fn coded(note: Option<u8>) -> Coded {
        let parts = vec!["a".to_owned()];
        Coded { code: 7, parts, note }
    }

    #[test]
    fn an_error_is_encoded_only_if_it_is_decoded_as_itself() {
        let codec = ErrorCodec::of::<Coded>();
        let shared = |error: Coded| -> SharedError { Arc::new(error) };
        let bytes = codec.encode(&shared(coded(Some(3)))).unwrap();
        let back = codec.decode(&bytes).unwrap();
        assert_eq!(back.downcast_ref::<Coded>(), Some(&coded(Some(3))));
        assert!(codec.decode(&bytes[1..]).is_none());
        assert_eq!(codec.encode(&shared(coded(None))), None, "a field is left out");
        let large = Coded {
            parts: vec!["x".repeat(ERROR_BYTES_MAX)],
            ..coded(Some(1))
        };
        assert_eq!(codec.encode(&shared(large)), None);
        assert_eq!(codec.encode(&(Arc::new(std::fmt::Error) as SharedError)), None);
    }

    #[test]
    fn rser_06_an_error_that_nests_too_deep_travels_as_its_text() {
        #[derive(Debug, Default, Serialize, Deserialize, thiserror::Error)]
        #[error("nested")]
        struct Nested(Option<Box<Nested>>);

        let nested = |levels| (0..levels).fold(Nested(None), |inner, _| Nested(Some(Box::new(inner))));
        let codec = ErrorCodec::of::<Nested>();
        assert!(codec.encode(&(Arc::new(nested(100)) as SharedError)).is_some());
        assert_eq!(codec.encode(&(Arc::new(nested(1000)) as SharedError)), None);
        assert!(
            codec.decode(&[1; ERROR_BYTES_MAX]).is_none(),
            "and no stack overflows"
        );
    }
}
