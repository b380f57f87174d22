use std::hint::spin_loop;

use selvedge_channels::Wire;
use tokio::sync::mpsc::error::{TryRecvError, TrySendError};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Ends, Kind, to_each};
use crate::case::Case;

/// tokio::sync::mpsc on plain threads.
pub(crate) struct Tokio;

pub(crate) struct End<E> {
    end: E,
    spins: bool,
}

impl Kind for Tokio {
    type Sender<T: Wire> = Vec<End<Sender<T>>>;
    type Receiver<T: Wire> = End<Receiver<T>>;

    fn make<T: Wire>(room: usize, case: &Case) -> anyhow::Result<Ends<Self, T>> {
        let spins = case.spins();
        let pairs = (0..case.readers).map(|_| channel(room));
        Ok(pairs
            .map(|(sender, receiver)| (End { end: sender, spins }, End { end: receiver, spins }))
            .unzip())
    }

    fn send<T: Wire>(to: &mut Self::Sender<T>, value: T) -> anyhow::Result<()> {
        to_each(to, value, |End { end, spins }, mut value| {
            if !*spins {
                return end
                    .blocking_send(value)
                    .map_err(|_| anyhow::anyhow!("the receiver has gone"));
            }
            loop {
                value = match end.try_send(value) {
                    Ok(()) => return Ok(()),
                    Err(TrySendError::Full(back)) => back,
                    Err(TrySendError::Closed(_)) => anyhow::bail!("the receiver has gone"),
                };
                spin_loop();
            }
        })
    }

    fn receive<T: Wire>(from: &mut Self::Receiver<T>) -> Option<T> {
        if !from.spins {
            return from.end.blocking_recv();
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
