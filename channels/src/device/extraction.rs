//! Device tensors inside other values: they are taken out while the value is encoded, and put back while it is decoded.
//!
//! Serialising a device tensor writes a number, and moves the tensor to a table of the current thread. Without a table
//! the tensor cannot be serialised, since the number alone has no meaning. The table is removed at the end of the
//! encoding, also after an error or a panic.

use std::cell::Cell;

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::channel::DeviceChannelError;
use super::error::DeviceError;
use super::gpu::Gpu;
use super::tensor::DeviceTensor;
use crate::error::{ChannelError, DecodeError};
use crate::payload::{Scope, ScopePlace, Wire, decode, encode_as, note, way_of};

/// The tensors that may be taken out of a value.
#[derive(Default)]
pub(super) enum Of {
    /// Tensors of any devices.
    #[default]
    Any,
    /// Tensors of one device: that of the first tensor.
    One,
    /// Tensors of this device.
    This(Gpu),
}

/// Tensors taken out of the value that is being encoded, and the error that refused one.
#[derive(Default)]
struct Taken {
    of: Of,
    tensors: Vec<DeviceTensor>,
    refused: Option<DeviceError>,
}

/// Tensors to be put into the value that is being decoded; `None` in the place of each one that has been put in.
type Offered = Vec<Option<DeviceTensor>>;

thread_local! {
    static TAKEN: ScopePlace<Taken> = const { ScopePlace::new() };
    static OFFERED: ScopePlace<Offered> = const { ScopePlace::new() };
    /// Set when a tensor was serialised without a table. The flag is needed because encoders drop the cause of an
    /// error.
    static STOWED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a tensor was refused for lack of a table since the last call. Clears the flag.
pub(super) fn was_stowed() -> bool {
    STOWED.take()
}

/// Encodes a value without its device tensors, and returns the bytes and these tensors. Host tensors stay in the bytes.
/// A device tensor that `of` does not allow is refused.
pub(super) fn take_apart<T: Wire>(
    value: &T,
    of: Of,
) -> Result<(Vec<u8>, Vec<DeviceTensor>), DeviceChannelError> {
    let taken = Taken {
        of,
        ..Taken::default()
    };
    let scope = Scope::open(&TAKEN, taken);
    // `false`: the bytes are not decoded for a comparison, since each tensor can be put into a value only once.
    let encoded = encode_as(value, way_of::<T>, false);
    let Taken { tensors, refused, .. } = scope.close().unwrap_or_default();
    if let Some(error) = refused {
        return Err(error.into());
    }
    let encoded = encoded.map_err(ChannelError::from)?;
    let mut bytes = vec![0; encoded.len_bytes()];
    encoded.write_to(&mut bytes).map_err(ChannelError::from)?;
    Ok((bytes, tensors))
}

/// Rebuilds a value from its bytes and its tensors. The value must contain each tensor exactly once.
pub(super) fn put_together<T: Wire>(bytes: &[u8], tensors: Vec<DeviceTensor>) -> Result<T, ChannelError> {
    let scope = Scope::open(&OFFERED, tensors.into_iter().map(Some).collect());
    let decoded = decode::<T>(bytes)?;
    let left = scope.close().unwrap_or_default();
    if left.iter().any(Option::is_some) {
        let what = "there are more tensors than places for them";
        return Err(DecodeError::Malformed(what).into());
    }
    Ok(decoded)
}

fn put(tensor: &DeviceTensor) -> Result<u32, &'static str> {
    ScopePlace::look(&TAKEN, |taken| {
        let Some(Taken { of, tensors, refused }) = taken else {
            STOWED.set(true);
            return Err("a tensor of a device travels to other processes over a channel of tensors alone");
        };
        if let Of::One = of {
            *of = Of::This(tensor.gpu().clone());
        }
        if let Of::This(gpu) = of
            && let Err(error) = gpu.context.check_same("the tensor", &tensor.gpu().context)
        {
            *refused = Some(error);
            return Err("a tensor on another device");
        }
        let number = u32::try_from(tensors.len()).map_err(|_| "more tensors than can be counted")?;
        tensors.push(tensor.clone());
        Ok(number)
    })
}

fn get(number: u32) -> Result<DeviceTensor, &'static str> {
    ScopePlace::look(&OFFERED, |offered| {
        let Some(tensors) = offered else {
            return Err("a tensor of a device comes from other processes over a channel of tensors alone");
        };
        let place = tensors.get_mut(number as usize).and_then(Option::take);
        place.ok_or("a tensor that has not come, or that is in the value already")
    })
}

impl Serialize for DeviceTensor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if note(|| Some((self.layout().clone(), Some(self.gpu().index())))) {
            return 0_u32.serialize(serializer);
        }
        put(self).map_err(S::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for DeviceTensor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        get(u32::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
