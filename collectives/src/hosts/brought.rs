//! The contribution of a rank or a host to an operation, and its result: tensors, or an error.

use selvedge_channels::{DType, Tensor, byte_count};
use serde::{Deserialize, Serialize};

use crate::communicator::Contribution;
use crate::error::CommError;
use crate::parts::Part;

/// Tensors, or an error in their place.
#[derive(Clone, Debug)]
pub(super) enum Brought {
    Tensors(Vec<Tensor>),
    Error(BroughtError),
}

/// An error that all ranks get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BroughtError {
    /// The work of a rank has failed.
    Failed { rank: usize, report: Vec<u8> },
    /// An error that was found at the operation.
    Refused(String),
}

/// The description of one item in bytes: the error, or the types and shapes of the tensors that follow.
type ItemHead = Result<Vec<(DType, Vec<usize>)>, BroughtError>;

const MALFORMED: CommError = CommError::Corrupt {
    what: "a share of another host",
};

impl Brought {
    /// The contribution of a rank. The tensors are copied.
    pub(super) fn of(rank: usize, contribution: Contribution<'_>) -> Result<Self, CommError> {
        match contribution {
            Contribution::Failure(report) => Ok(Brought::Error(BroughtError::Failed {
                rank,
                report: report.to_vec(),
            })),
            Contribution::Parts(parts) => {
                let copied = |part: &Part<'_>| Tensor::from_raw(part.dtype, part.shape, part.bytes);
                let tensors: Result<Vec<_>, _> = parts.iter().map(copied).collect();
                Ok(Brought::Tensors(tensors?))
            }
        }
    }

    /// The outcome of an operation that was replayed.
    ///
    /// # Errors
    /// The error, if it ends the group.
    pub(super) fn outcome(outcome: Result<Vec<Tensor>, CommError>) -> Result<Self, CommError> {
        Ok(match outcome {
            Ok(tensors) => Brought::Tensors(tensors),
            Err(CommError::PeerFailed { report, .. }) => {
                Brought::Error(postcard::from_bytes(&report).map_err(|_| MALFORMED)?)
            }
            Err(
                error @ (CommError::Mismatch { .. }
                | CommError::NoSuchReduction { .. }
                | CommError::Indivisible { .. }
                | CommError::Scalar { .. }
                | CommError::Tensor(_)),
            ) => Brought::Error(BroughtError::Refused(error.to_string())),
            Err(error) => return Err(error),
        })
    }

    /// The result of a rank.
    pub(super) fn result(self) -> Result<Vec<Tensor>, CommError> {
        match self {
            Brought::Tensors(tensors) => Ok(tensors),
            Brought::Error(BroughtError::Failed { rank, report }) => {
                Err(CommError::PeerFailed { rank, report })
            }
            Brought::Error(BroughtError::Refused(reason)) => Err(CommError::Refused { reason }),
        }
    }

    /// The message within a host: a tensor that says whether it is an error, and the tensors.
    pub(super) fn to_message(&self) -> Result<Vec<Tensor>, CommError> {
        let (error, tensors) = match self {
            Brought::Tensors(tensors) => (None, tensors.as_slice()),
            Brought::Error(error) => (Some(error), &[] as &[Tensor]),
        };
        let head = postcard::to_allocvec(&error).unwrap_or_default();
        let head = Tensor::from_raw(DType::U8, &[head.len()], &head)?;
        Ok(std::iter::once(head).chain(tensors.iter().cloned()).collect())
    }

    /// Reads a message within a host.
    pub(super) fn from_message(mut message: Vec<Tensor>) -> Result<Self, CommError> {
        if message.is_empty() {
            return Err(MALFORMED);
        }
        let head = message.remove(0);
        let error: Option<BroughtError> = postcard::from_bytes(head.bytes()).map_err(|_| MALFORMED)?;
        Ok(error.map_or(Brought::Tensors(message), Brought::Error))
    }
}

/// Encodes the items of a host's share: the length of the heads, the heads, and the bytes of all tensors.
pub(super) fn encode(items: &[Brought]) -> Vec<u8> {
    let head = |item: &Brought| -> ItemHead {
        match item {
            Brought::Tensors(tensors) => {
                let shape = |tensor: &Tensor| (tensor.dtype(), tensor.shape().to_vec());
                Ok(tensors.iter().map(shape).collect())
            }
            Brought::Error(error) => Err(error.clone()),
        }
    };
    let heads: Vec<ItemHead> = items.iter().map(head).collect();
    let heads = postcard::to_allocvec(&heads).unwrap_or_default();
    let mut bytes = (heads.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(&heads);
    for item in items {
        if let Brought::Tensors(tensors) = item {
            tensors
                .iter()
                .for_each(|tensor| bytes.extend_from_slice(tensor.bytes()));
        }
    }
    bytes
}

/// Decodes a share of `count` items, whatever its bytes are.
pub(super) fn decode(bytes: &[u8], count: usize) -> Result<Vec<Brought>, CommError> {
    let (len, rest) = bytes.split_first_chunk::<8>().ok_or(MALFORMED)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| MALFORMED)?;
    let (heads, mut rest) = rest.split_at_checked(len).ok_or(MALFORMED)?;
    let heads: Vec<ItemHead> = postcard::from_bytes(heads).map_err(|_| MALFORMED)?;
    if heads.len() != count {
        return Err(MALFORMED);
    }
    let mut items = Vec::with_capacity(count);
    for head in heads {
        items.push(match head {
            Ok(shapes) => Brought::Tensors(tensors(shapes, &mut rest)?),
            Err(error) => Brought::Error(error),
        });
    }
    if rest.is_empty() {
        Ok(items)
    } else {
        Err(MALFORMED)
    }
}

/// Takes the tensors of an item from the bytes.
fn tensors(shapes: Vec<(DType, Vec<usize>)>, rest: &mut &[u8]) -> Result<Vec<Tensor>, CommError> {
    let mut taken = Vec::with_capacity(shapes.len().min(rest.len() + 1));
    for (dtype, shape) in shapes {
        let len = byte_count(dtype, &shape);
        let (own, behind) = len.and_then(|len| rest.split_at_checked(len)).ok_or(MALFORMED)?;
        *rest = behind;
        taken.push(Tensor::from_raw(dtype, &shape, own)?);
    }
    Ok(taken)
}
