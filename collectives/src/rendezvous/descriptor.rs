//! Descriptors: groups as plain data, from which another process opens them.

use std::fmt;
use std::str::FromStr;

use selvedge_channels::SegmentId;
use serde::{Deserialize, Serialize};

/// A group as plain data, for any serde format, and as text without blanks for a command line. It is valid as long as
/// the process that created the group keeps the group, or a rank of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupDescriptor {
    pub(super) ranks: u32,
    pub(super) segment: SegmentId,
}

/// A text that is not a [`GroupDescriptor`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not the descriptor of a group: it is `selvedge-group-1` and five numbers, with colons between"
)]
pub struct NotAGroup {
    text: String,
}

selvedge_channels::debug_is_report!(NotAGroup);

const PREFIX: &str = "selvedge-group-1";

impl fmt::Display for GroupDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupDescriptor { ranks, segment } = self;
        let fd = segment.fd.cast_unsigned();
        write!(
            f,
            "{PREFIX}:{ranks}:{}:{fd}:{}:{}",
            segment.pid, segment.nonce, segment.len_bytes
        )
    }
}

impl FromStr for GroupDescriptor {
    type Err = NotAGroup;

    fn from_str(text: &str) -> Result<Self, NotAGroup> {
        let parse = || -> Option<Self> {
            let fields = text.trim().strip_prefix(PREFIX)?.strip_prefix(':')?;
            let fields: Vec<u64> = fields
                .split(':')
                .map(|field| field.parse().ok())
                .collect::<Option<_>>()?;
            let [ranks, pid, fd, nonce, len_bytes] = *fields.as_slice() else {
                return None;
            };
            let segment = SegmentId {
                pid: pid.try_into().ok()?,
                fd: u32::try_from(fd).ok()?.cast_signed(),
                nonce,
                len_bytes,
            };
            Some(GroupDescriptor {
                ranks: ranks.try_into().ok()?,
                segment,
            })
        };
        parse().ok_or_else(|| NotAGroup {
            text: text.chars().take(80).collect(),
        })
    }
}
