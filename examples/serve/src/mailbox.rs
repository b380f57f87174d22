//! The text on its way from the batcher's thread to the connection of one client.
//!
//! A client may read more slowly than the model writes, or not at all. Its text is then joined into one waiting piece:
//! the writer never waits, no text is lost, and the length of the answer, which the model's positions bound, bounds the
//! piece.

use std::sync::Arc;
use std::task::{Context, Waker};

use parking_lot::Mutex;

#[derive(Default)]
struct State {
    text: String,
    waker: Option<Waker>,
}

/// The writing end.
pub struct Sender(Arc<Mutex<State>>);

/// The reading end.
pub struct Receiver(Arc<Mutex<State>>);

/// Creates both ends.
pub fn mailbox() -> (Sender, Receiver) {
    let state = Arc::default();
    (Sender(Arc::clone(&state)), Receiver(state))
}

impl Sender {
    /// Appends text; never blocks.
    pub fn push(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.text.push_str(text);
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Receiver {
    /// Returns the text written since the last call. If there is none, the task is woken by the next write.
    pub fn poll(&self, context: &Context<'_>) -> Option<String> {
        let mut state = self.0.lock();
        if state.text.is_empty() {
            state.waker = Some(context.waker().clone());
            return None;
        }
        Some(std::mem::take(&mut state.text))
    }
}
