//! The serialisable descriptor of a channel of tensors.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::DeviceChannelError;
use super::manifest::Manifest;
use crate::channel::{Descriptor, NotADescriptor};
use crate::device::error::DeviceId;
use crate::memory::segment::SegmentId;

/// All data that another process of this host and user needs to open a channel of tensors: plain data for any serde
/// format, or text without blanks for a command line or an environment variable.
///
/// A descriptor is valid as long as the process that created the channel lives, and keeps the channel or an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDescriptor {
    /// The descriptor of the control channel.
    pub(super) control: Descriptor,
    /// The segment with the manifest, which describes the device side.
    pub(super) manifest: SegmentId,
}

impl DeviceDescriptor {
    /// The device of the channel.
    ///
    /// # Errors
    /// [`ChannelError::Segment`](crate::ChannelError::Segment) if the creator has ended or released the channel,
    /// [`ChannelError::Corrupt`](crate::ChannelError::Corrupt) if the segment contains no valid manifest.
    pub fn device(&self) -> Result<DeviceId, DeviceChannelError> {
        Ok(Manifest::read(&self.manifest)?.device)
    }
}

const PREFIX: &str = "selvedge-device-1";

impl fmt::Display for DeviceDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SegmentId {
            pid,
            fd,
            nonce,
            len_bytes,
        } = &self.manifest;
        let fd = fd.cast_unsigned();
        write!(f, "{PREFIX}:{pid}:{fd}:{nonce}:{len_bytes}:{}", self.control)
    }
}

impl FromStr for DeviceDescriptor {
    type Err = NotADescriptor;

    fn from_str(text: &str) -> Result<Self, NotADescriptor> {
        let refuse = |reason| NotADescriptor::because(text, reason);
        let mut fields = text.trim().splitn(6, ':');
        if fields.next() != Some(PREFIX) {
            return Err(refuse("it does not begin with `selvedge-device-1:`"));
        }
        let mut next = || -> Result<u64, NotADescriptor> {
            let field = fields.next().ok_or_else(|| refuse("it ends too early"))?;
            field.parse().map_err(|_| refuse("a field is not a number"))
        };
        let small = |number: u64| u32::try_from(number).map_err(|_| refuse("a number is too large"));
        let manifest = SegmentId {
            pid: small(next()?)?,
            fd: small(next()?)?.cast_signed(),
            nonce: next()?,
            len_bytes: next()?,
        };
        let control = fields.next().ok_or_else(|| refuse("it ends too early"))?;
        Ok(DeviceDescriptor {
            control: control.parse()?,
            manifest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chan_24_a_descriptor_is_text_and_back() {
        let text = "selvedge-device-1:7:3:99:4096:selvedge-channel-1:4:1000:2:1073741824:7:5:18:8589";
        let descriptor: DeviceDescriptor = text.parse().unwrap();
        assert_eq!(descriptor.to_string(), text);
        let bytes = postcard::to_allocvec(&descriptor).unwrap();
        assert_eq!(
            postcard::from_bytes::<DeviceDescriptor>(&bytes).unwrap(),
            descriptor
        );
        for wrong in [
            "",
            "selvedge-device-1:7:3",
            &text[1..],
            &text[..60],
            &format!("{text}:1"),
        ] {
            assert!(wrong.parse::<DeviceDescriptor>().is_err(), "{wrong}");
        }
    }
}
