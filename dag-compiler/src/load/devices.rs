//! Tensors on devices: sets the agreed schema of tensors on a lane's channels, and the device on which they are needed.

use selvedge_channels::{AnyValue, TensorSchema};
use selvedge_core::ValueIx;

use super::{LoadError, LoadSite};
use crate::ir::{ActorIr, LaneProgram, TaskIr, ValueId};
use crate::run::lane::{BringRun, LaneValues};

impl LoadSite<'_> {
    /// The schema that was agreed for the tensors in a value, if any.
    pub(super) fn terms(&self, value: ValueId) -> Option<TensorSchema> {
        let device = self.plan.ir.device_of(value);
        let static_shape = self.plan.ir.value(value)?.tensors.static_shape;
        (device.is_some() || static_shape).then(|| TensorSchema {
            edge: self.plan.ir.value_name(value),
            device,
            static_shape,
        })
    }
}

#[cfg(not(feature = "cuda"))]
impl LoadSite<'_> {
    /// Does nothing: without devices, every tensor is where it is needed.
    pub(super) fn brought_on_the_way(
        &self,
        _: &LaneProgram,
        _: ValueId,
        _: Option<&mut Box<dyn AnyValue>>,
    ) -> Result<(), LoadError> {
        Ok(())
    }

    /// Returns no copies: without devices, every tensor is where it is needed.
    pub(super) fn brings(
        &self,
        _: &TaskIr,
        _: &ActorIr,
        _: &[ValueIx],
        _: &mut LaneValues,
    ) -> Result<Vec<BringRun>, LoadError> {
        Ok(Vec::new())
    }
}

#[cfg(feature = "cuda")]
mod wanted {
    use selvedge_channels::device::Gpu;
    use selvedge_channels::{Inlet, Local};
    use selvedge_core::{IdMap, LaneId};

    use super::*;
    use crate::ir::ArgIr;

    impl LoadSite<'_> {
        fn carries(&self, value: ValueId) -> bool {
            let value = self.plan.ir.value(value);
            value.is_some_and(|value| value.tensors.carried)
        }

        /// The device on which all readers of a lane need the tensors of a value; `None` if they need different
        /// devices, or a reader needs none.
        fn device_of(&self, program: &LaneProgram, value: ValueId) -> Option<u32> {
            let paths = &self.plan.tensor_paths;
            let first = paths.partition_point(|path| path.value < value);
            let of_value = paths.iter().skip(first).take_while(|path| path.value == value);
            let mut wanted = None;
            for path in of_value {
                let reader = path.reader.and_then(|reader| self.index.actors.get(&reader));
                let reader = reader.and_then(|index| self.plan.ir.actors.get(*index));
                let lane = reader.map_or(LaneId::DRIVER, |reader| reader.lane);
                if lane != program.address.lane {
                    continue;
                }
                let device = reader.and_then(|reader| reader.device)?;
                if *wanted.get_or_insert(device) != device {
                    return None;
                }
            }
            wanted
        }

        /// Makes the channel of a value copy its tensors to a device, if all readers on the lane need them on that one
        /// device.
        pub(in crate::load) fn brought_on_the_way(
            &self,
            program: &LaneProgram,
            value: ValueId,
            inlet: Option<&mut Box<dyn AnyValue>>,
        ) -> Result<(), LoadError> {
            if !self.carries(value) {
                return Ok(());
            }
            if let (Some(inlet), Some(device)) = (inlet, self.device_of(program, value)) {
                inlet.bring_to(&Gpu::open(device)?)?;
            }
            Ok(())
        }

        /// The copies that bring tensors to the device of a task's actor before the task computes, one per value.
        pub(in crate::load) fn brings(
            &self,
            task: &TaskIr,
            actor: &ActorIr,
            args: &[ValueIx],
            values: &mut LaneValues,
        ) -> Result<Vec<BringRun>, LoadError> {
            let (Some(device), None) = (actor.device, task.collective) else {
                return Ok(Vec::new());
            };
            let mut wanted: IdMap<ValueIx, (ValueId, u32)> = IdMap::new();
            for (arg, index) in task.args.iter().zip(args) {
                match arg {
                    ArgIr::Value(value) if self.carries(*value) => {
                        wanted.get_or_insert_with(*index, || (*value, 0)).1 += 1;
                    }
                    _ => {}
                }
            }
            if wanted.is_empty() {
                return Ok(Vec::new());
            }
            let gpu = Gpu::open(device)?;
            let bring = |(from, (value, reads)): (ValueIx, (ValueId, u32))| {
                let payload = self.payload(value)?;
                let into = values.push(payload.value(Inlet::Local(Local), reads)?);
                BringRun::new(payload, &gpu, from, into).map_err(LoadError::from)
            };
            wanted.into_iter().map(bring).collect()
        }
    }
}
