//! Device tensors inside other values: they are taken out while the value is encoded, and put back while it is decoded.
//!
//! Serialising a device tensor writes a number, and moves the tensor to a table of the current thread. Without a table
//! the tensor cannot be serialised, since the number alone has no meaning. The table is removed at the end of the
//! encoding, also after an error or a panic.

use std::cell::{Cell, RefCell};

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::channel::DeviceChannelError;
use super::error::DeviceError;
use super::gpu::Gpu;
use super::tensor::DeviceTensor;
use crate::error::{ChannelError, DecodeError};
use crate::payload::{Wire, decode, encode_as, note, way_of};

/// The tensors that may be taken out of a value.
pub(super) enum Of {
    /// Tensors of any devices.
    Any,
    /// Tensors of one device: that of the first tensor.
    One,
    /// Tensors of this device.
    This(Gpu),
}

#[derive(Default)]
enum Table {
    #[default]
    None,
    /// Tensors taken out of the value that is being encoded, and the error that refused one.
    Taken(Of, Vec<DeviceTensor>, Option<DeviceError>),
    /// Tensors to be put into the value that is being decoded; `None` in the place of each one that has been put in.
    Offered(Vec<Option<DeviceTensor>>),
}

thread_local! {
    static TABLE: RefCell<Table> = const { RefCell::new(Table::None) };
}

thread_local! {
    /// Set when a tensor was serialised without a table. The flag is needed because encoders drop the cause of an
    /// error.
    static STOWED: Cell<bool> = const { Cell::new(false) };
}

/// Whether a tensor was refused for lack of a table since the last call. Clears the flag.
pub(super) fn was_stowed() -> bool {
    STOWED.take()
}

/// A guard that installs a table for this thread, and removes it when it is dropped.
struct TableGuard;

impl TableGuard {
    fn new(table: Table) -> Self {
        TABLE.with_borrow_mut(|laid| *laid = table);
        TableGuard
    }

    fn take(&self) -> Table {
        TABLE.take()
    }
}

impl Drop for TableGuard {
    fn drop(&mut self) {
        TABLE.take();
    }
}

/// Encodes a value without its device tensors, and returns the bytes and these tensors. Host tensors stay in the bytes.
/// A device tensor that `of` does not allow is refused.
pub(super) fn take_apart<T: Wire>(
    value: &T,
    of: Of,
) -> Result<(Vec<u8>, Vec<DeviceTensor>), DeviceChannelError> {
    let laid = TableGuard::new(Table::Taken(of, Vec::new(), None));
    // `false`: the bytes are not decoded for a comparison, since each tensor can be put into a value only once.
    let encoded = encode_as(value, way_of::<T>, false);
    let Table::Taken(_, tensors, refused) = laid.take() else {
        let what = "a value that encodes another one in the middle of itself";
        return Err(ChannelError::Corrupt { what }.into());
    };
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
    let laid = TableGuard::new(Table::Offered(tensors.into_iter().map(Some).collect()));
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
