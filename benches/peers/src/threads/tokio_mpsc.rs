use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use selvedge_channels::Wire;

use super::either::{Queue, Received, Sent};

/// tokio::sync::mpsc on plain threads.
pub(crate) struct Tokio;

impl Queue for Tokio {
    type Tx<T: Wire> = Sender<T>;
    type Rx<T: Wire> = Receiver<T>;

    fn make<T: Wire>(room: usize) -> (Sender<T>, Receiver<T>) {
        channel(room)
    }

    fn try_send<T: Wire>(to: &Sender<T>, value: T) -> Sent<T> {
        match to.try_send(value) {
            Ok(()) => Sent::Done,
            Err(TrySendError::Full(back)) => Sent::Full(back),
            Err(TrySendError::Closed(_)) => Sent::Gone,
        }
    }

    fn send<T: Wire>(to: &Sender<T>, value: T) -> bool {
        to.blocking_send(value).is_ok()
    }

    fn try_receive<T: Wire>(from: &mut Receiver<T>) -> Received<T> {
        match from.try_recv() {
            Ok(value) => Received::Value(value),
            Err(TryRecvError::Empty) => Received::Nothing,
            Err(TryRecvError::Disconnected) => Received::Gone,
        }
    }

    fn receive<T: Wire>(from: &mut Receiver<T>) -> Option<T> {
        from.blocking_recv()
    }
}
