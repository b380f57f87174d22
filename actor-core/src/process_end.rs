//! The ends of processes, as errors tell them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use serde::{Deserialize, Serialize};

use crate::cut_text::cut;
use crate::death::{Death, Exit};

/// The end of a process, as far as it is known: its pid, how it ended, and its last lines of output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessEnd {
    /// The pid; `None` if the driver has not told of the end.
    pub pid: Option<u32>,
    /// The way in which the process ended, or the reason that it counts as dead.
    pub exit: Exit,
    /// The last lines of standard error without the frames of backtraces, oldest first; at most 20, each cut after 256 bytes.
    pub stderr_tail: Vec<String>,
}

/// The maximum length of a line of an end, and of the reason of its exit. All processes get them.
const LINE_BYTES_MAX: usize = 256;
const REASON_BYTES_MAX: usize = 1024;

impl ProcessEnd {
    /// An end of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self::of(Exit::Unknown)
    }

    /// An end of which nothing but this is known.
    pub(crate) fn of(exit: Exit) -> Self {
        ProcessEnd {
            pid: None,
            exit: cut_reason(exit),
            stderr_tail: Vec::new(),
        }
    }

    /// The end of the process, without the actors in it.
    pub(crate) fn of_death(death: &Death) -> Self {
        let lines = death.stderr_tail.iter();
        ProcessEnd {
            pid: death.pid,
            stderr_tail: lines
                .map(|line| cut(line, LINE_BYTES_MAX).unwrap_or_else(|| line.clone()))
                .collect(),
            ..Self::of(death.exit.clone())
        }
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pid) = self.pid {
            write!(f, "pid {pid}, ")?;
        }
        self.exit.fmt(f)?;
        match self.stderr_tail.last() {
            Some(last) => write!(f, "; last line on stderr: {last}"),
            None => Ok(()),
        }
    }
}

fn cut_reason(exit: Exit) -> Exit {
    let cut = |why: String| cut(&why, REASON_BYTES_MAX).unwrap_or(why);
    match exit {
        Exit::Ended(why) => Exit::Ended(cut(why)),
        Exit::NotRestored(why) => Exit::NotRestored(cut(why)),
        Exit::Killed(why) => Exit::Killed(cut(why)),
        Exit::Severed(why) => Exit::Severed(cut(why)),
        Exit::Fenced(why) => Exit::Fenced(cut(why)),
        other @ (Exit::Code(_) | Exit::Signal(_) | Exit::Silent(_) | Exit::Shutdown | Exit::Unknown) => other,
    }
}

/// The number of ends that a process keeps.
const ENDS_MAX: usize = 256;

/// The ends of the last processes that have died, by their lives.
#[derive(Default)]
pub(crate) struct EndBook(Mutex<KnownEnds>);

#[derive(Default)]
struct KnownEnds {
    by_life: IdMap<Peer, Arc<ProcessEnd>>,
    /// The lives in the order in which they were noted.
    order: VecDeque<Peer>,
}

impl EndBook {
    /// The driver has told how a life ended.
    pub(crate) fn told(&self, life: Peer, end: ProcessEnd) {
        self.note(life, end, true);
    }

    /// The end of a link tells how a life ended, unless the driver has told it.
    pub(crate) fn guessed(&self, life: Peer, end: ProcessEnd) {
        self.note(life, end, false);
    }

    fn note(&self, life: Peer, end: ProcessEnd, replaces: bool) {
        if end.exit == Exit::Unknown {
            return;
        }
        let mut ends = self.0.lock();
        let is_known = ends.by_life.contains_key(&life);
        if is_known && !replaces {
            return;
        }
        let before = ends.by_life.insert(life, Arc::new(end));
        if !is_known {
            ends.order.push_back(life);
        }
        let oldest = match ends.order.len() > ENDS_MAX {
            true => ends.order.pop_front(),
            false => None,
        };
        let forgotten = oldest.and_then(|oldest| ends.by_life.remove(&oldest));
        drop(ends);
        drop((before, forgotten));
    }

    /// How a life ended.
    pub(crate) fn end(&self, life: Peer) -> Arc<ProcessEnd> {
        or_unknown(self.known_end(life))
    }

    /// How a life ended, if that is known.
    pub(crate) fn known_end(&self, life: Peer) -> Option<Arc<ProcessEnd>> {
        self.0.lock().by_life.get(&life).cloned()
    }

    /// How the last life of a process ended of which that is known.
    pub(crate) fn last_end(&self, process: ProcessId) -> Arc<ProcessEnd> {
        let incarnation = Incarnation(u32::MAX);
        let ends = self.0.lock();
        let last = ends.by_life.last_before(Peer { process, incarnation });
        let last = last.filter(|(life, _)| life.process == process);
        or_unknown(last.map(|(_, end)| Arc::clone(end)))
    }
}

fn or_unknown(end: Option<Arc<ProcessEnd>>) -> Arc<ProcessEnd> {
    end.unwrap_or_else(|| Arc::new(ProcessEnd::unknown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(process: u32, incarnation: u32) -> Peer {
        Peer {
            process: ProcessId::new(process).unwrap(),
            incarnation: Incarnation(incarnation),
        }
    }

    #[test]
    fn what_the_driver_tells_stays_and_what_nobody_knows_is_not_kept() {
        let book = EndBook::default();
        let exit_of = |life| book.known_end(life).map(|end| end.exit.clone());
        book.guessed(life(2, 1), ProcessEnd::of(Exit::Fenced("cut off".into())));
        book.told(life(2, 1), ProcessEnd::of(Exit::Code(3)));
        book.guessed(life(2, 1), ProcessEnd::of(Exit::Fenced("cut off".into())));
        book.told(life(2, 1), ProcessEnd::unknown());
        assert_eq!(exit_of(life(2, 1)), Some(Exit::Code(3)));
        book.told(life(2, 2), ProcessEnd::unknown());
        assert_eq!(exit_of(life(2, 2)), None);
        book.told(life(2, 3), ProcessEnd::of(Exit::Code(4)));
        book.told(life(3, 1), ProcessEnd::of(Exit::Code(5)));
        assert_eq!(book.last_end(life(2, 1).process).exit, Exit::Code(4));
        assert_eq!(book.last_end(life(4, 1).process).exit, Exit::Unknown);
    }

    #[test]
    fn the_last_ends_are_kept_and_texts_are_cut() {
        let book = EndBook::default();
        for process in 1..=1000 {
            book.told(life(process, 1), ProcessEnd::of(Exit::Code(0)));
        }
        assert!(book.known_end(life(1000, 1)).is_some() && book.known_end(life(1, 1)).is_none());
        let kept = book.0.lock();
        assert_eq!((kept.by_life.len(), kept.order.len()), (ENDS_MAX, ENDS_MAX));
        let long = "ä".repeat(10_000);
        let Exit::Severed(why) = ProcessEnd::of(Exit::Severed(long.clone())).exit else {
            panic!("another exit")
        };
        assert_eq!(why, format!("{}…", "ä".repeat(REASON_BYTES_MAX / 2)));
        assert_eq!(cut("short", LINE_BYTES_MAX), None);
    }
}
