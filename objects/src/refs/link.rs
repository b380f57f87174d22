//! The knowledge of a process about another one: numbers, waiting messages, unanswered questions.

use std::time::Duration;

use selvedge_cluster::id_map::{IdMap, IdSet};

use super::due::Repetition;
use super::mutant::Mutant;
use super::{Bundle, Message, RefId, RefSettings};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Link {
    /// The entries of other tables that the peer has caused.
    pub(super) entries: usize,
    /// The number of registrations with this owner so far.
    registered: u64,
    /// The numbers of registrations that this owner has not answered.
    unanswered: IdSet<u64>,
    /// The highest `low` that this user has sent.
    low: u64,
    /// The numbers of this user from `low` on that were listed and struck off.
    struck: IdSet<u64>,
    /// Messages for the next bundle.
    outbox: Vec<Message>,
    /// References whose release waits for the next bundle, and is decided then.
    pub(super) leaving: IdSet<RefId>,
    /// The time at which the next bundle goes.
    flush_due: Option<Duration>,
    /// The time at which the last bundle went.
    flushed: Duration,
    /// Unanswered questions, each with the time of its repetition and the pause after that.
    questions: IdMap<Message, (Duration, Duration)>,
    /// Unanswered questions by the time of their repetition.
    repetitions: IdSet<Repetition>,
}

impl Link {
    /// The number of the next registration with this owner. `low` stays below it until [`Link::answered`].
    pub(super) fn register(&mut self) -> u64 {
        self.registered += 1;
        self.unanswered.insert(self.registered);
        self.registered
    }

    /// The question of a registration was answered, or will never be asked.
    pub(super) fn answered(&mut self, number: u64) {
        self.unanswered.remove(&number);
    }

    /// The user's `low`. Returns whether that is news.
    pub(super) fn raise(&mut self, low: u64) -> bool {
        let is_news = low > self.low;
        if is_news {
            self.low = low;
            while self.struck.first().is_some_and(|struck| *struck < low) {
                self.struck.pop_first();
            }
        }
        is_news
    }

    /// Whether this user has the answer to the question of a number.
    pub(super) fn is_old(&self, number: u64) -> bool {
        number < self.low
    }

    /// Whether the question of a number was answered here and, unless the number is listed, it was struck off.
    pub(super) fn is_past(&self, number: u64) -> bool {
        self.is_old(number) || self.struck.contains(&number)
    }

    /// Remembers that a number was struck off, for as long as copies of its question may be on their way.
    pub(super) fn strike(&mut self, number: u64) {
        if number >= self.low {
            self.struck.insert(number);
        }
    }

    /// Puts a message into the next bundle. Returns whether the bundle is full.
    pub(super) fn post(&mut self, now: Duration, message: Message, settings: &RefSettings) -> bool {
        if !self.outbox.contains(&message) {
            self.outbox.push(message);
        }
        self.wait(now, settings)
    }

    /// Puts the release of a reference, if it is still due then, into the next bundle. Returns whether the bundle is full.
    pub(super) fn leave(&mut self, now: Duration, id: RefId, settings: &RefSettings) -> bool {
        self.leaving.insert(id);
        self.wait(now, settings)
    }

    fn wait(&mut self, now: Duration, settings: &RefSettings) -> bool {
        self.flush_due
            .get_or_insert(now.saturating_add(settings.batch_after));
        self.outbox.len() + self.leaving.len() >= settings.batch_max
    }

    /// Has the next bundle go as soon as one may that a call waits for. Returns whether that is now.
    pub(super) fn hurry(&mut self, now: Duration, settings: &RefSettings) -> bool {
        let prompt = self.flushed.saturating_add(settings.prompt_after);
        self.flush_due = self.flush_due.map(|due| due.min(prompt.max(now)));
        self.is_flush_due(now)
    }

    /// Repeats a question from some time on until it is answered.
    pub(super) fn ask(&mut self, now: Duration, question: Message, settings: &RefSettings) {
        self.settle(&question);
        self.repeat_after(now, question, settings.retry_first);
    }

    fn repeat_after(&mut self, now: Duration, question: Message, pause: Duration) {
        let due = now.saturating_add(pause);
        self.questions.insert(question, (due, pause));
        self.repetitions.insert(Repetition { due, question });
    }

    /// Whether a question was unanswered until now.
    pub(super) fn settle(&mut self, question: &Message) -> bool {
        let Some((due, _)) = self.questions.remove(question) else {
            return false;
        };
        let question = *question;
        self.repetitions.remove(&Repetition { due, question });
        true
    }

    /// Puts the questions that are due into the next bundle.
    pub(super) fn repeat(&mut self, now: Duration, settings: &RefSettings) {
        let mut due = Vec::new();
        while self.repetitions.first().is_some_and(|first| first.due <= now) {
            due.extend(self.repetitions.pop_first().map(|first| first.question));
        }
        if due.is_empty() {
            return;
        }
        let waiting: IdSet<_> = self.outbox.iter().copied().collect();
        for question in due {
            let pause = self
                .questions
                .get(&question)
                .map_or(settings.retry_first, |(_, pause)| *pause);
            self.repeat_after(now, question, pause.saturating_mul(2).min(settings.retry_max));
            if !waiting.contains(&question) {
                self.outbox.push(question);
            }
        }
        self.flush_due = Some(now);
    }

    pub(super) fn is_flush_due(&self, now: Duration) -> bool {
        self.flush_due.is_some_and(|due| due <= now)
    }

    pub(super) fn due(&self) -> Option<Duration> {
        let repetition = self.repetitions.first().map(|first| first.due);
        [self.flush_due, repetition].into_iter().flatten().min()
    }

    /// The waiting messages, in bundles.
    pub(super) fn bundles(&mut self, now: Duration, settings: &RefSettings, mutant: Mutant) -> Vec<Bundle> {
        self.flush_due = None;
        if !self.outbox.is_empty() {
            self.flushed = now;
        }
        let unanswered = self
            .unanswered
            .first()
            .filter(|_| mutant != Mutant::LowMovesEarly);
        let low = unanswered.map_or(self.registered + 1, |first| *first);
        let messages = std::mem::take(&mut self.outbox);
        let bundles = messages.chunks(settings.batch_max.max(1));
        bundles
            .map(|it| Bundle {
                low,
                messages: it.to_vec(),
            })
            .collect()
    }

    /// The number of messages that wait for their bundle.
    pub(super) fn waiting(&self) -> usize {
        self.outbox.len() + self.leaving.len()
    }

    /// All entries that the peer has caused.
    pub(super) fn load(&self) -> usize {
        self.entries + self.questions.len() + self.struck.len()
    }

    pub(super) fn unanswered_questions(&self) -> usize {
        self.questions.len()
    }
}
