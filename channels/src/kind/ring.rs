//! Channels within a process: values move by pointer through a [`ring`](mod@crate::ring).

use super::traits::Traits;
use super::{Arrival, ErasedEnd, Sink, Source, downcast};
use crate::error::ChannelError;
use crate::fault::{Fault, Message};
use crate::payload::Payload;
use crate::ring::{RingReader, RingWriter};

impl<T: Payload> Source<T> for RingReader<T> {
    type Erased = ErasedEnd;

    fn typed(erased: ErasedEnd, _: &Traits<T>) -> Result<Self, ChannelError> {
        downcast(erased)
    }

    #[inline]
    fn position(&self) -> u64 {
        self.position()
    }

    #[inline]
    fn peek(&self) -> bool {
        self.ready()
    }

    #[inline]
    fn try_receive(&mut self) -> bool {
        matches!(self.current(), Some(Ok(_)))
    }

    #[inline]
    fn receive(&mut self) -> Result<Arrival, ChannelError> {
        match self.current() {
            Some(Ok(_)) => Ok(Arrival::Value),
            Some(Err(_)) => Ok(Arrival::Fault),
            None if self.is_closed() => Err(ChannelError::Closed),
            None => Ok(Arrival::Nothing),
        }
    }

    fn fault(&self) -> Option<Fault> {
        self.current()?.as_ref().err().cloned()
    }

    #[inline]
    fn get(&self) -> Result<&T, ChannelError> {
        match self.current() {
            Some(Ok(value)) => Ok(value),
            _ => Err(ChannelError::NoValue),
        }
    }

    fn copy(&self) -> Result<T, ChannelError> {
        self.copy()
    }

    #[inline]
    fn moves(&self) -> bool {
        self.is_sole()
    }

    #[inline]
    fn try_take(&mut self) -> Option<T> {
        self.take_value()
    }

    fn take(&mut self) -> Result<T, ChannelError> {
        Source::get(self)?;
        self.take().and_then(Message::ok).ok_or(ChannelError::NoValue)
    }

    #[inline]
    fn release(&mut self) -> Result<(), ChannelError> {
        self.release();
        Ok(())
    }

    fn set_quiet(&mut self, quiet: bool) {
        self.set_quiet(quiet);
    }

    fn never_waited_for(&mut self) {
        self.set_quiet(true);
    }
}

impl<T: Payload> Sink<T> for RingWriter<T> {
    type Erased = ErasedEnd;

    fn typed(erased: ErasedEnd, _: &Traits<T>) -> Result<Self, ChannelError> {
        downcast(erased)
    }

    #[inline]
    fn position(&self) -> u64 {
        self.position()
    }

    #[inline]
    fn encodes(&self) -> bool {
        false
    }

    #[inline]
    fn has_space(&mut self) -> Result<bool, ChannelError> {
        match self.has_space() {
            false if self.is_closed() => Err(ChannelError::Closed),
            has_space => Ok(has_space),
        }
    }

    #[inline]
    fn try_put(&mut self, value: T) -> Option<T> {
        self.try_put(value)
    }

    #[inline]
    fn put(&mut self, message: &mut Option<Message<T>>) -> Result<bool, ChannelError> {
        let space = Sink::has_space(self)?;
        if space && let Some(message) = message.take() {
            self.write(message);
        }
        Ok(space)
    }

    fn put_ref(&mut self, message: Result<&T, &Fault>) -> Result<bool, ChannelError> {
        self.put(&mut Some(self.copy(message)?))
    }

    fn is_drained(&mut self) -> Result<bool, ChannelError> {
        Ok(self.is_drained())
    }

    fn set_quiet(&mut self, quiet: bool) {
        self.set_quiet(quiet);
    }

    fn laggards(&self) -> String {
        self.laggards()
    }

    fn close(&mut self) {
        self.close();
    }
}
