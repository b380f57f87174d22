//! The command line.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use selvedge::Waiting;

use crate::shapes::Lanes;

/// The largest payload that a case accepts: 1 GiB, the default bound of a graph's payloads.
const PAYLOAD_BYTES_MAX: u64 = 1 << 30;

/// Compiles graphs of actors and runs them in a loop; this command measures how fast.
#[derive(Parser, Debug)]
#[command(name = "selvedge", version, about)]
pub struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The arguments of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Check whether workers can be started on the machines of this file, `[count*][user@]host[:port] [bind_address[:port]]` a line.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// The program whose workers are to run there, at the path that it has here.
    #[arg(long, requires = "hosts", value_name = "PATH")]
    pub program: Option<String>,
    /// A file with the cookie of the workers.
    #[arg(long, requires = "hosts", value_name = "FILE")]
    pub cookie_file: Option<PathBuf>,
    /// The program that is run for `ssh`.
    #[arg(long, default_value = "ssh", value_name = "PROGRAM")]
    pub ssh: String,
    /// A flag of `ssh`, one word; once for each word.
    #[arg(long = "ssh-flag", allow_hyphen_values = true, value_name = "WORD")]
    pub ssh_flags: Vec<String>,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Measure a case beside the machine's own limit.
    Bench(BenchArgs),
    /// Explain a plan (a file made by `--selvedge-graph=json`) or a code of a diagnostic, such as D0103.
    Explain(ExplainArgs),
    /// Say what selvedge needs of this machine, or of others (`--hosts`), and whether it is there.
    Doctor(DoctorArgs),
    /// List the remote functions of a running program.
    Functions(InspectArgs),
    /// List the submitted calls of a running program, with their states.
    Calls(InspectArgs),
    /// List the objects in the object store of a running program, and who reads them.
    Objects(InspectArgs),
    /// List the references that a running program owns or holds, and who holds them.
    References(InspectArgs),
    /// List the names of references of a running program, and where their values live.
    Names(InspectArgs),
    /// List the processes of a running program.
    Members(InspectArgs),
    /// Run a router of zenoh, at which hosts meet that cannot dial each other, until Ctrl-C.
    #[cfg(feature = "cluster")]
    Router(RouterArgs),
    /// The other side of a limit that is measured between two processes; started by `bench` alone.
    #[command(hide = true)]
    Peer(PeerArgs),
    /// The other side of a channel between two processes; started by `bench` alone.
    #[command(hide = true)]
    ChannelPeer(ChannelPeerArgs),
    /// A rank in a process of its own; started by `bench` alone.
    #[command(hide = true)]
    AllreducePeer(AllreducePeerArgs),
    /// One fresh start of a loop; started by `bench waiting` alone.
    #[command(hide = true)]
    WaitingStart(WaitingStartArgs),
    /// Keeps one core busy; started by `bench waiting` alone.
    #[command(hide = true)]
    WaitingNeighbour,
}

/// The arguments of `explain`.
#[derive(Args, Debug, Clone)]
pub struct ExplainArgs {
    /// A code, or the path of a plan in JSON.
    pub what: String,
    /// The format of a plan's output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// The arguments of `functions`, `calls`, `objects`, `references`, `names` and `members`.
#[derive(Args, Debug, Clone)]
pub struct InspectArgs {
    /// The process that has made the runtime, as `ps` and `/proc` name it.
    pub pid: u32,
    /// The rows that are shown of each runtime, 10000 at most.
    #[arg(long, value_name = "ROWS", default_value_t = 10_000)]
    pub limit: usize,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The arguments of `router`.
#[cfg(feature = "cluster")]
#[derive(Args, Debug, Clone)]
pub struct RouterArgs {
    /// An endpoint to listen at; several with several options.
    #[arg(long, default_value = "tcp/0.0.0.0:7447")]
    pub listen: Vec<String>,
    /// An entry of zenoh's configuration, as `PATH=JSON5`; several with several options.
    #[arg(long, value_name = "PATH=JSON5", value_parser = entry)]
    pub set: Vec<(String, String)>,
}

#[cfg(feature = "cluster")]
fn entry(text: &str) -> Result<(String, String), String> {
    let (path, value) = text.split_once('=').ok_or("write it as PATH=JSON5")?;
    Ok((path.to_owned(), value.to_owned()))
}

/// The output format of a plan.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Words: operations, order, channels, lanes, proof, time.
    Text,
    /// For `dot -Tsvg`.
    Dot,
    /// For a Markdown file.
    Mermaid,
    /// The time line as a picture.
    Svg,
    /// A page that works offline.
    Html,
}

/// The arguments of `bench`.
#[derive(Args, Debug, Clone)]
pub struct BenchArgs {
    /// The case.
    pub case: Case,
    /// The placement of the actors [default: thread; `limits`: thread and process].
    #[arg(long)]
    pub placement: Option<Placement>,
    /// The wait policy of a lane for its inputs [default: auto; `limits`: spin and park].
    #[arg(long)]
    pub wait: Option<Wait>,
    /// Bytes in one payload [default: 8; `limits`, `payload` and `allreduce`: 1 MiB].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=PAYLOAD_BYTES_MAX))]
    pub payload: Option<u64>,
    /// How many actors [default: `chain`, `calls`, `fanout` and `compile` 4, `pipeline` 2].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub actors: Option<u32>,
    /// How many lanes (threads) a chain's actors share, in equal parts, or `auto` [default: each has its own].
    #[arg(long, value_parser = parse_lanes)]
    pub lanes: Option<Lanes>,
    /// Events kept for a trace, by lane; 0 is off.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub trace: u32,
    /// How many executions `pipeline` keeps going at once.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub inflight: u32,
    /// Seconds that one row may take, all repeats together.
    #[arg(long, default_value_t = 1.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// How many tasks `compile` plans.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tasks: u32,
    /// The endpoints that a channel joins (`channel` alone).
    #[arg(long, default_value = "shm")]
    pub transport: Transport,
    /// The use of a channel (`channel` alone).
    #[arg(long, default_value = "copy")]
    pub mode: Mode,
    /// How many readers a channel has (`channel` alone).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub readers: u32,
    /// How many ranks take part (`allreduce` alone).
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub ranks: u32,
    /// The vectors stay in the caches: nobody writes or reads them between two operations (`allreduce` alone).
    #[arg(long)]
    pub hot: bool,
    /// Private vectors alone, in turns with those of Open MPI, in processes on cores of their own; without `--payload`
    /// from 64 KiB to 64 MiB (`allreduce` alone).
    #[arg(long, conflicts_with = "hot")]
    pub peers: bool,
    /// How many fresh processes make a row (`waiting` alone).
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub starts: u32,
    /// Print one JSON object a line instead of a table.
    #[arg(long)]
    pub json: bool,
}

fn parse_lanes(text: &str) -> Result<Lanes, String> {
    if text == "auto" {
        return Ok(Lanes::Auto);
    }
    let count = text.parse().ok().filter(|count| (1..=64).contains(count));
    count
        .map(Lanes::Shared)
        .ok_or_else(|| "a number from 1 to 64, or `auto`".to_owned())
}

/// The cases of `bench`.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// The machine alone: cache line, futex, copy, hand-over.
    Limits,
    /// One actor that returns what it gets, one execution at a time.
    Echo,
    /// Actors in a row, one execution at a time.
    Chain,
    /// One value to several actors, their results gathered by the driver.
    Fanout,
    /// Bytes there, every one of them read, eight bytes back.
    Payload,
    /// Actors in a row with several executions going at once.
    Pipeline,
    /// Compiling a graph of many tasks.
    Compile,
    /// A channel by itself, without actors.
    Channel,
    /// Waiting for one input while 1, 10, 100 and 1000 others are idle.
    Idle,
    /// A sum over ranks, in memory of their group and in private memory.
    Allreduce,
    /// Fresh starts of small loops, alone and beside a busy process: median and slowest tenth.
    Waiting,
    /// Actors in a row by a graph, beside plain calls of one after the other.
    Calls,
    /// A remote function in a worker process, beside a bare socket, a server of tokio and postcard, an echo and a futex.
    Call,
    /// A worker that is reached over TCP, as those of other hosts are, beside bare TCP.
    Host,
    /// A remote function for each of many items, on a worker for each core, beside rayon.
    Map,
    /// Values in the object store, put and fetched in this process and in a worker.
    Objects,
}

/// A loop that `waiting` starts.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loop {
    /// One actor that returns what it gets.
    Echo,
    /// One actor that works for some 100 µs, as a stage of a small model does.
    Stage,
    /// Two callers of one graph with one echoing actor.
    Callers,
    /// Two graphs with an echoing actor each, run by two threads.
    Graphs,
    /// Those two graphs, and calls of a remote function in a worker by a third thread.
    Together,
}

/// The arguments of a fresh start of a loop.
#[derive(Args, Debug, Clone)]
pub struct WaitingStartArgs {
    /// The loop.
    #[arg(long)]
    pub shape: Loop,
    /// The placement of the actors.
    #[arg(long)]
    pub placement: Placement,
    /// The wait policy of all threads.
    #[arg(long)]
    pub wait: Wait,
}

/// The place where the other side runs.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On a thread of its own.
    Thread,
    /// In a process of its own.
    Process,
    /// On the driver's own thread: nobody is woken.
    Inline,
    /// In a process that plays another host, and is reached over TCP (`echo` alone).
    Host,
}

/// The wait policy of a side.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Look again and again.
    Spin,
    /// Sleep in the kernel at once.
    Park,
    /// Spin a little, then sleep; where threads outnumber cores, let the others run a few times, then sleep.
    Auto,
}

impl Wait {
    /// Returns the waiting policy of a channel's end when `threads` threads wait. Call it before the calling thread is
    /// pinned to a core: afterwards the count of available cores is 1.
    pub fn waiting(self, threads: usize) -> Waiting {
        match self {
            Wait::Spin => Waiting::Spin,
            Wait::Park => Waiting::Park,
            Wait::Auto => Waiting::auto(threads),
        }
    }
}

/// The endpoints that a channel joins.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One thread with itself.
    Intra,
    /// Two threads.
    Thread,
    /// Two processes, through shared memory.
    Shm,
}

/// The use of a channel.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Payloads are copied in, and every byte is read.
    Copy,
    /// Payloads are built in their slot, and read there; only their ends are touched.
    Loan,
    /// One way, as many as go.
    Stream,
}

/// The arguments of the other side of a channel.
#[derive(Args, Debug, Clone)]
pub struct ChannelPeerArgs {
    /// The channel to read.
    #[arg(long)]
    pub there: selvedge_channels::Descriptor,
    /// The channel to answer on.
    #[arg(long)]
    pub back: selvedge_channels::Descriptor,
    /// The index of this reader.
    #[arg(long)]
    pub index: u32,
    /// Microseconds to spin before parking; for ever where there is no such number.
    #[arg(long)]
    pub spin_us: Option<u64>,
    /// Times to let others have the core before parking, where it does not spin.
    #[arg(long, default_value_t = 0)]
    pub yields: u32,
    /// The use of the channel.
    #[arg(long)]
    pub mode: Mode,
    /// Messages are numbers, not bytes.
    #[arg(long)]
    pub number: bool,
    /// The core to stay on.
    #[arg(long)]
    pub core: Option<usize>,
}

/// The arguments of another rank.
#[derive(Args, Debug, Clone)]
pub struct AllreducePeerArgs {
    /// The group.
    #[arg(long)]
    pub group: selvedge::collectives::GroupDescriptor,
    /// The number of this rank.
    #[arg(long)]
    pub rank: usize,
    /// Bytes of a vector.
    #[arg(long)]
    pub payload: u64,
    /// Nanoseconds that a phase may take.
    #[arg(long)]
    pub budget_ns: u64,
    /// The wait policy of the rank.
    #[arg(long)]
    pub wait: Wait,
    /// Vectors are neither written nor read between two operations.
    #[arg(long)]
    pub hot: bool,
    /// One repeat of private vectors alone.
    #[arg(long)]
    pub private: bool,
}

/// The arguments of the other side of a limit.
#[derive(Args, Debug, Clone)]
pub struct PeerArgs {
    /// The protocol to answer.
    #[arg(long)]
    pub protocol: crate::bench::limits::Protocol,
    /// The core to stay on.
    #[arg(long)]
    pub core: Option<usize>,
    /// Bytes in one payload.
    #[arg(long, default_value_t = 0)]
    pub payload: usize,
    /// Payloads that the memory has room for.
    #[arg(long, default_value_t = 1)]
    pub slots: usize,
}

impl From<Placement> for selvedge::Placement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Thread => selvedge::Placement::Thread,
            Placement::Process | Placement::Host => selvedge::Placement::Process,
            Placement::Inline => selvedge::Placement::Inline,
        }
    }
}

impl From<Wait> for selvedge::Wait {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Spin => selvedge::Wait::Spin,
            Wait::Park => selvedge::Wait::Park,
            Wait::Auto => selvedge::Wait::Auto,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placement::Thread => "thread",
            Placement::Process => "process",
            Placement::Host => "host",
            Placement::Inline => "inline",
        })
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Wait::Spin => "spin",
            Wait::Park => "park",
            Wait::Auto => "auto",
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Transport::Intra => "intra",
            Transport::Thread => "thread",
            Transport::Shm => "shm",
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Mode::Copy => "copy",
            Mode::Loan => "loan",
            Mode::Stream => "stream",
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Case::Limits => "limits",
            Case::Echo => "echo",
            Case::Chain => "chain",
            Case::Fanout => "fanout",
            Case::Payload => "payload",
            Case::Pipeline => "pipeline",
            Case::Compile => "compile",
            Case::Channel => "channel",
            Case::Idle => "idle",
            Case::Allreduce => "allreduce",
            Case::Waiting => "waiting",
            Case::Calls => "calls",
            Case::Call => "call",
            Case::Host => "host",
            Case::Map => "map",
            Case::Objects => "objects",
        })
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Loop::Echo => "echo",
            Loop::Stage => "stage",
            Loop::Callers => "callers",
            Loop::Graphs => "graphs",
            Loop::Together => "together",
        })
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.01..=3600.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("{seconds} is not between 0.01 and 3600"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn seconds_have_bounds() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        assert!(parse_seconds("0").is_err());
        assert!(parse_seconds("NaN").is_err());
        assert!(parse_seconds("soon").is_err());
    }
}
