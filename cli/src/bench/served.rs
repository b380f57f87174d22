//! Calls of remote functions as they are measured for any worker, and clients of blocking servers beside them.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use selvedge::prelude::*;
use selvedge::{DType, Worker};

use super::measure::{REPEATS, Summary, measure};
use super::record::{Record, Report};
use super::versus::median_ratio;
use crate::args::{BenchArgs, Placement, Wait};

/// The calls of `in_flight`.
const IN_FLIGHT: usize = 256;
/// The tensor of `large` if the command line names no payload.
const LARGE_BYTES: u64 = 64 << 20;
/// The time that a server may take to connect.
const CONNECT_MAX: Duration = Duration::from_secs(60);

/// Returns its argument.
#[remote]
pub(super) fn returns(x: u64) -> u64 {
    x
}

#[remote]
fn counts(bytes: Tensor) -> u64 {
    bytes.len() as u64
}

/// Answers each message of `bytes` bytes with 8 bytes, until the peer closes its end.
pub(super) fn serve(mut peer: impl Read + Write, bytes: u64) -> Result<()> {
    let mut message = vec![0; bytes as usize];
    while peer.read_exact(&mut message).is_ok() {
        peer.write_all(message.get(..8).unwrap_or_default())?;
    }
    Ok(())
}

/// Waits until a server has connected.
pub(super) fn connected(listener: impl AsFd, name: &str) -> anyhow::Result<()> {
    let limit = Timespec::try_from(CONNECT_MAX)?;
    let mut fds = [PollFd::new(&listener, PollFlags::IN)];
    if poll(&mut fds, Some(&limit))? == 0 {
        anyhow::bail!("the server `{name}` has not connected within {CONNECT_MAX:?}");
    }
    Ok(())
}

/// A client of the blocking server.
pub(super) struct Blocking<S> {
    stream: S,
    message: Vec<u8>,
    /// The server's worker, which ends with its handle.
    _server: Worker,
}

impl<S: Read + Write> Blocking<S> {
    /// A client that sends messages of so many bytes.
    pub(super) fn new(stream: S, bytes: u64, server: Worker) -> Self {
        let message = vec![0; bytes as usize];
        Blocking {
            stream,
            message,
            _server: server,
        }
    }

    pub(super) fn ask(&mut self) -> anyhow::Result<()> {
        let mut answer = [0; 8];
        self.stream.write_all(&self.message)?;
        Ok(self.stream.read_exact(&mut answer)?)
    }
}

/// Calls that are measured in turns with blocking servers, whose name is that of the limit.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    pub(super) args: &'a BenchArgs,
    pub(super) runtime: &'a Runtime,
    pub(super) worker: &'a Worker,
    pub(super) limit: &'static str,
}

impl Calls<'_> {
    /// The length of the tensor of `large`.
    pub(super) fn large_bytes(args: &BenchArgs) -> u64 {
        args.payload.unwrap_or(LARGE_BYTES).max(8)
    }

    /// Makes a call.
    pub(super) fn one(&self) -> anyhow::Result<()> {
        self.runtime.call(returns::remote(8).on(self.worker)).wait()?;
        Ok(())
    }

    /// Measures many calls at a time. Returns the summary of one of them.
    pub(super) fn many(&self) -> anyhow::Result<Summary> {
        let all = measure(super::budget(self.args), || self.in_flight())?;
        Ok(each(all, IN_FLIGHT as u64))
    }

    /// Prints the row `in_flight`.
    pub(super) fn report_many<W: Write>(
        &self,
        found: &[Summary],
        report: &mut Report<W>,
    ) -> anyhow::Result<()> {
        let mut many = row(self.args, "in_flight", 8, found, None)?;
        many.inflight = Some(IN_FLIGHT as u32);
        report.row(&many)
    }

    fn in_flight(&self) -> anyhow::Result<()> {
        let calls: Vec<_> = (0..IN_FLIGHT)
            .map(|x| self.runtime.call(returns::remote(x as u64).on(self.worker)))
            .collect();
        Ok(calls.into_iter().try_for_each(|call| call.wait().map(drop))?)
    }

    /// Prints the row `large`.
    pub(super) fn large<S: Read + Write, W: Write>(
        &self,
        server: &mut Blocking<S>,
        report: &mut Report<W>,
    ) -> anyhow::Result<()> {
        let (budget, bytes) = (super::budget(self.args), Self::large_bytes(self.args));
        let tensor = Tensor::from_raw(DType::U8, &[bytes as usize], &vec![0; bytes as usize])?;
        let (mut found, mut limit) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            limit.push(measure(budget, || server.ask())?);
            found.push(measure(budget, || {
                self.runtime
                    .call(counts::remote(&tensor).on(self.worker))
                    .wait()?;
                Ok(())
            })?);
        }
        let beside = Some((self.limit, &limit[..]));
        report.row(&row(self.args, "large", bytes, &found, beside)?)
    }
}

/// The summary of one of `count` operations that were measured together.
pub(super) fn each(all: Summary, count: u64) -> Summary {
    let many = count as f64;
    Summary {
        iterations: all.iterations * count,
        p50_ns: all.p50_ns / many,
        p90_ns: all.p90_ns / many,
        p99_ns: all.p99_ns / many,
        p999_ns: all.p999_ns / many,
        per_second: all.per_second * many,
    }
}

/// A row of calls, with its limit and the name of that.
pub(super) fn row(
    args: &BenchArgs,
    mode: &str,
    bytes: u64,
    found: &[Summary],
    limit: Option<(&'static str, &[Summary])>,
) -> anyhow::Result<Record> {
    let nothing = || anyhow::anyhow!("nothing was measured");
    let summary = Summary::median(found).ok_or_else(nothing)?;
    let mut record = Record::new(args.case, bytes, &summary).placed(Placement::Process, Wait::Auto);
    if let Some((name, limit)) = limit {
        let best = Summary::median(limit).ok_or_else(nothing)?;
        record = record.against(name, best.p50_ns, median_ratio(found, limit));
    }
    record.mode = Some(mode.to_owned());
    Ok(record)
}
