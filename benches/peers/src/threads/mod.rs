//! Peers between threads: values move by pointer, without encoding.
//!
//! A payload is copied from private memory into a buffer; the buffer moves to the other thread, which reads every byte
//! and moves it back to be filled again. So no channel pays for the allocator.

mod crossbeam;
mod either;
mod ours;
mod ring_buffer;
mod std_mpsc;
mod tokio_mpsc;

use std::hint::black_box;
use std::thread;

use anyhow::Context;
use selvedge_channels::Wire;
use selvedge_cli::args::Mode;
use selvedge_cli::bench::limits::cores;
use selvedge_cli::bench::measure::{self, Summary};
use selvedge_cli::checksum::checksum;

use crate::case::Case;

pub(crate) use crossbeam::Crossbeam;
pub(crate) use either::Either;
pub(crate) use ours::Ours;
pub(crate) use ring_buffer::Rtrb;
pub(crate) use std_mpsc::Std;
pub(crate) use tokio_mpsc::Tokio;

/// The capacity of a channel in a round trip, in messages.
const SLOTS: usize = 8;
/// The capacity of a channel in a stream, in messages.
const STREAM_SLOTS: usize = 64;
/// The messages that one call passes, for libraries that support it.
const STREAM_BATCH: usize = 32;

/// A sender and its receivers.
type Ends<K, T> = (<K as Kind>::Sender<T>, Vec<<K as Kind>::Receiver<T>>);

/// A library whose channels move values between threads.
pub(crate) trait Kind: Sized + 'static {
    type Sender<T: Wire>: Send;
    type Receiver<T: Wire>: Send;

    /// Creates a channel with a capacity of `room` messages and as many receivers as the case has; each receiver gets
    /// every message.
    fn make<T: Wire>(room: usize, case: &Case) -> anyhow::Result<Ends<Self, T>>;

    fn send<T: Wire>(to: &mut Self::Sender<T>, value: T) -> anyhow::Result<()>;

    /// Receives a value; returns `None` if the sender is gone.
    fn receive<T: Wire>(from: &mut Self::Receiver<T>) -> Option<T>;

    /// Sends several messages, in one call if the library supports it.
    fn send_many(to: &mut Self::Sender<u64>, count: usize) -> anyhow::Result<()> {
        (0..count).try_for_each(|_| Self::send(to, 7))
    }

    /// Receives at least one message; returns `false` if the sender is gone.
    fn receive_many(from: &mut Self::Receiver<u64>, _most: usize) -> bool {
        Self::receive(from).map(black_box).is_some()
    }
}

/// Runs one repeat of one library.
pub(crate) fn measure<K: Kind>(case: &Case) -> anyhow::Result<Summary> {
    let (own, other) = case.cores().pair()?;
    let measured = thread::scope(|scope| {
        let run = || {
            cores::pin(own)?;
            match case.mode {
                Mode::Stream => stream::<K>(case, other),
                _ if case.is_number() => numbers::<K>(case, other),
                _ => buffers::<K>(case, other),
            }
        };
        scope.spawn(run).join()
    });
    measured.map_err(|_| anyhow::anyhow!("a measuring thread panicked"))?
}

fn numbers<K: Kind>(case: &Case, core: Option<usize>) -> anyhow::Result<Summary> {
    let (mut there, receivers) = K::make::<u64>(SLOTS, case)?;
    let mut back = Vec::new();
    thread::scope(|scope| {
        for mut receiver in receivers {
            let (mut answer, mut answers) = K::make::<u64>(SLOTS, &Case { readers: 1, ..*case })?;
            back.append(&mut answers);
            scope.spawn(move || -> anyhow::Result<()> {
                cores::pin(core)?;
                while let Some(value) = K::receive(&mut receiver) {
                    K::send(&mut answer, value)?;
                }
                Ok(())
            });
        }
        let found = measure::measure(case.budget, || {
            K::send(&mut there, 7)?;
            for answer in &mut back {
                black_box(K::receive(answer).context("the other side has gone")?);
            }
            Ok(())
        });
        drop(there);
        found
    })
}

fn buffers<K: Kind>(case: &Case, core: Option<usize>) -> anyhow::Result<Summary> {
    let kept = vec![7_u8; case.payload_bytes];
    let (mut there, receivers) = K::make::<Vec<u8>>(SLOTS, case)?;
    let (mut answer, back) = K::make::<Vec<u8>>(SLOTS, case)?;
    let mut receiver = receivers.into_iter().next().context("no receiver")?;
    let mut back = back.into_iter().next().context("no receiver")?;
    let mut buffer = Some(kept.clone());
    thread::scope(|scope| {
        scope.spawn(move || -> anyhow::Result<()> {
            cores::pin(core)?;
            while let Some(buffer) = K::receive(&mut receiver) {
                black_box(checksum(&buffer));
                K::send(&mut answer, buffer)?;
            }
            Ok(())
        });
        let found = measure::measure(case.budget, || {
            let mut filled = buffer.take().context("no buffer")?;
            filled.copy_from_slice(&kept);
            K::send(&mut there, filled)?;
            buffer = Some(K::receive(&mut back).context("the other side has gone")?);
            Ok(())
        });
        drop(there);
        found
    })
}

fn stream<K: Kind>(case: &Case, core: Option<usize>) -> anyhow::Result<Summary> {
    let (mut there, receivers) = K::make::<u64>(STREAM_SLOTS, case)?;
    thread::scope(|scope| {
        for mut receiver in receivers {
            scope.spawn(move || -> anyhow::Result<()> {
                cores::pin(core)?;
                while K::receive_many(&mut receiver, STREAM_SLOTS) {}
                Ok(())
            });
        }
        let found = measure::stream(case.budget, STREAM_BATCH, || {
            K::send_many(&mut there, STREAM_BATCH)
        });
        drop(there);
        found
    })
}

/// Sends the value to each of several senders; the last one gets the value itself, the others get clones.
fn to_each<S, T: Clone>(
    senders: &mut [S],
    value: T,
    mut send: impl FnMut(&mut S, T) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (last, others) = senders.split_last_mut().context("nobody to send to")?;
    for sender in others {
        send(sender, value.clone())?;
    }
    send(last, value)
}
