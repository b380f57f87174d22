//! The end of a worker that may not want to end.

use std::time::Duration;

/// A step towards the end of a process, for its owner to perform. None of them waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KillStep {
    /// Ask the process to exit, over its link or by closing its standard input.
    Ask,
    /// Send `SIGQUIT`, on which a process may still say where it was.
    Quit,
    /// Send `SIGKILL`, which no process survives.
    Kill,
}

/// The pauses of an [`Escalation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KillPauses {
    /// The time to exit when asked.
    pub after_ask: Duration,
    /// The time to exit after `SIGQUIT`.
    pub after_quit: Duration,
}

impl Default for KillPauses {
    /// 15 s each.
    fn default() -> Self {
        KillPauses {
            after_ask: Duration::from_secs(15),
            after_quit: Duration::from_secs(15),
        }
    }
}

/// The kill of one process (JMGR-19): it is asked, then gets `SIGQUIT`, then `SIGKILL`, each once and in this order, until
/// it has ended. If a step was late, the process still has the whole pause after it.
///
/// All times are durations since any fixed moment.
///
/// ```
/// use std::time::Duration;
/// use selvedge_cluster::manager::{Escalation, KillPauses, KillStep};
/// let (mut escalation, first) = Escalation::begin(Duration::ZERO, KillPauses::default());
/// assert_eq!(first, KillStep::Ask);
/// assert_eq!(escalation.deadline(), Some(Duration::from_secs(15)));
/// assert_eq!(escalation.tick(Duration::from_secs(15)), Some(KillStep::Quit));
/// escalation.exited();
/// assert_eq!(escalation.deadline(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Escalation {
    pauses: KillPauses,
    /// The next step, and its time.
    next: Option<(KillStep, Duration)>,
}

impl Escalation {
    /// Begins with the first step, which is to ask.
    pub fn begin(now: Duration, pauses: KillPauses) -> (Self, KillStep) {
        let next = Some((KillStep::Quit, now.saturating_add(pauses.after_ask)));
        (Escalation { pauses, next }, KillStep::Ask)
    }

    /// The time of the next step; `None` if there is none, because the process has ended or got `SIGKILL`.
    pub fn deadline(&self) -> Option<Duration> {
        self.next.map(|(_, time)| time)
    }

    /// The step that is due at `now`. Call this at the deadline, or at any time.
    pub fn tick(&mut self, now: Duration) -> Option<KillStep> {
        let (step, time) = self.next?;
        (now >= time).then(|| self.perform(step, now))
    }

    /// The process could not be asked, for example because it has no link: the step that comes in place of it, unless the
    /// process got a signal already.
    pub fn cannot_ask(&mut self, now: Duration) -> Option<KillStep> {
        let (step, _) = self.next.filter(|(step, _)| *step == KillStep::Quit)?;
        Some(self.perform(step, now))
    }

    /// The process has ended.
    pub fn exited(&mut self) {
        self.next = None;
    }

    fn perform(&mut self, step: KillStep, now: Duration) -> KillStep {
        let kill = (KillStep::Kill, now.saturating_add(self.pauses.after_quit));
        self.next = (step == KillStep::Quit).then_some(kill);
        step
    }
}
