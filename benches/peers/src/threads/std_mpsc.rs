use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use selvedge_channels::Wire;

use super::either::{Queue, Received, Sent};

/// std::sync::mpsc, `sync_channel`.
pub(crate) struct Std;

impl Queue for Std {
    type Tx<T: Wire> = SyncSender<T>;
    type Rx<T: Wire> = Receiver<T>;

    fn make<T: Wire>(room: usize) -> (SyncSender<T>, Receiver<T>) {
        sync_channel(room)
    }

    fn try_send<T: Wire>(to: &SyncSender<T>, value: T) -> Sent<T> {
        match to.try_send(value) {
            Ok(()) => Sent::Done,
            Err(TrySendError::Full(back)) => Sent::Full(back),
            Err(TrySendError::Disconnected(_)) => Sent::Gone,
        }
    }

    fn send<T: Wire>(to: &SyncSender<T>, value: T) -> bool {
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
