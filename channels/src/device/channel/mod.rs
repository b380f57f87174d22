//! The channel of tensors that stay on the device: one writer, N readers, K slots. Protocol, states and races: `README.md` in
//! this folder's parent.
//!
//! - [`DeviceChannelOptions`]: what a channel is like; makes one between threads or between processes
//!   ([`SharedDeviceChannel`]), whose [`DeviceDescriptor`] travels as text.
//! - [`DeviceWriter`], [`DeviceReader`]: the ends. A slot is free, then a [`DeviceLoan`] (being written), then ready, then a
//!   [`DeviceView`] for each reader (borrowed), then free again.
//! - `frame`: metadata of a message, on a channel of the host. `ring`: the device's side, slots and how they are handed over;
//!   [`Signals`]: by events, or by values.
//! - `card`, `handover`: how memory and events come to other processes. `owned`: how long their owner keeps them.

mod error;
mod frame;
mod ring;
mod signal;

mod options;

mod loan;
mod reader;
mod view;
mod writer;

mod card;
mod descriptor;
mod handover;
mod owned;
mod shared;

pub use descriptor::DeviceDescriptor;
pub use error::DeviceChannelError;
pub use loan::DeviceLoan;
pub use options::DeviceChannelOptions;
pub use reader::DeviceReader;
pub use shared::SharedDeviceChannel;
pub use signal::Signals;
pub use view::DeviceView;
pub use writer::DeviceWriter;

pub(super) use owned::sweep as sweep_kept;
