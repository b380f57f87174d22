use std::hint::spin_loop;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use selvedge_channels::Wire;

use super::{Ends, Kind, to_each};
use crate::case::Case;

/// std::sync::mpsc, `sync_channel`.
pub(crate) struct Std;

pub(crate) struct End<E> {
    end: E,
    spins: bool,
}

impl Kind for Std {
    type Sender<T: Wire> = Vec<End<SyncSender<T>>>;
    type Receiver<T: Wire> = End<Receiver<T>>;

    fn make<T: Wire>(room: usize, case: &Case) -> anyhow::Result<Ends<Self, T>> {
        let spins = case.spins();
        let pairs = (0..case.readers).map(|_| sync_channel(room));
        Ok(pairs
            .map(|(sender, receiver)| (End { end: sender, spins }, End { end: receiver, spins }))
            .unzip())
    }

    fn send<T: Wire>(to: &mut Self::Sender<T>, value: T) -> anyhow::Result<()> {
        to_each(to, value, |End { end, spins }, mut value| {
            if !*spins {
                return end
                    .send(value)
                    .map_err(|_| anyhow::anyhow!("the receiver has gone"));
            }
            loop {
                value = match end.try_send(value) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Full(back)) => back,
                    Err(TrySendError::Disconnected(_)) => anyhow::bail!("the receiver has gone"),
                };
                spin_loop();
            }
        })
    }

    fn receive<T: Wire>(from: &mut Self::Receiver<T>) -> Option<T> {
        if !from.spins {
            return from.end.recv().ok();
        }
        loop {
            match from.end.try_recv() {
                Ok(value) => return Some(value),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => spin_loop(),
            }
        }
    }
}
