//! Mailboxes of lanes: an unbounded queue, a condition variable for an idle lane, and a doorbell for a lane that runs a
//! program.
//!
//! The queue is no channel of a library: a lane's program asks with one load whether a message waits, a message wakes
//! either an idle lane or a doorbell, and a closed mailbox returns the message. A channel beside a flag would keep the
//! lock that these need, for the flag and the queue change together.
//!
//! Invariants:
//! - `MAIL-1`: every push sets `pending`, under the queue's lock, and only a pop that empties the queue, or `close`,
//!   clears it. So a lane that reads `false` has seen every message pushed before.
//! - `MAIL-2`: a push sets `pending` before it looks for a doorbell, and a lane sets its doorbell before it looks at
//!   `pending`. The doorbell has a lock, so at least one side sees the other, and no call waits without a wake-up.
//! - `MAIL-3`: after `close` no message is queued. A message that is pushed is returned; a message that was queued is
//!   dropped, which breaks its promise.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use selvedge_channels::Doorbell;

use crate::call::request::ActorCall;
use crate::cell::Blueprint;
use crate::cell::async_driver::AsyncDriver;
use crate::failure::Failure;
use crate::id::{ActorId, FlightId};
use crate::lane::program::Program;

pub(crate) type CreateReply = Box<dyn FnOnce(Result<(), Failure>) + Send>;

/// A callback for the end of a program, with the text of the panic if the program panicked. It is also called if the
/// program is dropped before it began, because the lane has ended.
pub(crate) struct ProgramEnd(Option<Box<dyn FnOnce(Option<String>) + Send>>);

impl ProgramEnd {
    pub(crate) fn new(tell: impl FnOnce(Option<String>) + Send + 'static) -> Self {
        ProgramEnd(Some(Box::new(tell)))
    }

    pub(crate) fn tell(mut self, panic: Option<String>) {
        if let Some(tell) = self.0.take() {
            tell(panic);
        }
    }
}

impl Drop for ProgramEnd {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell(Some("the lane has ended".to_owned()));
        }
    }
}

pub(crate) enum LaneMessage {
    Create(Blueprint, CreateReply),
    Remove(ActorId),
    Call(ActorCall),
    /// Polls a flight, whose waker was woken.
    Wake(FlightId),
    /// Begins what waits for the methods of an actor that were in flight.
    Admit(ActorId),
    Run(Box<dyn Program>, ProgramEnd),
    Stop,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<LaneMessage>,
    closed: bool,
}

#[derive(Default)]
pub(crate) struct Mailbox {
    queue: Mutex<Queue>,
    arrived: Condvar,
    pending: AtomicBool,
    bell: Mutex<Option<Doorbell>>,
    /// The driver of the async methods of the program that runs.
    driver: Mutex<Option<AsyncDriver>>,
}

impl Mailbox {
    /// Queues a message and wakes the lane; returns the message if the mailbox is closed.
    pub(crate) fn push(&self, message: LaneMessage) -> Result<(), LaneMessage> {
        {
            let mut queue = self.queue.lock();
            if queue.closed {
                return Err(message);
            }
            queue.messages.push_back(message);
            // SYNC mail-pending, release side: pairs with the load in `is_pending`. The message is in the queue before
            // the store.
            self.pending.store(true, Ordering::Release);
        }
        self.arrived.notify_one();
        if let Some(bell) = self.bell.lock().as_ref() {
            bell.ring();
        }
        Ok(())
    }

    /// The number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.queue.lock().messages.len()
    }

    /// Takes the next message, if there is one.
    pub(crate) fn try_pop(&self) -> Option<LaneMessage> {
        self.pop(&mut self.queue.lock())
    }

    /// Waits for the next message and takes it; returns `None` once the mailbox is closed.
    pub(crate) fn wait_pop(&self) -> Option<LaneMessage> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(message) = self.pop(&mut queue) {
                return Some(message);
            }
            if queue.closed {
                return None;
            }
            self.arrived.wait(&mut queue);
        }
    }

    fn pop(&self, queue: &mut Queue) -> Option<LaneMessage> {
        let message = queue.messages.pop_front();
        if queue.messages.is_empty() {
            // Relaxed is enough: the queue's lock orders this store with every push (MAIL-1).
            self.pending.store(false, Ordering::Relaxed);
        }
        message
    }

    /// Whether a message waits. One load, because programs ask between two executions.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        // SYNC mail-pending, acquire side: pairs with the store in `push`.
        self.pending.load(Ordering::Acquire)
    }

    pub(crate) fn set_bell(&self, bell: Option<Doorbell>) {
        *self.bell.lock() = bell;
    }

    pub(crate) fn set_driver(&self, driver: Option<AsyncDriver>) {
        *self.driver.lock() = driver;
    }

    /// Makes the async methods of the lane's program ask again whether they are wanted: the one that the lane awaits, and
    /// those in flight.
    pub(crate) fn wake_async(&self) {
        let driver = self.driver.lock().clone();
        if let Some(driver) = driver {
            driver.look_again();
        }
        // A lane that waits for its inputs looks whether its flights are still wanted.
        if let Some(bell) = self.bell.lock().as_ref() {
            bell.ring();
        }
    }

    /// Whether the mailbox refuses messages.
    pub(crate) fn is_closed(&self) -> bool {
        self.queue.lock().closed
    }

    /// Refuses messages from now on, and drops those that wait, which breaks their promises.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut queue = self.queue.lock();
            queue.closed = true;
            // Relaxed: the queue's lock orders this store with every push (MAIL-1).
            self.pending.store(false, Ordering::Relaxed);
            std::mem::take(&mut queue.messages)
        };
        self.arrived.notify_all();
        if let Some(bell) = self.bell.lock().as_ref() {
            bell.ring();
        }
        // Dropped outside the lock, because a broken promise runs its waiter's waker.
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_1_pending_follows_the_queue() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.is_pending());
        mailbox.push(LaneMessage::Remove(ActorId(1))).ok().unwrap();
        mailbox.push(LaneMessage::Stop).ok().unwrap();
        assert!(mailbox.is_pending());
        assert!(mailbox.try_pop().is_some());
        assert!(mailbox.is_pending());
        assert!(mailbox.wait_pop().is_some());
        assert!(!mailbox.is_pending());
        assert!(mailbox.try_pop().is_none());
    }

    #[test]
    fn mail_2_a_bell_set_before_a_push_is_rung() {
        let mailbox = Mailbox::default();
        let bell = Doorbell::heap();
        mailbox.set_bell(Some(bell.clone()));
        mailbox.push(LaneMessage::Stop).ok().unwrap();
        assert!(bell.wait(&selvedge_channels::Waiting::Park, None, || mailbox.is_pending()));
    }

    #[test]
    fn mail_3_a_closed_mailbox_hands_messages_back() {
        let mailbox = Mailbox::default();
        mailbox.push(LaneMessage::Stop).ok().unwrap();
        mailbox.close();
        assert!(mailbox.push(LaneMessage::Stop).is_err());
        assert!(mailbox.wait_pop().is_none());
    }
}
