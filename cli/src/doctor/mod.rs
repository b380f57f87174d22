//! `selvedge doctor`: the machine's facilities that selvedge needs, and how much of each the machine has.

pub mod hosts;

use std::fmt::Write;

use selvedge_channels::memory::process::Process;
use selvedge_channels::{ChannelOptions, Provider, Segment};

/// Returns the text to print, one line for each facility.
pub fn run() -> String {
    let mut text = String::new();
    let mut line = |name: &str, found: String| {
        let _ = writeln!(text, "{name:<10} {found}");
    };
    let cores = std::thread::available_parallelism()
        .map_or_else(|error| error.to_string(), |cores| cores.to_string());
    line("cores", cores);
    let kernel = rustix::system::uname();
    line(
        "kernel",
        format!(
            "{} {}",
            kernel.sysname().to_string_lossy(),
            kernel.release().to_string_lossy()
        ),
    );
    line("memory", shared_memory());
    line("deaths", deaths());
    text.push_str(&devices());
    text
}

/// Reports whether memory can be shared between processes, and how much.
fn shared_memory() -> String {
    let works = || -> Result<(), selvedge_channels::SegmentError> {
        let segment = Segment::create(Provider::Memfd, 4096)?;
        segment.id().map_or(Ok(()), |id| Segment::open(&id).map(drop))
    };
    if let Err(error) = works() {
        return format!("cannot be shared between processes: {error}");
    }
    match ChannelOptions::new().memory_plan().map(|plan| plan.limit) {
        Ok(Some((limit, bytes))) => {
            let gib = bytes as f64 / f64::from(1 << 30);
            format!("can be shared between processes: {limit} allows {gib:.1} GiB")
        }
        _ => "can be shared between processes".to_owned(),
    }
}

/// Reports whether the kernel announces the death of other processes.
fn deaths() -> String {
    let own = Process::own();
    let pid = rustix::process::getpid();
    match rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        Ok(_) if own.is_current() => "of other processes are told by the kernel".to_owned(),
        Ok(_) => "are told by the kernel; /proc does not say when a process started".to_owned(),
        Err(error) => format!("are noticed by time-outs alone: pidfd_open says {error}"),
    }
}

#[cfg(feature = "cuda")]
fn devices() -> String {
    format!("{}\n", selvedge::collectives::gpu::probe())
}

#[cfg(not(feature = "cuda"))]
fn devices() -> String {
    "CUDA       not looked for: this command was built without the feature `cuda`\n".to_owned()
}
