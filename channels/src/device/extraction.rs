//! Tensors of a device inside other values: taken out while a value is encoded, put back while it is decoded.
//!
//! A tensor that is serialised leaves its place's number behind and goes to a table of this thread, if somebody has laid one;
//! elsewhere it cannot be serialised, for a number alone says nothing. The table is cleared however the encoding ends.

use std::cell::{Cell, RefCell};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::DeviceError;
use super::gpu::Gpu;
use super::tensor::DeviceTensor;
use crate::error::{ChannelError, DecodeError};
use crate::payload::{Wire, decode, encode_as, note, way_of};

/// Which tensors may be taken out of a value.
pub(super) enum Of {
    /// Those of any devices.
    Any,
    /// Those of one device, whichever.
    One,
    /// Those of this device.
    This(Gpu),
}

#[derive(Default)]
enum Table {
    #[default]
    None,
    /// Tensors that were taken out of the value that is being encoded.
    Taken(Of, Vec<DeviceTensor>, Option<DeviceError>),
    /// Tensors to be put into the value that is being decoded; `None` once that has happened.
    Offered(Vec<Option<DeviceTensor>>),
}

thread_local! {
    static TABLE: RefCell<Table> = const { RefCell::new(Table::None) };
}

thread_local! {
    /// A tensor was serialised where no table lies. Encodings do not keep the reasons of errors.
    static STOWED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a tensor was refused since the last question because no table lay there for it.
pub(super) fn was_stowed() -> bool {
    STOWED.take()
}

/// The table, while it lies there.
struct Laid;

impl Laid {
    fn new(table: Table) -> Self {
        TABLE.with_borrow_mut(|laid| *laid = table);
        Laid
    }

    fn take(&self) -> Table {
        TABLE.take()
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        TABLE.take();
    }
}

/// Why a value could not be taken apart.
#[derive(Debug)]
pub(super) enum NotTaken {
    Device(DeviceError),
    Channel(ChannelError),
}

/// A value's bytes without its tensors that are on a device, and these. Tensors of the host stay in the bytes; one of a device
/// that is not asked for is refused.
pub(super) fn take_apart<T: Wire>(value: &T, of: Of) -> Result<(Vec<u8>, Vec<DeviceTensor>), NotTaken> {
    let laid = Laid::new(Table::Taken(of, Vec::new(), None));
    // Its tensors could not be put into it twice.
    let encoded = encode_as(value, way_of::<T>, false);
    let Table::Taken(_, tensors, refused) = laid.take() else {
        let what = "a value that encodes another one in the middle of itself";
        return Err(NotTaken::Channel(ChannelError::Corrupt { what }));
    };
    if let Some(error) = refused {
        return Err(NotTaken::Device(error));
    }
    let encoded = encoded.map_err(|error| NotTaken::Channel(error.into()))?;
    let mut bytes = vec![0; encoded.len_bytes()];
    let written = encoded.write_to(&mut bytes);
    written.map_err(|error| NotTaken::Channel(error.into()))?;
    Ok((bytes, tensors))
}

/// The value whose bytes and tensors these are. Each tensor must be in it once, no more and no less.
pub(super) fn put_together<T: Wire>(bytes: &[u8], tensors: Vec<DeviceTensor>) -> Result<T, ChannelError> {
    let laid = Laid::new(Table::Offered(tensors.into_iter().map(Some).collect()));
    let decoded = decode::<T>(bytes)?;
    let Table::Offered(left) = laid.take() else {
        let what = "a value that decodes another one in the middle of itself";
        return Err(ChannelError::Corrupt { what });
    };
    if left.iter().any(Option::is_some) {
        let what = "there are more tensors than places for them";
        return Err(DecodeError::Malformed(what).into());
    }
    Ok(decoded)
}

fn put(tensor: &DeviceTensor) -> Result<u32, &'static str> {
    TABLE.with_borrow_mut(|table| {
        let Table::Taken(of, tensors, refused) = table else {
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
    TABLE.with_borrow_mut(|table| {
        let Table::Offered(tensors) = table else {
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
