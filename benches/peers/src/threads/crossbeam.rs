use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};
use selvedge_channels::Wire;

use super::either::{Queue, Received, Sent};

/// crossbeam-channel, bounded.
pub(crate) struct Crossbeam;

impl Queue for Crossbeam {
    type Tx<T: Wire> = Sender<T>;
    type Rx<T: Wire> = Receiver<T>;

    fn make<T: Wire>(room: usize) -> (Sender<T>, Receiver<T>) {
        bounded(room)
    }

    fn try_send<T: Wire>(to: &Sender<T>, value: T) -> Sent<T> {
        match to.try_send(value) {
            Ok(()) => Sent::Done,
            Err(TrySendError::Full(back)) => Sent::Full(back),
            Err(TrySendError::Disconnected(_)) => Sent::Gone,
        }
    }

    fn send<T: Wire>(to: &Sender<T>, value: T) -> bool {
        to.send(value).is_ok()
    }

    fn try_receive<T: Wire>(from: &mut Receiver<T>) -> Received<T> {
        match from.try_recv() {
            Ok(value) => Received::Value(value),
            Err(TryRecvError::Empty) => Received::Nothing,
            Err(TryRecvError::Disconnected) => Received::Gone,
        }
    }

    fn receive<T: Wire>(from: &mut Receiver<T>) -> Option<T> {
        from.recv().ok()
    }
}
