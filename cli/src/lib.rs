//! The `selvedge` command: measures the limits of a machine, and selvedge against them.
//!
//! `selvedge bench limits` measures the machine alone (the round trip of a cache line, the round trip of a futex, a
//! copy, a hand-over from one core to another). Every other case runs a graph and prints the limit that applies to it,
//! measured in the same run, so that a figure means something on any machine:
//!
//! ```text
//! selvedge bench limits
//! selvedge bench echo --placement process --wait spin --json
//! ```
//!
//! - [`args`]: the command line.
//! - [`shapes`]: the graphs that are measured.
//! - [`mod@doctor`]: the machine's facilities that selvedge needs.
//! - [`mod@inspect`]: looks into a running program.
//! - [`mod@explain`]: the meaning of a plan or a code.
//! - `router`: a router of zenoh (feature `cluster`).
//! - [`mod@bench`]: the cases, the limits and the code that measures both.

use std::io::{self, ErrorKind, Write};

use anyhow::Context;
use selvedge::inspect::InspectTopic;

pub mod args;

pub mod shapes;

pub mod bench;

pub mod checksum;

pub mod doctor;

pub mod explain;

pub mod inspect;

#[cfg(feature = "cluster")]
pub mod router;

/// Runs the subcommand that the command line names.
///
/// # Errors
/// The failure of a measurement or of `explain`; the text of the error names the measurement.
pub fn run(cli: args::Cli) -> anyhow::Result<()> {
    match cli.command {
        args::Command::Bench(args) => bench::run(&args),
        args::Command::Functions(args) => inspect::run(InspectTopic::Functions, &args),
        args::Command::Calls(args) => inspect::run(InspectTopic::Calls, &args),
        args::Command::Objects(args) => inspect::run(InspectTopic::Objects, &args),
        args::Command::References(args) => inspect::run(InspectTopic::References, &args),
        args::Command::Names(args) => inspect::run(InspectTopic::Names, &args),
        args::Command::Members(args) => inspect::run(InspectTopic::Members, &args),
        args::Command::Explain(args) => {
            let text = explain::run(&args)?;
            print(&text)
        }
        args::Command::Doctor(args) => {
            let (text, failed) = match &args.hosts {
                None => (doctor::run(), 0),
                Some(file) => {
                    let checks = doctor::hosts::run(file, &args)?;
                    (checks.text, checks.failed)
                }
            };
            print(&text)?;
            anyhow::ensure!(failed == 0, "{failed} checks have failed");
            Ok(())
        }
        #[cfg(feature = "cluster")]
        args::Command::Router(args) => router::run(&args),
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

/// Prints text to the standard output. A reader that has closed the pipe needs no more of it; any other failure, such as a full disk, has
/// lost what somebody needs.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("the standard output takes no more"),
    }
}
