//! The traits of a concrete type, found by method lookup.
//!
//! Generated code names the types of a method and does not know their traits, so it asks a [`PayloadProbe`]:
//! `(&&&&PayloadProbe::<T>::new()).payload_type()`. With all four traits in scope, method lookup takes the first of
//! [`WirePayload`], [`ShareablePayload`], [`CloneablePayload`] and [`MovablePayload`] that `T` has, because each is
//! implemented for one reference less than the one before (David Tolnay's "autoref specialization"). A type that has
//! none of them gets [`UnmovablePayload`], which takes the probe by value.

use std::marker::PhantomData;

use crate::kind::traits::Traits;
use crate::payload::{Payload, Wire};
use crate::port::payload_type::PayloadType;

/// A probe that tells the traits of a payload type. See the documentation of the module.
pub struct PayloadProbe<T>(PhantomData<fn() -> T>);

impl<T> Clone for PayloadProbe<T> {
    fn clone(&self) -> Self {
        *self
    }
}

// By value, so that a probe behind references can answer by value.
impl<T> Copy for PayloadProbe<T> {}

impl<T> PayloadProbe<T> {
    /// Creates a probe, which has no data.
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for PayloadProbe<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The answer of [`PayloadProbe`] for types that may cross processes.
pub trait WirePayload<T> {
    /// The traits of the type, for values in calls: no channel takes them.
    fn traits(&self) -> &'static Traits<T>;

    /// The type, with these traits.
    fn payload_type(&self) -> PayloadType;
}

impl<T: Wire> WirePayload<T> for &&&PayloadProbe<T> {
    fn traits(&self) -> &'static Traits<T> {
        const { &Traits::LETTER }
    }

    fn payload_type(&self) -> PayloadType {
        PayloadType::of::<T>()
    }
}

/// The answer of [`PayloadProbe`] for types that several threads may read.
pub trait ShareablePayload<T> {
    /// The type, with these traits.
    fn payload_type(&self) -> PayloadType;
}

impl<T: Payload + Clone + Sync> ShareablePayload<T> for &&PayloadProbe<T> {
    fn payload_type(&self) -> PayloadType {
        PayloadType::of_shared::<T>()
    }
}

/// The answer of [`PayloadProbe`] for types that can be cloned.
pub trait CloneablePayload<T> {
    /// The traits of the type, for values in calls: no channel takes them.
    fn traits(&self) -> &'static Traits<T>;

    /// The type, with these traits.
    fn payload_type(&self) -> PayloadType;
}

impl<T: Payload + Clone> CloneablePayload<T> for &PayloadProbe<T> {
    fn traits(&self) -> &'static Traits<T> {
        const { &Traits::COPIED }
    }

    fn payload_type(&self) -> PayloadType {
        PayloadType::of_cloned::<T>()
    }
}

/// The answer of [`PayloadProbe`] for types that can be moved to another thread.
pub trait MovablePayload<T> {
    /// The type, with these traits.
    fn payload_type(&self) -> PayloadType;
}

impl<T: Payload> MovablePayload<T> for PayloadProbe<T> {
    fn payload_type(&self) -> PayloadType {
        PayloadType::of_moved::<T>()
    }
}

/// The answer of [`PayloadProbe`] for all other types. A bound elsewhere refuses one that cannot even be moved; the answer here keeps
/// the probe from being a second error.
pub trait UnmovablePayload<T: 'static> {
    /// No traits: in calls, a type that can only be moved needs none.
    fn traits(self) -> &'static Traits<T>;
}

impl<T: 'static> UnmovablePayload<T> for PayloadProbe<T> {
    fn traits(self) -> &'static Traits<T> {
        const { &Traits::NONE }
    }
}

#[cfg(test)]
#[allow(clippy::needless_borrow)] // generated code, which does not know the type, writes every reference
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::Sender;

    use super::*;
    use crate::wait::doorbell::Doorbell;

    /// Whether the type can be cloned, shared and sent to another process.
    fn known(payload: PayloadType) -> [bool; 3] {
        [payload.is_clone(), payload.is_shared(), payload.is_wire()]
    }

    #[test]
    fn the_probe_finds_the_traits_of_a_type() {
        assert_eq!(
            known((&&&&PayloadProbe::<Vec<String>>::new()).payload_type()),
            [true; 3]
        );
        assert_eq!(
            known((&&&&PayloadProbe::<Sender<u8>>::new()).payload_type()),
            [true, true, false]
        );
        assert_eq!(
            known((&&&&PayloadProbe::<Option<Cell<Sender<u8>>>>::new()).payload_type()),
            [false; 3]
        );
        #[derive(Clone)]
        struct Lonely(std::marker::PhantomData<Cell<u8>>);
        assert_eq!(
            known((&&&&PayloadProbe::<Lonely>::new()).payload_type()),
            [true, false, false]
        );
        assert_eq!(
            known((&&&&PayloadProbe::<Box<dyn Fn() + Send>>::new()).payload_type()),
            [false; 3]
        );
        let of_values = (&&&&PayloadProbe::<(u32, String)>::new()).traits();
        assert!(of_values.clone.is_some() && of_values.codec.is_some());
        assert!(
            of_values.channel_codec.is_none() && (of_values.ring)(1, Doorbell::heap(), Vec::new()).is_err(),
            "values of calls go through no channel"
        );
        assert!((&&&&PayloadProbe::<Lonely>::new()).traits().clone.is_some());
        let of_rc = (&&&&PayloadProbe::<std::rc::Rc<u8>>::new()).traits();
        assert!(of_rc.clone.is_none() && !of_rc.is_shared && of_rc.codec.is_none());
    }

    #[test]
    fn generic_code_knows_the_traits_of_numbers_and_text() {
        fn moved<T: Payload>() -> [bool; 3] {
            known(PayloadType::of_moved::<T>())
        }
        assert_eq!(moved::<u32>(), [true; 3]);
        assert_eq!(moved::<f64>(), [true; 3]);
        assert_eq!(moved::<String>(), [true; 3]);
        assert_eq!(moved::<Sender<u8>>(), [false; 3]);
    }

    #[test]
    fn a_type_is_itself_whatever_is_known_of_it() {
        struct Own;
        assert_eq!(PayloadType::of_moved::<Own>(), PayloadType::of_moved::<Own>());
        assert_eq!(PayloadType::of::<u8>(), PayloadType::of_moved::<u8>());
    }
}
