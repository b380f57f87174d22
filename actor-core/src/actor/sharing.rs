//! Sharing: which methods of an actor may run beside each other.

use std::future::Future;
use std::pin::Pin;

use crate::actor::arguments::{Arguments, Returned};
use crate::cell::frame::Frame;
use crate::cell::state::ActorState;
use crate::failure::Failure;

/// The future of a method. It owns its arguments and borrows its actor by a [`Loan`](crate::Loan), so it stays on the
/// actor's thread.
pub type MethodFuture = Pin<Box<dyn Future<Output = Result<Returned, Failure>>>>;

/// The use of the actor's state by a method while it runs. Decides which methods may run beside it.
#[derive(Clone, Copy, Debug)]
pub enum Sharing {
    /// A method with `&mut self` runs alone.
    Exclusive,
    /// A method with `&self` that is not async runs beside those in flight.
    Shared,
    /// An `async fn` with `&self` runs beside others of its actor, if the actor's concurrency is more than 1.
    Overlapping(Overlap),
}

/// The functions with which an `async fn` with `&self` runs beside others.
#[derive(Clone, Copy, Debug)]
pub struct Overlap {
    /// Takes the arguments out of a frame: moved, or cloned if others read them too.
    pub take: fn(&mut Frame<'_>) -> Result<Arguments, Box<Failure>>,
    /// Makes the future. Its result has the form of the arguments.
    pub begin: fn(&mut ActorState, Arguments) -> Result<MethodFuture, Failure>,
    /// Hands the result over to the destinations of a frame.
    pub finish: fn(&mut Frame<'_>, Returned) -> Result<(), Box<Failure>>,
}
