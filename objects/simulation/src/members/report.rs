//! What a run has found.

use std::fmt;
use std::time::Duration;

/// What a run of a simulated cluster has found.
#[derive(Debug, Default)]
pub struct MemberReport {
    /// The members in the end, the head among them.
    pub members: usize,
    /// Members that were declared dead although they could be heard for more than half of the time-out.
    pub wrong_burials: u64,
    /// The times from the death of an agent to its burial.
    pub kills: Vec<Duration>,
    /// The times from the death of a worker to its burial.
    pub worker_kills: Vec<Duration>,
    /// The times from the moment at which a host stood still or was cut off to the burial of its agent.
    pub silences: Vec<Duration>,
    /// The frames that the head has sent, and those that have reached it.
    pub head_frames: (u64, u64),
    /// The time of the run.
    pub time: Duration,
    /// The time from the end of the cut to the moment at which everybody knew the same members, those that were cut off among
    /// them.
    pub convergence: Option<Duration>,
    /// Processes that have ended because they did not hear the head.
    pub orphans: u64,
    /// Broken promises of the membership.
    pub violations: Vec<String>,
}

impl MemberReport {
    /// Whether no promise was broken, and nobody was buried wrongly.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.wrong_burials == 0
    }
}

impl fmt::Display for MemberReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.time.as_secs_f64().max(1.0);
        let (sent, received) = self.head_frames;
        writeln!(
            f,
            "{} members; {} wrong burials",
            self.members, self.wrong_burials
        )?;
        for (what, times) in [
            ("agents killed", &self.kills),
            ("workers killed", &self.worker_kills),
            ("hosts silent", &self.silences),
        ] {
            writeln!(f, "  {what}: {}", quantiles(times))?;
        }
        let rates = (sent as f64 / seconds, received as f64 / seconds);
        writeln!(
            f,
            "  frames a second at the head: {:.0} sent, {:.0} received",
            rates.0, rates.1
        )?;
        match self.convergence {
            Some(time) => writeln!(f, "  all agree {time:.2?} after the cut")?,
            None => writeln!(f, "  no cut, or no agreement after it")?,
        }
        write!(
            f,
            "  {} orphans; {} violations",
            self.orphans,
            self.violations.len()
        )?;
        self.violations
            .iter()
            .take(5)
            .try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

fn quantiles(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |of: usize| {
        times
            .get((times.len() * of / 100).min(times.len().saturating_sub(1)))
            .copied()
    };
    match (at(50), at(99), times.last()) {
        (Some(median), Some(p99), Some(last)) => {
            format!(
                "{}, known after {median:.1?} (median), {p99:.1?} (p99), {last:.1?} (longest)",
                times.len()
            )
        }
        _ => "none".to_owned(),
    }
}
