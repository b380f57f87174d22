//! Descriptors: channels as plain data.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::memory::segment::SegmentId;
use crate::shared::SharedSpec;

/// The data that another process of this host and user needs to open a channel. Any serde format can carry it, and as
/// text it has no blanks, for a command line or an environment variable.
///
/// A descriptor is valid as long as the process that made the channel keeps its [`SharedChannel`](super::SharedChannel)
/// or an endpoint of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    pub(super) spec: SharedSpec,
    pub(super) segment: SegmentId,
}

/// A text that is not a [`Descriptor`].
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the descriptor of a channel: {reason}")]
pub struct NotADescriptor {
    text: String,
    reason: &'static str,
}

crate::debug_is_report!(NotADescriptor);

impl NotADescriptor {
    /// Makes the error, with the beginning of the text, which may be of any length.
    pub(crate) fn because(text: &str, reason: &'static str) -> Self {
        NotADescriptor {
            text: text.chars().take(80).collect(),
            reason,
        }
    }
}

const PREFIX: &str = "selvedge-channel-1";

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Descriptor { spec, segment } = self;
        write!(
            f,
            "{PREFIX}:{}:{}:{}:{}:{}:{}:{}:{}",
            spec.slots,
            spec.slot_bytes,
            spec.readers,
            spec.max_bytes,
            segment.pid,
            segment.fd.cast_unsigned(),
            segment.nonce,
            segment.len_bytes
        )
    }
}

impl FromStr for Descriptor {
    type Err = NotADescriptor;

    fn from_str(text: &str) -> Result<Self, NotADescriptor> {
        let refuse = |reason| NotADescriptor::because(text, reason);
        let mut fields = text.trim().split(':');
        if fields.next() != Some(PREFIX) {
            return Err(refuse("it does not begin with `selvedge-channel-1:`"));
        }
        let mut next = || -> Result<u64, NotADescriptor> {
            let field = fields.next().ok_or_else(|| refuse("it ends too early"))?;
            field.parse().map_err(|_| refuse("a field is not a number"))
        };
        let small = |number: u64| u32::try_from(number).map_err(|_| refuse("a number is too large"));
        let descriptor = Descriptor {
            spec: SharedSpec {
                slots: small(next()?)?,
                slot_bytes: next()?,
                readers: small(next()?)?,
                max_bytes: next()?,
            },
            segment: SegmentId {
                pid: small(next()?)?,
                fd: small(next()?)?.cast_signed(),
                nonce: next()?,
                len_bytes: next()?,
            },
        };
        match fields.next() {
            None => Ok(descriptor),
            Some(_) => Err(refuse("it goes on after its end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chan_24_a_descriptor_is_text_and_back() {
        let descriptor = Descriptor {
            spec: SharedSpec {
                slots: 4,
                slot_bytes: 1000,
                readers: 2,
                max_bytes: 1 << 40,
            },
            segment: SegmentId {
                pid: 77,
                fd: 5,
                nonce: u64::MAX,
                len_bytes: 1 << 33,
            },
        };
        let text = descriptor.to_string();
        assert_eq!(text.parse(), Ok(descriptor));
        for wrong in [
            "",
            "selvedge-channel-1",
            "x",
            &text[..text.len() - 12],
            &format!("{text}:1"),
        ] {
            assert!(wrong.parse::<Descriptor>().is_err(), "{wrong}");
        }
        let negative = text.replace(":77:", ":-77:");
        let reason = negative.parse::<Descriptor>().unwrap_err().to_string();
        assert!(reason.contains("a field is not a number"), "{reason}");
    }
}
