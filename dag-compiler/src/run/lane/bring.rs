//! Device-to-device copies of arguments: brings their tensors to the device on which the task needs them.

use selvedge_channels::AnyValue;
use selvedge_core::{Failure, ValueIx};

use super::TaskRun;

/// A type without values: without devices no argument is copied.
#[cfg(not(feature = "cuda"))]
pub(crate) enum BringRun {}

#[cfg(not(feature = "cuda"))]
impl BringRun {
    pub(super) fn into(&self) -> ValueIx {
        match *self {}
    }
}

#[cfg(not(feature = "cuda"))]
pub(super) fn bring(_: &mut TaskRun, _: &mut [Box<dyn AnyValue>], _: u64) -> Result<(), Failure> {
    Ok(())
}

#[cfg(feature = "cuda")]
pub(crate) use with_devices::BringRun;
#[cfg(feature = "cuda")]
pub(super) use with_devices::bring;

#[cfg(feature = "cuda")]
mod with_devices {
    use selvedge_channels::device::{Crossing, DeviceError, Gpu};
    use selvedge_channels::{ChannelError, PayloadType};

    use super::*;

    /// A value whose tensors are copied to the device of a task's actor before the task computes. If all of them are on
    /// that device already, the task reads the value itself, and nothing is copied.
    pub(crate) struct BringRun {
        payload: PayloadType,
        crossing: Crossing,
        /// The value as it arrives.
        from: ValueIx,
        /// The local value that gets the copied tensors.
        into: ValueIx,
    }

    impl BringRun {
        pub(crate) fn new(
            payload: PayloadType,
            gpu: &Gpu,
            from: ValueIx,
            into: ValueIx,
        ) -> Result<Self, DeviceError> {
            Ok(BringRun {
                payload,
                crossing: Crossing::to(gpu)?,
                from,
                into,
            })
        }

        pub(in super::super) fn into(&self) -> ValueIx {
            self.into
        }

        /// Copies the tensors if necessary; returns the index of the value to read.
        fn run(&mut self, values: &mut [Box<dyn AnyValue>], execution: u64) -> Result<ValueIx, ChannelError> {
            let ends = values.get_disjoint_mut([self.from.0, self.into.0]);
            let Ok([from, into]) = ends else {
                return Err(ChannelError::NoValue);
            };
            let brought = self
                .payload
                .bring(&mut self.crossing, from.as_ref(), into.as_mut(), execution)?;
            Ok(if brought { self.into } else { self.from })
        }
    }

    /// Brings a task's arguments to its actor's device, and makes the task's parameters and lists refer to the values
    /// with the copies.
    pub(in super::super) fn bring(
        task: &mut TaskRun,
        values: &mut [Box<dyn AnyValue>],
        execution: u64,
    ) -> Result<(), Failure> {
        let (brings, params, gathers) = (&mut task.brings, &mut task.params, &mut task.gathers);
        Failure::catch(|| {
            for bring in brings {
                let index = bring.run(values, execution).map_err(Failure::from)?;
                let members = gathers.iter_mut().flat_map(|list| &mut list.members);
                params
                    .iter_mut()
                    .chain(members)
                    .filter(|place| **place == bring.from || **place == bring.into)
                    .for_each(|place| *place = index);
            }
            Ok(())
        })
    }
}
