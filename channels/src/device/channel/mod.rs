//! Channels of tensors that stay on the device: one writer, N readers, K slots. `README.md` in the parent folder
//! describes the protocol, the states and the races.
//!
//! - [`DeviceChannelOptions`]: the options of a channel, and the creation of one between threads. `shared`: the creation
//!   between processes ([`SharedDeviceChannel`]). The [`DeviceDescriptor`] of a shared channel can be sent as text.
//! - [`DeviceWriter`], [`DeviceReader`]: the endpoints. A slot is free, then a [`DeviceLoan`] (being written), then
//!   ready, then a [`DeviceView`] for each reader (borrowed), then free again.
//! - `frame`: the metadata of a message, sent over a channel of the host. `ring`: the slots on the device, and their
//!   synchronization by events or by values ([`Signals`]), which are `words` in a segment.
//! - `manifest`, `handover`: the transfer of memory and events to other processes. `owned`: the time for which their owner
//!   keeps them.

mod error;
mod frame;
mod ring;
mod words;

mod options;

mod loan;
mod reader;
mod view;
mod writer;

mod descriptor;
mod handover;
mod manifest;
mod owned;
mod shared;

pub use descriptor::DeviceDescriptor;
pub use error::DeviceChannelError;
pub use loan::DeviceLoan;
pub use options::DeviceChannelOptions;
pub use reader::DeviceReader;
pub use ring::Signals;
pub use shared::SharedDeviceChannel;
pub use view::DeviceView;
pub use writer::DeviceWriter;

pub(super) use owned::reclaim_kept;
