//! What a run has found.

use std::fmt;
use std::time::Duration;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScaleReport {
    /// The members in the end.
    pub(super) members: usize,
    /// The times from the death of a worker to its burial.
    pub(super) kills: Vec<Duration>,
    /// The times from the moment at which a host stood still or was cut off to the burial of each of its workers.
    pub(super) silences: Vec<Duration>,
    /// The letters that the driver has sent, and those that have reached it.
    pub(super) letters: (u64, u64),
    /// The notices among the letters sent.
    pub(super) notices: u64,
    pub(super) time: Duration,
    /// The time from the end of the cut to the moment at which all members knew all again.
    pub(super) convergence: Option<Duration>,
    /// Broken promises.
    pub(super) broken: Vec<String>,
}

impl fmt::Display for ScaleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a_second = |count: u64| count as f64 / self.time.as_secs_f64();
        let (sent, received) = self.letters;
        writeln!(f, "{} members in the end", self.members)?;
        writeln!(f, "  workers killed: {}", quantiles(&self.kills))?;
        writeln!(f, "  workers silent: {}", quantiles(&self.silences))?;
        writeln!(
            f,
            "  letters a second at the driver: {:.0} sent, of which {:.0} notices; {:.0} received",
            a_second(sent),
            a_second(self.notices),
            a_second(received)
        )?;
        writeln!(f, "  all agree again after the cut: {:?}", self.convergence)?;
        write!(f, "  broken promises: {}", self.broken.len())
    }
}

fn quantiles(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100);
    match (at(50), at(99), times.last()) {
        (Some(median), Some(p99), Some(last)) => format!(
            "{}, known after {median:.1?} (median), {p99:.1?} (p99), {last:.1?} (longest)",
            times.len()
        ),
        _ => "none".to_owned(),
    }
}
