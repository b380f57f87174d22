use std::hint::spin_loop;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded};
use selvedge_channels::Wire;

use super::{Ends, Kind, to_each};
use crate::case::Case;

/// crossbeam-channel, bounded.
pub(crate) struct Crossbeam;

pub(crate) struct End<E> {
    end: E,
    spins: bool,
}

impl Kind for Crossbeam {
    type Sender<T: Wire> = Vec<End<Sender<T>>>;
    type Receiver<T: Wire> = End<Receiver<T>>;

    fn make<T: Wire>(room: usize, case: &Case) -> anyhow::Result<Ends<Self, T>> {
        let spins = case.spins();
        let pairs = (0..case.readers).map(|_| bounded(room));
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
