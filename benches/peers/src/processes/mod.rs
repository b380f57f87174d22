//! Peers between processes. The other side is this program, started again.

#[cfg(feature = "iceoryx2")]
mod iceoryx;
mod ours;
mod pipes;

use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::Context;
use clap::{Args, ValueEnum};
use rustix::process::{Signal, set_parent_process_death_signal};
use selvedge_cli::args::{Mode, Wait};
use selvedge_cli::bench::channel::read;
use selvedge_cli::bench::limits::cores;
use selvedge_cli::bench::measure::{self, Summary};

use crate::case::Case;

pub(crate) use ours::measure as measure_ours;

/// A transport from one process to another.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// iceoryx2, publish-subscribe; with events unless the sides spin.
    #[cfg(feature = "iceoryx2")]
    Iceoryx2,
    /// A Unix stream socket.
    Socket,
    /// One pipe in each direction.
    Pipe,
}

/// The asking side.
trait Ask {
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<()>;
    /// Receives eight bytes from every reader.
    fn collect(&mut self) -> anyhow::Result<()>;
}

/// The answering side.
trait Answer {
    /// Returns the sum read from the next message; `None` at the end.
    fn receive(&mut self) -> anyhow::Result<Option<u64>>;
    fn answer(&mut self, sum: u64) -> anyhow::Result<()>;
}

/// The arguments of the other process.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    #[arg(long)]
    via: Via,
    #[arg(long)]
    mode: Mode,
    #[arg(long)]
    wait: Wait,
    #[arg(long)]
    payload: usize,
    #[arg(long, default_value_t = 0)]
    index: usize,
    #[arg(long, default_value = "")]
    name: String,
    #[arg(long)]
    core: Option<usize>,
}

/// Runs one repeat over one transport.
pub(crate) fn measure(via: Via, case: &Case) -> anyhow::Result<Summary> {
    let (own, other) = case.cores().pair()?;
    let measured = thread::scope(|scope| {
        let run = || {
            cores::pin(own)?;
            let mut ask: Box<dyn Ask> = match via {
                #[cfg(feature = "iceoryx2")]
                Via::Iceoryx2 => Box::new(iceoryx::Asking::start(case, other)?),
                Via::Socket | Via::Pipe => Box::new(pipes::Asking::start(via, case, other)?),
            };
            let kept = vec![7_u8; case.payload_bytes];
            if case.mode == Mode::Stream {
                return measure::stream(case.budget, 1, || ask.send(&kept));
            }
            measure::measure(case.budget, || {
                ask.send(&kept)?;
                ask.collect()
            })
        };
        scope.spawn(run).join()
    });
    measured.map_err(|_| anyhow::anyhow!("a measuring thread panicked"))?
}

/// The `main` of the other process.
pub(crate) fn serve(args: &ServeArgs) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).context("prctl")?;
    cores::pin(args.core)?;
    let mut answers: Box<dyn Answer> = match args.via {
        #[cfg(feature = "iceoryx2")]
        Via::Iceoryx2 => Box::new(iceoryx::Answering::start(args)?),
        Via::Socket | Via::Pipe => Box::new(pipes::Answering::start(args)?),
    };
    while let Some(sum) = answers.receive()? {
        if args.mode != Mode::Stream {
            answers.answer(sum)?;
        }
    }
    Ok(())
}

/// The other process, which ends with this one.
struct Other(Child);

impl Other {
    fn start(
        via: Via,
        case: &Case,
        core: Option<usize>,
        (index, name): (usize, &str),
        (stdin, stdout): (Stdio, Stdio),
    ) -> anyhow::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        let named =
            |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
        command.arg("serve").args(["--name", name]);
        command.args(["--via", &named(via.to_possible_value()).context("no name")?]);
        command.args(["--mode", &case.mode.to_string()]);
        command.args(["--wait", &case.wait.to_string(), "--index", &index.to_string()]);
        command.args(["--payload", &case.payload_bytes.to_string()]);
        if let Some(core) = core {
            command.args(["--core", &core.to_string()]);
        }
        Ok(Other(command.stdin(stdin).stdout(stdout).spawn()?))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
