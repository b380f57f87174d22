//! The `selvedge` command: what a machine can do at best, and what selvedge makes of it.
//!
//! `selvedge bench limits` measures the machine alone (a cache line there and back, a futex there and back,
//! a copy, a hand-over from one core to another). Every other case runs a graph and prints the limit that
//! applies to it from the same run, so that a figure means something on any machine:
//!
//! ```text
//! selvedge bench limits
//! selvedge bench echo --placement process --wait spin --json
//! ```
//!
//! - [`args`]: the command line.
//! - [`shapes`]: the graphs that are measured.
//! - [`mod@doctor`]: what a machine has of what is needed.
//! - [`mod@explain`]: what a plan or a code means.
//! - [`mod@bench`]: the cases, the limits and the way both are measured.

pub mod args;

pub mod shapes;

pub mod bench;

pub mod checksum;

pub mod doctor;

pub mod explain;

/// Runs what the command line asks for.
///
/// # Errors
/// Whatever kept a measurement from being made; its text names the measurement.
pub fn run(cli: args::Cli) -> anyhow::Result<()> {
    match cli.command {
        args::Command::Bench(args) => bench::run(&args),
        args::Command::Explain(args) => {
            let text = explain::run(&args)?;
            // A pipe that is closed has read enough.
            let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
            Ok(())
        }
        args::Command::Doctor => {
            let _ = std::io::Write::write_all(&mut std::io::stdout(), doctor::run().as_bytes());
            Ok(())
        }
        args::Command::Peer(args) => bench::limits::serve(&args),
        args::Command::ChannelPeer(args) => bench::channel::serve(&args),
        args::Command::AllreducePeer(args) => bench::allreduce::serve(&args),
        args::Command::WaitingStart(args) => bench::waiting::start(&args),
        args::Command::WaitingNeighbour => {
            bench::waiting::keep_busy();
            Ok(())
        }
    }
}
