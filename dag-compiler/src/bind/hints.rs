//! Hints: statements of the user about the tensors in an edge and about the channels that carry it.

use std::panic::Location;

use super::builder::{Builder, current};
use crate::api::options::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, SLOTS_MAX, beyond};
use crate::bind::edge::{Edge, Source};
use crate::diagnostic::Code;
use crate::ir::{ValueId, ValueIr};
use crate::load::carries_tensors;

impl Builder {
    /// Applies a hint to a value.
    fn say(&mut self, value: ValueId, hint: impl FnOnce(&mut ValueIr)) {
        if let Some(value) = self.values.get_mut(value.index()) {
            hint(value);
        }
    }

    /// Marks the values whose types may carry device tensors. A hint on a tuple also applies to each of its parts that
    /// has no such hint of its own.
    pub(super) fn note_hints(&mut self) {
        for (value, payload) in self.values.iter_mut().zip(&self.payloads) {
            value.tensors.carried = carries_tensors(payload);
        }
        for ((whole, _), part) in &self.parts {
            let whole = self.values.get(whole.index());
            let Some((said, buffer)) = whole.map(|whole| (whole.tensors, whole.buffer)) else {
                continue;
            };
            if let Some(part) = self.values.get_mut(part.index()) {
                part.buffer.slots = part.buffer.slots.or(buffer.slots);
                part.buffer.slot_bytes = part.buffer.slot_bytes.or(buffer.slot_bytes);
                let tensors = &mut part.tensors;
                tensors.static_shape |= said.static_shape;
                tensors.device = tensors.device.or(said.device.filter(|_| tensors.carried));
            }
        }
    }
}

/// Applies a hint to a value, or to each value of a list. A constant does not travel through a channel, so no hint
/// applies to it.
fn say(source: &Source, hint: &impl Fn(&mut ValueIr)) {
    match source {
        Source::Value { builder, value } => builder.borrow_mut().say(*value, hint),
        Source::List(members) => members.iter().for_each(|(member, _)| say(member, hint)),
        // A broken edge is reported where it is used.
        Source::Constant(_) | Source::Broken(_) => {}
    }
}

fn has_constant(source: &Source) -> bool {
    match source {
        Source::Constant(_) => true,
        Source::List(members) => members.iter().any(|(member, _)| has_constant(member)),
        Source::Value { .. } | Source::Broken(_) => false,
    }
}

/// Reports a mistake to the graph that is being bound on this thread.
fn mistake(code: Code, message: &str, location: &'static Location<'static>) {
    if let Some(builder) = current() {
        builder.borrow_mut().mistake(code, message, &location.into());
    }
}

impl<T> Edge<T> {
    /// Declares that the tensors in the edge lie on device `index`, as the process of the edge's maker numbers devices.
    /// A value with a tensor on another device is an error of its execution
    /// ([`Cause::WrongDevice`](crate::Cause::WrongDevice)). Spawning an actor with `.on_device(index)` declares the same
    /// for all edges that the actor makes, and also brings the tensors that the actor reads to the device.
    ///
    /// The compiler refuses an edge whose type carries no device tensors, and an edge of an actor on another device
    /// (D0119).
    #[track_caller]
    pub fn on_device(self, index: u32) -> Self {
        if has_constant(&self.source) {
            let message = "a constant carries no tensors of a device";
            mistake(Code::BadDevice, message, Location::caller());
        }
        say(&self.source, &|value| value.tensors.device = Some(index));
        self
    }

    /// Declares that every value has as many tensors as the first value, of the same types and shapes, on devices and
    /// in host memory. A value with other tensors is an error of its execution
    /// ([`Cause::StaticShape`](crate::Cause::StaticShape)), and the graph goes on. The hint has no effect on values
    /// without tensors.
    pub fn static_shape(self) -> Self {
        say(&self.source, &|value| value.tensors.static_shape = true);
        self
    }

    /// Sets the number of slots of each channel of this value, which is the number of messages that may be in flight.
    /// The number replaces [`Options::slots`](crate::Options::slots), even [`Slots::Auto`](crate::Slots::Auto). The
    /// number belongs to the value, so it applies to every clone of the edge. A channel within one lane always has one
    /// slot. From 1 to 2^20 (D0108).
    #[track_caller]
    pub fn with_slots(self, slots: usize) -> Self {
        match beyond(("slots", slots, 1, SLOTS_MAX)) {
            Some(message) => mistake(Code::InvalidOption, &message, Location::caller()),
            None => say(&self.source, &|value| value.buffer.slots = Some(slots as u32)),
        }
        self
    }

    /// Sets the bytes of a slot of this value's channel between processes, before the channel grows. The size replaces
    /// [`Options::buffer_bytes`](crate::Options::buffer_bytes). If the size of most values is known, choose that size.
    /// The setting applies to every clone of the edge. From 1000 to 2^40 (D0108).
    #[track_caller]
    pub fn with_buffer_bytes(self, bytes: usize) -> Self {
        match beyond(("buffer_bytes", bytes, BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)) {
            Some(message) => mistake(Code::InvalidOption, &message, Location::caller()),
            None => say(&self.source, &|value| {
                value.buffer.slot_bytes = Some(bytes as u64)
            }),
        }
        self
    }
}
