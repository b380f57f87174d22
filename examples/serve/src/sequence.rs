//! A text that the model continues, as a member of its steps.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_batching::{Grant, Sequence};
use selvedge_llama::step::{Batch, Part, Sampled};

use crate::generation::Generation;
use crate::mailbox::Sender;
use crate::metrics::Metrics;
use crate::stops::{Heard, Stops};
use crate::vocabulary::{Speech, Vocabulary};

/// The reason why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended the answer, or a stop text was found.
    Stop,
    /// The answer reached the requested number of tokens, or the time that an answer may take.
    Length,
}

impl Finish {
    /// Returns OpenAI's word for the reason.
    pub fn word(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
        }
    }
}

/// The end of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The reason.
    pub finish: Finish,
    /// The number of tokens that the model chose, including one that ends the text.
    pub completion_tokens: u32,
}

/// A request in flight.
pub struct Text {
    generation: Generation,
    vocabulary: Arc<dyn Vocabulary>,
    metrics: Arc<Metrics>,
    speech: Speech,
    stops: Stops,
    sender: Sender,
    /// The number of prompt tokens that went into steps so far.
    fed: usize,
    /// The token chosen last, which goes into the next step.
    last: Option<u32>,
    chosen: u32,
    /// The time of the request, or of the last token.
    since: Instant,
    /// The time that the answer may take from its first step on.
    time: Duration,
    /// The moment of the first step.
    began: Option<Instant>,
}

impl Text {
    /// Creates a request for the queue; its text arrives in the mailbox. After `time`, counted from its first step on, the
    /// answer ends with the text so far.
    pub fn new(
        generation: Generation,
        vocabulary: Arc<dyn Vocabulary>,
        metrics: Arc<Metrics>,
        sender: Sender,
        time: Duration,
    ) -> Text {
        Text {
            speech: Speech::new(Arc::clone(&vocabulary)),
            stops: Stops::new(generation.stop.clone()),
            generation,
            vocabulary,
            metrics,
            sender,
            fed: 0,
            last: None,
            chosen: 0,
            since: Instant::now(),
            time,
            began: None,
        }
    }

    fn take(&mut self, token: u32) -> ControlFlow<Ending> {
        let metrics = &self.metrics;
        let waited = if self.chosen == 0 {
            &metrics.first_token
        } else {
            &metrics.between_tokens
        };
        waited.record(self.since.elapsed());
        metrics.completion_tokens.add(1);
        self.since = Instant::now();
        self.chosen += 1;
        self.last = Some(token);
        if self.vocabulary.is_end(token) {
            return self.end(Finish::Stop);
        }
        match self.stops.push(&self.speech.push(token)) {
            Heard::Stop(text) => {
                self.sender.push(&text);
                return self.done(Finish::Stop);
            }
            Heard::Text(text) => self.sender.push(&text),
        }
        if self.chosen >= self.generation.max_tokens || self.is_late() {
            return self.end(Finish::Length);
        }
        ControlFlow::Continue(())
    }

    fn is_late(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() >= self.time)
    }

    /// Ends the answer with the text that was held back.
    fn end(&mut self, finish: Finish) -> ControlFlow<Ending> {
        match self.stops.push(&self.speech.finish()) {
            Heard::Stop(text) => {
                self.sender.push(&text);
                self.done(Finish::Stop)
            }
            Heard::Text(text) => {
                self.sender.push(&(text + &self.stops.finish()));
                self.done(finish)
            }
        }
    }

    fn done(&self, finish: Finish) -> ControlFlow<Ending> {
        ControlFlow::Break(Ending {
            finish,
            completion_tokens: self.chosen,
        })
    }

    /// Returns the prompt tokens that are left.
    fn left(&self) -> &[u32] {
        self.generation.prompt.get(self.fed..).unwrap_or_default()
    }
}

impl Sequence for Text {
    type Step = Batch;
    type Answers = Vec<Sampled>;
    type Output = Ending;

    fn cost(&self) -> usize {
        self.left().len().max(1)
    }

    fn join(&mut self, step: &mut Batch, grant: Grant) {
        self.began.get_or_insert_with(Instant::now);
        let left = self.left();
        let (tokens, whole) = match self.last {
            Some(token) => (vec![token], true),
            None => {
                let piece = left.get(..grant.budget.max(1)).unwrap_or(left);
                (piece.to_vec(), piece.len() == left.len())
            }
        };
        let start = self.fed as u32;
        self.fed += tokens.len();
        let sampling = whole.then_some(self.generation.sampling);
        step.parts.push(Part {
            slot: grant.slot,
            start,
            tokens,
            sampling,
        });
    }

    fn advance(&mut self, answers: &mut Vec<Sampled>, grant: Grant) -> ControlFlow<Ending> {
        match answers.iter().find(|answer| answer.slot == grant.slot) {
            Some(answer) => self.take(answer.token),
            None if self.is_late() => self.end(Finish::Length),
            None => ControlFlow::Continue(()),
        }
    }
}
