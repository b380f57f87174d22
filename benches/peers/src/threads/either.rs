//! Libraries whose ends offer a call that tries and a call that blocks: a spinning side repeats the former, any other
//! side uses the latter.

use std::hint::spin_loop;
use std::marker::PhantomData;

use selvedge_channels::Wire;

use super::{Ends, Kind, to_each};
use crate::case::Case;

/// The result of an attempt to send.
pub(crate) enum Sent<T> {
    Done,
    Full(T),
    Gone,
}

/// The result of an attempt to receive.
pub(crate) enum Received<T> {
    Value(T),
    Nothing,
    Gone,
}

/// The calls of a library.
pub(crate) trait Queue: 'static {
    type Tx<T: Wire>: Send;
    type Rx<T: Wire>: Send;

    fn make<T: Wire>(room: usize) -> (Self::Tx<T>, Self::Rx<T>);
    fn try_send<T: Wire>(to: &Self::Tx<T>, value: T) -> Sent<T>;
    /// Sends and blocks if necessary; returns `false` if the receiver is gone.
    fn send<T: Wire>(to: &Self::Tx<T>, value: T) -> bool;
    fn try_receive<T: Wire>(from: &mut Self::Rx<T>) -> Received<T>;
    /// Receives and blocks if necessary; returns `None` if the sender is gone.
    fn receive<T: Wire>(from: &mut Self::Rx<T>) -> Option<T>;
}

/// A [`Queue`] as a kind of channel.
pub(crate) struct Either<Q>(PhantomData<Q>);

pub(crate) struct End<E> {
    end: E,
    spins: bool,
}

impl<Q: Queue> Kind for Either<Q> {
    type Sender<T: Wire> = Vec<End<Q::Tx<T>>>;
    type Receiver<T: Wire> = End<Q::Rx<T>>;

    fn make<T: Wire>(room: usize, case: &Case) -> anyhow::Result<Ends<Self, T>> {
        let spins = case.spins();
        let pairs = (0..case.readers).map(|_| Q::make(room));
        Ok(pairs
            .map(|(sender, receiver)| (End { end: sender, spins }, End { end: receiver, spins }))
            .unzip())
    }

    fn send<T: Wire>(to: &mut Self::Sender<T>, value: T) -> anyhow::Result<()> {
        to_each(to, value, |End { end, spins }, mut value| {
            if !*spins {
                anyhow::ensure!(Q::send(end, value), "the receiver has gone");
                return Ok(());
            }
            loop {
                value = match Q::try_send(end, value) {
                    Sent::Done => return Ok(()),
                    Sent::Full(back) => back,
                    Sent::Gone => anyhow::bail!("the receiver has gone"),
                };
                spin_loop();
            }
        })
    }

    fn receive<T: Wire>(from: &mut Self::Receiver<T>) -> Option<T> {
        if !from.spins {
            return Q::receive(&mut from.end);
        }
        loop {
            match Q::try_receive(&mut from.end) {
                Received::Value(value) => return Some(value),
                Received::Gone => return None,
                Received::Nothing => spin_loop(),
            }
        }
    }
}
