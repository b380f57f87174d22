//! The driver's question how far the lanes of other hosts are, for reports of what is stuck.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use selvedge_core::{Body, HostId, IdMap, IdSet, LaneId, ProcessId};

use super::joint::Joint;
use super::word::Word;
use crate::ir::Plan;
use crate::run::control::{Phase, Progress};

/// The longest wait for the answers.
const ANSWERS_TIMEOUT: Duration = Duration::from_millis(200);

/// The question that was asked last.
#[derive(Default)]
struct ProgressQuestion {
    number: u64,
    /// The stewards that have not answered.
    missing: IdSet<ProcessId>,
    found: IdMap<LaneId, Progress>,
}

/// The answers to the last question.
#[derive(Default)]
struct LastAnswers {
    /// The moment of the question.
    asked: Option<Instant>,
    found: IdMap<LaneId, Progress>,
}

/// The questions of a driver, one at a time.
#[derive(Default)]
pub(super) struct Asking {
    turn: Mutex<LastAnswers>,
    question: Mutex<ProgressQuestion>,
    answered: Condvar,
}

impl Asking {
    /// Notes an answer, unless nobody waits for it any more.
    pub(super) fn answer(&self, from: ProcessId, number: u64, lanes: Vec<(LaneId, Progress)>) {
        let mut question = self.question.lock();
        if question.number == number && question.missing.remove(&from) {
            question.found.extend(lanes);
            self.answered.notify_all();
        }
    }
}

impl Joint {
    /// The progress of the lanes on other hosts. Lanes of a host that does not answer in time are silent. Whoever comes while another
    /// one asks shares the answers to the next question, so nobody waits longer than two questions last.
    pub(crate) fn progress_elsewhere(&self, plan: &Plan) -> IdMap<LaneId, Progress> {
        let came = Instant::now();
        let mut last = self.asking.turn.lock();
        if last.asked.is_none_or(|asked| asked < came) {
            last.asked = Some(Instant::now());
            last.found = self.ask_elsewhere(plan);
        }
        last.found.clone()
    }

    fn ask_elsewhere(&self, plan: &Plan) -> IdMap<LaneId, Progress> {
        let deadline = Instant::now() + ANSWERS_TIMEOUT;
        let far = plan
            .lanes
            .iter()
            .filter(|lane| lane.address.host != HostId::DRIVER);
        let stewards: IdSet<ProcessId> = far.clone().map(|lane| plan.steward(lane.address.host)).collect();
        let number = {
            let mut question = self.asking.question.lock();
            question.number += 1;
            question.missing = stewards.clone();
            question.found.clear();
            question.number
        };
        for steward in &stewards {
            // A process that cannot be asked does not answer.
            let _ = self.send(*steward, &Word::Ask { question: number }, Body::default());
        }
        let mut question = self.asking.question.lock();
        self.asking.answered.wait_while_until(
            &mut question,
            |question| !question.missing.is_empty(),
            deadline,
        );
        let mut found = std::mem::take(&mut question.found);
        for lane in far {
            let silent = Progress {
                execution: 0,
                task: u32::MAX,
                phase: Phase::Silent,
            };
            found.get_or_insert_with(lane.address.lane, || silent);
        }
        found
    }
}
