//! Silence: how a worker is found that runs no more and has not ended, because it is stopped or frozen.
//!
//! The driver asks each worker for a sign of life, ten times within the time limit, so a silent worker is found at most a
//! tenth of the limit late. A worker whose main thread loads
//! programs, or waits for busy lanes at its end, cannot answer meanwhile, and need not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::worker::link::Link;
use crate::worker::protocol::ToWorker;
use crate::worker::record::WorkerRecord;

/// The number of questions in a row that a silent worker leaves unanswered. A pause of the driver itself, of any length,
/// looks like one.
pub(crate) const QUESTIONS: u32 = 10;

/// The questions in a row that one process has left unanswered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SilentQuestions(u32);

impl SilentQuestions {
    /// The next question is due. `was_heard`: the process has answered the last one, or need not. Returns whether the process
    /// has been silent for the whole limit.
    pub(crate) fn count(&mut self, was_heard: bool) -> bool {
        self.0 = if was_heard { 0 } else { self.0 + 1 };
        self.0 >= QUESTIONS
    }
}

/// The signs of life of one process.
pub(super) struct Silence {
    heard: AtomicBool,
}

impl Silence {
    pub(super) fn new() -> Self {
        Silence {
            heard: AtomicBool::new(true),
        }
    }

    /// The worker has sent something.
    pub(super) fn hear(&self) {
        // Relaxed: the flag stands alone.
        self.heard.store(true, Ordering::Relaxed);
    }

    /// Waits until the worker has been silent for `limit`. `has_progressed` says whether long letters from or to it have come further since
    /// the last call: a question or its answer may wait behind them.
    pub(super) async fn lasts(
        &self,
        limit: Duration,
        record: &WorkerRecord,
        link: &Link,
        has_progressed: impl Fn() -> bool,
    ) {
        let mut unanswered = SilentQuestions::default();
        loop {
            tokio::time::sleep(limit / QUESTIONS).await;
            // Relaxed: the flag stands alone.
            let heard = self.heard.swap(false, Ordering::Relaxed) | has_progressed();
            if unanswered.count(heard || link.is_occupied() || record.is_told_to_end()) {
                return;
            }
            // A worker that is gone answers nothing; its death is noticed in another way.
            let _ = link.tell(&ToWorker::Ping);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;
    use crate::id::ProcessId;

    const LIMIT: Duration = Duration::from_secs(10);

    /// Runs a test in virtual time, which passes when all tasks sleep.
    fn in_virtual_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(test);
    }

    fn worker() -> WorkerRecord {
        WorkerRecord::new(ProcessId::next(), "w", Vec::new())
    }

    #[test]
    fn a_worker_is_silent_after_the_limit_and_a_tenth_at_most() {
        in_virtual_time(async {
            let (silence, record, (link, _queue)) = (Silence::new(), worker(), Link::new());
            let began = Instant::now();
            silence.lasts(LIMIT, &record, &link, || false).await;
            assert_eq!(began.elapsed(), LIMIT + LIMIT / QUESTIONS);
        });
    }

    #[test]
    fn a_worker_whose_answers_wait_behind_a_long_letter_is_not_silent_until_that_stops() {
        in_virtual_time(async {
            let (silence, record, (link, _queue)) = (Silence::new(), worker(), Link::new());
            let (began, flows) = (Instant::now(), LIMIT * 3);
            let has_progressed = || began.elapsed() <= flows;
            silence.lasts(LIMIT, &record, &link, has_progressed).await;
            assert_eq!(began.elapsed(), flows + LIMIT);
        });
    }

    #[test]
    fn a_worker_that_answers_or_loads_or_ends_is_not_silent() {
        in_virtual_time(async {
            let (silence, record, (link, mut queue)) = (Silence::new(), worker(), Link::new());
            let mut lasts = std::pin::pin!(silence.lasts(LIMIT, &record, &link, || false));
            let answers = async {
                // Every ninth question only.
                for asked in 1..200 {
                    assert!(queue.recv().await.is_some());
                    if asked % 9 == 0 {
                        silence.hear();
                    }
                }
            };
            tokio::select! {
                () = lasts.as_mut() => panic!("it answers"),
                () = answers => {}
            }
            link.request(
                |request| ToWorker::Load {
                    request,
                    kind: String::new(),
                },
                Vec::new(),
                Box::new(|_| {}),
            );
            assert!(timeout(LIMIT * 5, lasts.as_mut()).await.is_err(), "it loads");
            link.answer(0, crate::worker::link::Response::Loaded(Ok(Vec::new())));
            record.end(std::time::Instant::now());
            assert!(timeout(LIMIT * 5, lasts.as_mut()).await.is_err(), "it ends");
        });
    }
}
