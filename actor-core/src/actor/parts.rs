//! Tuple results: each part is a value of its own, beside the whole.
//!
//! Generated code does not know whether a result type is a tuple (the type may be an alias), so it asks [`TypeProbe`]:
//! `(&&&TypeProbe::<R>::of()).types()`. With all three traits in scope, method lookup finds [`WireTupleResult`] if
//! `R: WireParts`, else [`TupleResult`] if `R: Parts`, and else [`PlainResult`] (David Tolnay's "autoref specialization").

use selvedge_channels::{AnyOutlet, Payload, PayloadType, Wire, dispose};

use crate::actor::probe::TypeProbe;
use crate::cell::frame::stage;
use crate::{Failure, Frame};

/// A tuple of two to eight values that can travel one by one.
pub trait Parts: Payload {
    /// The types of the parts, in order, of which nothing is known but that they can be moved.
    fn types() -> Vec<PayloadType>;

    /// Stages each part into its outlet; parts without an outlet are dropped.
    ///
    /// # Errors
    /// [`Failure::Channel`] if an outlet is of another type.
    fn stage(self, parts: &mut [Option<Box<dyn AnyOutlet>>]) -> Result<(), Box<Failure>>;
}

/// A tuple whose parts may cross processes.
pub trait WireParts: Parts {
    /// The types of the parts, in order.
    fn wire_types() -> Vec<PayloadType>;
}

macro_rules! parts {
    ($($name:ident)+) => {
        impl<$($name: Wire),+> WireParts for ($($name,)+) {
            fn wire_types() -> Vec<PayloadType> {
                vec![$(PayloadType::of::<$name>()),+]
            }
        }

        impl<$($name: Payload),+> Parts for ($($name,)+) {
            fn types() -> Vec<PayloadType> {
                vec![$(PayloadType::of_moved::<$name>()),+]
            }

            #[allow(non_snake_case, reason = "the type's name names the value")]
            fn stage(self, parts: &mut [Option<Box<dyn AnyOutlet>>]) -> Result<(), Box<Failure>> {
                let ($($name,)+) = self;
                let mut parts = parts.iter_mut();
                $(match parts.next() {
                    Some(Some(part)) => stage(part.as_mut(), $name)?,
                    _ => dispose($name),
                })+
                Ok(())
            }
        }
    };
}

parts!(A B);
parts!(A B C);
parts!(A B C D);
parts!(A B C D E);
parts!(A B C D E F);
parts!(A B C D E F G);
parts!(A B C D E F G H);

/// The answer of [`TypeProbe`] for tuples whose parts may cross processes.
pub trait WireTupleResult<T> {
    /// The types of the parts.
    fn types(&self) -> Vec<PayloadType>;
}

impl<T: WireParts> WireTupleResult<T> for &&TypeProbe<T> {
    fn types(&self) -> Vec<PayloadType> {
        T::wire_types()
    }
}

/// The answers of [`TypeProbe`] for tuples.
pub trait TupleResult<T> {
    /// The types of the parts.
    fn types(&self) -> Vec<PayloadType>;

    /// Hands over a result by [`Frame::finish_parts`].
    ///
    /// # Errors
    /// The errors of [`Frame::finish_parts`].
    fn finish(&self, frame: &mut Frame<'_>, value: T) -> Result<(), Box<Failure>>;
}

impl<T: Parts> TupleResult<T> for &TypeProbe<T> {
    fn types(&self) -> Vec<PayloadType> {
        T::types()
    }

    fn finish(&self, frame: &mut Frame<'_>, value: T) -> Result<(), Box<Failure>> {
        frame.finish_parts(value)
    }
}

/// The answers of [`TypeProbe`] for all other types.
pub trait PlainResult<T> {
    /// Returns an empty list: the type has no parts.
    fn types(&self) -> Vec<PayloadType>;

    /// Hands over a result by [`Frame::finish`].
    ///
    /// # Errors
    /// The errors of [`Frame::finish`].
    fn finish(&self, frame: &mut Frame<'_>, value: T) -> Result<(), Box<Failure>>;
}

impl<T: Payload> PlainResult<T> for TypeProbe<T> {
    fn types(&self) -> Vec<PayloadType> {
        Vec::new()
    }

    fn finish(&self, frame: &mut Frame<'_>, value: T) -> Result<(), Box<Failure>> {
        frame.finish(value)
    }
}

#[cfg(test)]
#[allow(clippy::needless_borrow)] // generated code, which does not know the type, writes every reference
mod tests {
    use std::sync::mpsc::Sender;

    use super::*;

    #[test]
    fn the_probe_tells_tuples_from_plain_values() {
        assert_eq!((&&&TypeProbe::<u32>::of()).types(), Vec::new());
        assert_eq!((&&&TypeProbe::<Vec<(u8, u8)>>::of()).types(), Vec::new());
        let types = (&&&TypeProbe::<(u32, String)>::of()).types();
        assert_eq!(types, vec![PayloadType::of::<u32>(), PayloadType::of::<String>()]);
        assert!(types.iter().all(PayloadType::is_wire));
        let types = (&&&TypeProbe::<(u32, Sender<u8>)>::of()).types();
        assert_eq!(
            types,
            vec![PayloadType::of::<u32>(), PayloadType::of_moved::<Sender<u8>>()]
        );
    }
}
