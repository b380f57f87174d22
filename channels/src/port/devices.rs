//! Devices as guests of ports: the only file outside `device/` that names them. Tensors that lie on a device travel out of
//! band, as companions of channels. Without the feature `cuda`, no type has such tensors.

#[cfg(not(feature = "cuda"))]
pub(super) use absent::{
    DeviceOperations, Devices, accompany_sink, accompany_source, explained, is_of_tensors,
};
#[cfg(feature = "cuda")]
pub(super) use present::{
    DeviceOperations, Devices, accompany_sink, accompany_source, explained, is_of_tensors,
};

#[cfg(feature = "cuda")]
mod present {
    use std::any::{Any, type_name};

    use crate::device::{Crossing, Gpu, OutOfBandReader, OutOfBandValue, OutOfBandWriter};
    pub(in crate::port) use crate::device::{explained, is_of_tensors};
    use crate::error::ChannelError;
    use crate::kind::companion::{Accompanied, SinkCompanion, SourceCompanion};
    use crate::kind::{AnySink, AnySource, Sink, Source};
    use crate::payload::{Payload, Wire};
    use crate::port::payload_type::{PayloadType, Typed};
    use crate::port::value::AnyValue;
    use crate::shared::{SharedReader, SharedWriter};

    /// The ways of a type's values to and from devices.
    pub(in crate::port) struct Devices<T> {
        /// Makes the companion of a reading end, if the values may carry device tensors.
        source: Option<SourceFn<T>>,
        /// Makes the companion of a writing end, if the values may carry device tensors.
        sink: Option<SinkFn<T>>,
        /// Copies a value with its tensors to the device of a crossing, if they are elsewhere.
        bring: Option<BringFn<T>>,
    }

    type SourceFn<T> = fn(u32) -> Box<dyn SourceCompanion<T>>;
    type SinkFn<T> = fn() -> Box<dyn SinkCompanion<T>>;
    type BringFn<T> = fn(&mut Crossing, &T) -> Result<Option<T>, ChannelError>;

    impl<T> Devices<T> {
        pub(in crate::port) const NONE: Self = Devices {
            source: None,
            sink: None,
            bring: None,
        };

        /// Whether the values may carry device tensors to other processes.
        pub(in crate::port) fn carries(&self) -> bool {
            self.sink.is_some()
        }
    }

    impl<T: Wire> Devices<T> {
        pub(in crate::port) const OF_WIRE: Self = Devices {
            bring: Some(Crossing::bring_value::<T>),
            ..Devices::NONE
        };

        pub(in crate::port) const OF_TENSORS: Self = Devices {
            source: Some(|reader| Box::new(OutOfBandReader::new(reader))),
            sink: Some(|| Box::<OutOfBandWriter>::default()),
            ..Devices::OF_WIRE
        };
    }

    /// Prepares a source to receive tensors of devices out of band, if its values may carry any.
    pub(in crate::port) fn accompany_source<T: Payload>(source: &mut AnySource<T>, devices: &Devices<T>) {
        if let Some(make) = devices.source {
            source.accompany(make);
        }
    }

    /// Prepares a sink to send tensors of devices out of band, if its values may carry any.
    pub(in crate::port) fn accompany_sink<T: Payload>(sink: &mut AnySink<T>, devices: &Devices<T>) {
        if let Some(make) = devices.sink {
            sink.accompany(make);
        }
    }

    impl<T: Wire> SourceCompanion<T> for OutOfBandReader {
        fn receive(
            &mut self,
            _: &SharedReader,
            bytes: &[u8],
        ) -> Result<Box<dyn Accompanied<T>>, ChannelError> {
            Ok(Box::new(self.read::<T>(bytes)?))
        }

        fn as_any(&mut self) -> &mut dyn Any {
            self
        }
    }

    impl<T: Wire> Accompanied<T> for OutOfBandValue<T> {
        fn get(&self, _bytes: &[u8]) -> Result<&T, ChannelError> {
            self.get()
        }

        fn copy(&self, _bytes: &[u8]) -> Result<T, ChannelError> {
            self.get().cloned()
        }

        fn take(&mut self, _bytes: &[u8]) -> Result<T, ChannelError> {
            self.take()
        }
    }

    impl<T: Wire> SinkCompanion<T> for OutOfBandWriter {
        fn put(&mut self, channel: &mut SharedWriter, value: &T) -> Result<bool, ChannelError> {
            self.write(channel, value)
        }
    }

    /// The operations of a payload type on devices.
    pub(in crate::port) trait DeviceOperations {
        fn bring(
            &self,
            crossing: &mut Crossing,
            from: &dyn AnyValue,
            into: &mut dyn AnyValue,
            execution: u64,
        ) -> Result<bool, ChannelError>;
    }

    impl<T: Payload> DeviceOperations for Typed<T> {
        fn bring(
            &self,
            crossing: &mut Crossing,
            from: &dyn AnyValue,
            into: &mut dyn AnyValue,
            execution: u64,
        ) -> Result<bool, ChannelError> {
            let wrong = ChannelError::WrongType {
                expected: type_name::<T>(),
                found: "a value of another type",
            };
            let (Some(from), Some(into)) = (from.typed::<T>(), into.typed_mut::<T>()) else {
                return Err(wrong);
            };
            let Some(bring) = self.devices.bring else {
                return Ok(false);
            };
            match bring(crossing, from.get()?)? {
                None => Ok(false),
                Some(brought) => {
                    into.release()?;
                    into.put(execution, Ok(brought)).map(|()| true)
                }
            }
        }
    }

    impl PayloadType {
        /// The type `T`, whose values may carry device tensors: between processes these travel out of band. Device
        /// tensors, and lists of them, are recognised without this call.
        pub fn with_tensors<T: Wire>() -> Self {
            PayloadType::of_guests::<T>()
        }

        /// Puts a copy of the value in `from` into the local value `into`, with its tensors copied to the device of
        /// `crossing`. Returns `false`, with nothing changed, if all its tensors are on that device already.
        ///
        /// # Errors
        /// [`ChannelError::Device`], [`ChannelError::WrongType`], and the errors of [`Value::get`](crate::Value::get).
        pub fn bring(
            &self,
            crossing: &mut Crossing,
            from: &dyn AnyValue,
            into: &mut dyn AnyValue,
            execution: u64,
        ) -> Result<bool, ChannelError> {
            self.0.bring(crossing, from, into, execution)
        }
    }

    impl dyn AnyValue + '_ {
        /// Makes device tensors from other processes arrive on this device: they are copied to it as they are received.
        ///
        /// # Errors
        /// [`ChannelError::Device`].
        pub fn bring_to(&mut self, gpu: &Gpu) -> Result<(), ChannelError> {
            match self.companion().and_then(|companion| companion.downcast_mut()) {
                Some(reader) => OutOfBandReader::bring_to(reader, gpu),
                None => Ok(()),
            }
        }
    }
}

#[cfg(not(feature = "cuda"))]
mod absent {
    use std::marker::PhantomData;

    use crate::error::ChannelError;
    use crate::kind::{AnySink, AnySource};

    pub(in crate::port) trait DeviceOperations {}

    impl<T> DeviceOperations for T {}

    /// The ways of a type's values to and from devices: there are none.
    pub(in crate::port) struct Devices<T>(PhantomData<fn() -> T>);

    impl<T> Devices<T> {
        pub(in crate::port) const NONE: Self = Devices(PhantomData);
        pub(in crate::port) const OF_WIRE: Self = Devices(PhantomData);
        pub(in crate::port) const OF_TENSORS: Self = Devices(PhantomData);

        #[expect(clippy::unused_self, reason = "the signature is that of the feature `cuda`")]
        pub(in crate::port) fn carries(&self) -> bool {
            false
        }
    }

    pub(in crate::port) fn accompany_source<T>(_: &mut AnySource<T>, _: &Devices<T>) {}

    pub(in crate::port) fn accompany_sink<T>(_: &mut AnySink<T>, _: &Devices<T>) {}

    pub(in crate::port) fn explained(error: ChannelError) -> ChannelError {
        error
    }

    #[expect(
        clippy::extra_unused_type_parameters,
        reason = "the signature is that of the feature `cuda`"
    )]
    pub(in crate::port) fn is_of_tensors<T>() -> bool {
        false
    }
}
