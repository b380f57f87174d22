use std::hint::{black_box, spin_loop};

use rtrb::chunks::ChunkError;
use rtrb::{Consumer, PopError, Producer, PushError, RingBuffer};
use selvedge_channels::Wire;

use super::{Ends, Kind, to_each};
use crate::case::Case;

/// rtrb, which never blocks: it spins, or is left out.
pub(crate) struct Rtrb;

impl Kind for Rtrb {
    type Sender<T: Wire> = Vec<Producer<T>>;
    type Receiver<T: Wire> = Consumer<T>;

    fn make<T: Wire>(room: usize, case: &Case) -> anyhow::Result<Ends<Self, T>> {
        Ok((0..case.readers).map(|_| RingBuffer::new(room)).unzip())
    }

    fn send<T: Wire>(to: &mut Self::Sender<T>, value: T) -> anyhow::Result<()> {
        to_each(to, value, |producer, mut value| {
            loop {
                value = match producer.push(value) {
                    Ok(()) => return Ok(()),
                    Err(PushError::Full(back)) => back,
                };
                anyhow::ensure!(!producer.is_abandoned(), "the receiver has gone");
                spin_loop();
            }
        })
    }

    fn receive<T: Wire>(from: &mut Self::Receiver<T>) -> Option<T> {
        loop {
            match from.pop() {
                Ok(value) => return Some(value),
                Err(PopError::Empty) if from.is_abandoned() => return from.pop().ok(),
                Err(PopError::Empty) => spin_loop(),
            }
        }
    }

    fn send_many(to: &mut Self::Sender<u64>, count: usize) -> anyhow::Result<()> {
        for producer in to {
            let mut left = count;
            while left > 0 {
                let free = match producer.write_chunk_uninit(left) {
                    Ok(chunk) => {
                        left -= chunk.fill_from_iter(std::iter::repeat(7));
                        continue;
                    }
                    Err(ChunkError::TooFewSlots(free)) => free,
                };
                if let Ok(chunk) = producer.write_chunk_uninit(free) {
                    left -= chunk.fill_from_iter(std::iter::repeat(7));
                }
                anyhow::ensure!(!producer.is_abandoned(), "the receiver has gone");
                spin_loop();
            }
        }
        Ok(())
    }

    fn receive_many(from: &mut Self::Receiver<u64>, _most: usize) -> bool {
        loop {
            let ready = from.slots();
            if ready == 0 {
                if from.is_abandoned() && from.is_empty() {
                    return false;
                }
                spin_loop();
                continue;
            }
            if let Ok(chunk) = from.read_chunk(ready) {
                chunk.into_iter().for_each(|value| _ = black_box(value));
            }
            return true;
        }
    }
}
