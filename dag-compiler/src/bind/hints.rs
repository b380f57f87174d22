//! What a user says of the tensors in an edge.

use std::panic::Location;

use super::{Builder, current};
use crate::diagnostic::Code;
use crate::edge::{Edge, Source};
use crate::ir::{SourceLocation, TensorsIr, ValueId};
use crate::load::carries_tensors;

impl Builder {
    /// Notes what is said of the tensors in a value.
    fn say(&mut self, value: ValueId, hint: impl FnOnce(&mut TensorsIr)) {
        if let Some(value) = self.values.get_mut(value.index()) {
            hint(&mut value.tensors);
        }
    }

    /// Notes which values may carry tensors of a device. What is said of a tuple holds for its parts as well, of which nothing
    /// else is said.
    pub(super) fn note_tensors(&mut self) {
        for (value, payload) in self.values.iter_mut().zip(&self.payloads) {
            value.tensors.carried = carries_tensors(payload);
        }
        for ((whole, _), part) in &self.parts {
            let Some(said) = self.values.get(whole.index()).map(|whole| whole.tensors) else {
                continue;
            };
            if let Some(part) = self.values.get_mut(part.index()) {
                let tensors = &mut part.tensors;
                tensors.static_shape |= said.static_shape;
                tensors.device = tensors.device.or(said.device.filter(|_| tensors.carried));
            }
        }
    }
}

/// Says something of a value, of each where there are several.
fn say(source: &Source, location: &SourceLocation, hint: &impl Fn(&mut TensorsIr)) {
    match source {
        Source::Value { builder, value } => builder.borrow_mut().say(*value, hint),
        Source::List(members) => members.iter().for_each(|(member, _)| say(member, location, hint)),
        Source::Constant(_) => {
            if let Some(builder) = current() {
                let message = "a constant carries no tensors of a device";
                builder.borrow_mut().mistake(Code::BadDevice, message, location);
            }
        }
        // Reported where it is used.
        Source::Broken(_) => {}
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
        let location = SourceLocation::from(Location::caller());
        say(&self.source, &location, &|tensors| tensors.device = Some(index));
        self
    }

    /// Says that every value has as many tensors as the first, of the same types and shapes, on devices and in memory; another
    /// is an error of its execution ([`Cause::StaticShape`](crate::Cause::StaticShape)), and the graph goes on. Where there are no
    /// tensors it says nothing.
    #[track_caller]
    pub fn static_shape(self) -> Self {
        if !matches!(self.source, Source::Constant(_)) {
            let location = SourceLocation::from(Location::caller());
            say(&self.source, &location, &|tensors| tensors.static_shape = true);
        }
        self
    }
}
