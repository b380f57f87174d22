//! The other side of a limit: a thread, or a process that runs this program again.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use anyhow::Context;
use clap::ValueEnum;
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::futex::Flags;

use super::arena::{Arena, Direction, Slots};
use super::cache_line::{self, Lines};
use super::{cores, futex, hand_off};
use crate::args::{PeerArgs, Placement};

/// The number that ends the other side.
pub(crate) const STOP: u64 = u64::MAX;

/// The protocol between the two sides.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Spinning, a cache line for each direction.
    TwoLines,
    /// Spinning, one cache line for both directions.
    OneLine,
    /// Asleep in the kernel at every message, in two processes.
    FutexShared,
    /// Asleep in the kernel at every message, in one process, where the kernel looks up the futex faster.
    FutexPrivate,
    /// Spinning, a payload to the other side and its sum back.
    HandOff,
}

impl Protocol {
    /// Returns the asking side: a function that makes one round trip.
    pub(crate) fn ask(self, arena: &Arena) -> Box<dyn FnMut() -> anyhow::Result<()> + '_> {
        match self {
            Protocol::TwoLines => Box::new(cache_line::ask(arena, Lines::Two)),
            Protocol::OneLine => Box::new(cache_line::ask(arena, Lines::One)),
            Protocol::FutexShared => Box::new(futex::ask(arena, Flags::empty())),
            Protocol::FutexPrivate => Box::new(futex::ask(arena, Flags::PRIVATE)),
            Protocol::HandOff => Box::new(hand_off::ask(arena)),
        }
    }

    fn answer(self, arena: &Arena) -> anyhow::Result<()> {
        match self {
            Protocol::TwoLines => cache_line::answer(arena, Lines::Two),
            Protocol::OneLine => cache_line::answer(arena, Lines::One),
            Protocol::FutexShared => futex::answer(arena, Flags::empty()),
            Protocol::FutexPrivate => futex::answer(arena, Flags::PRIVATE),
            Protocol::HandOff => hand_off::answer(arena),
        }
    }
}

/// The running other side; dropping it stops the other side and waits for its end.
pub(crate) struct Peer {
    arena: Arc<Arena>,
    running: Running,
}

enum Running {
    Thread(Option<JoinHandle<anyhow::Result<()>>>),
    Process(Child),
}

impl Peer {
    /// Starts the other side on `core`.
    pub(crate) fn start(
        protocol: Protocol,
        placement: Placement,
        core: Option<usize>,
        arena: Arc<Arena>,
    ) -> anyhow::Result<Self> {
        let running = match placement {
            Placement::Process | Placement::Host => {
                Running::Process(spawn(protocol, core, &arena).context("cannot start the other process")?)
            }
            Placement::Thread | Placement::Inline => {
                let arena = Arc::clone(&arena);
                Running::Thread(Some(std::thread::spawn(move || {
                    cores::pin(core)?;
                    protocol.answer(&arena)
                })))
            }
        };
        Ok(Peer { arena, running })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let line = self.arena.line(Direction::There);
        line.number.store(STOP, Ordering::Release);
        // The result is ignored: a wake-up without a sleeper is no failure, a thread that misses it gives up at its
        // time limit, and a process is killed below.
        let _ = futex::send(&line.futex, STOP as u32, Flags::PRIVATE);
        match &mut self.running {
            Running::Thread(thread) => drop(thread.take().map(JoinHandle::join)),
            Running::Process(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

/// Starts this program again, with the shared memory as its standard input.
fn spawn(protocol: Protocol, core: Option<usize>, arena: &Arena) -> anyhow::Result<Child> {
    let name = protocol.to_possible_value().context("the protocol has no name")?;
    let slots = arena.slots();
    let mut command = Command::new("/proc/self/exe");
    command.arg("peer").arg("--protocol").arg(name.get_name());
    command.args([
        "--payload",
        &slots.payload_bytes.to_string(),
        "--slots",
        &slots.count.to_string(),
    ]);
    if let Some(core) = core {
        command.args(["--core", &core.to_string()]);
    }
    Ok(command
        .stdin(Stdio::from(arena.descriptor()?))
        .stdout(Stdio::null())
        .spawn()?)
}

/// The `main` of the other side.
///
/// # Errors
/// The memory on standard input does not match the arguments, or the asking side has gone.
pub fn serve(args: &PeerArgs) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("prctl")?;
    cores::pin(args.core)?;
    let stdin = std::io::stdin().as_fd().try_clone_to_owned()?;
    let slots = Slots {
        count: args.slots,
        payload_bytes: args.payload,
    };
    args.protocol.answer(&Arena::map(File::from(stdin), slots)?)
}
