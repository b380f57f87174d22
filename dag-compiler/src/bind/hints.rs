//! What a user says of the tensors in an edge, and of the channels that carry it.

use std::panic::Location;

use super::{Builder, current};
use crate::diagnostic::Code;
use crate::edge::{Edge, Source};
use crate::ir::{ValueId, ValueIr};
use crate::load::carries_tensors;
use crate::options::{BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, SLOTS_MAX, beyond};

impl Builder {
    /// Notes what is said of a value.
    fn say(&mut self, value: ValueId, hint: impl FnOnce(&mut ValueIr)) {
        if let Some(value) = self.values.get_mut(value.index()) {
            hint(value);
        }
    }

    /// Notes which values may carry tensors of a device. What is said of a tuple holds for its parts as well, of which nothing
    /// else is said.
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

/// Says something of a value, of each where there are several. A constant does not travel, so nothing holds for it.
fn say(source: &Source, hint: &impl Fn(&mut ValueIr)) {
    match source {
        Source::Value { builder, value } => builder.borrow_mut().say(*value, hint),
        Source::List(members) => members.iter().for_each(|(member, _)| say(member, hint)),
        // What is broken is reported where it is used.
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

/// Reports a mistake to the graph being bound on this thread.
fn mistake(code: Code, message: &str, location: &'static Location<'static>) {
    if let Some(builder) = current() {
        builder.borrow_mut().mistake(code, message, &location.into());
    }
}

impl<T> Edge<T> {
    /// Says that the tensors in it lie on device `index`, as the process of whoever makes it counts devices; a value that has
    /// one elsewhere is an error of its execution ([`Cause::Elsewhere`](crate::Cause::Elsewhere)). The same is said of all
    /// edges of an actor by spawning it `.on_device(index)`, which also has tensors brought there that it reads.
    ///
    /// An edge of a type that carries no tensors of a device, or of an actor on another one, is refused (D0119).
    #[track_caller]
    pub fn on_device(self, index: u32) -> Self {
        if has_constant(&self.source) {
            let message = "a constant carries no tensors of a device";
            mistake(Code::BadDevice, message, Location::caller());
        }
        say(&self.source, &|value| value.tensors.device = Some(index));
        self
    }

    /// Says that every value has as many tensors as the first, of the same types and shapes, on devices and in memory; another
    /// is an error of its execution ([`Cause::StaticShape`](crate::Cause::StaticShape)), and the graph goes on. Where there are no
    /// tensors it says nothing.
    pub fn static_shape(self) -> Self {
        say(&self.source, &|value| value.tensors.static_shape = true);
        self
    }

    /// Messages of each channel of this value that may be under way, in place of [`Options::slots`](crate::Options::slots), also
    /// where that is [`Slots::Auto`](crate::Slots::Auto). Holds for the value, so for every clone of the edge; what stays on one
    /// lane has no channel. From 1 to 2^20 (D0108).
    #[track_caller]
    pub fn with_slots(self, slots: usize) -> Self {
        match beyond(("slots", slots, 1, SLOTS_MAX)) {
            Some(message) => mistake(Code::InvalidOption, &message, Location::caller()),
            None => say(&self.source, &|value| value.buffer.slots = Some(slots as u32)),
        }
        self
    }

    /// Bytes of a slot of this value's channel between processes before it grows, in place of
    /// [`Options::buffer_bytes`](crate::Options::buffer_bytes): as many as most values take, where they are of a size that is
    /// known. Holds for every clone of the edge. From 1000 to 2^40 (D0108).
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
