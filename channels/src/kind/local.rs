//! Values within a lane: the port that reads the value keeps it, and the port that writes it puts it there. So there is
//! no channel in between, and nothing is ever received.

use super::traits::Traits;
use super::{Arrival, Source};
use crate::error::ChannelError;
use crate::fault::Fault;

/// The source of a value that its lane puts, or of a constant.
#[derive(Clone, Copy, Debug)]
pub struct Local;

impl<T> Source<T> for Local {
    type Erased = Local;

    fn typed(local: Local, _: &Traits<T>) -> Result<Self, ChannelError> {
        Ok(local)
    }

    fn position(&self) -> u64 {
        0
    }

    #[inline]
    fn peek(&self) -> bool {
        true
    }

    fn try_receive(&mut self) -> bool {
        false
    }

    fn receive(&mut self) -> Result<Arrival, ChannelError> {
        Ok(Arrival::Nothing)
    }

    fn fault(&self) -> Option<Fault> {
        None
    }

    fn get(&self) -> Result<&T, ChannelError> {
        Err(ChannelError::NoValue)
    }

    fn copy(&self) -> Result<T, ChannelError> {
        Err(ChannelError::NoValue)
    }

    fn take(&mut self) -> Result<T, ChannelError> {
        Err(ChannelError::NoValue)
    }

    fn release(&mut self) -> Result<(), ChannelError> {
        Ok(())
    }

    fn set_quiet(&mut self, _quiet: bool) {}
}
