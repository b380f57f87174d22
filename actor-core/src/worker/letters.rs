//! The words between a driver and a worker of another host: letters of the hub.
//!
//! On both sides the receiver of letters puts them into a queue, and the thread that acts on words takes them from there: the
//! control thread of the driver, the main thread of the worker. The terms on which the worker outlives the driver hold before.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use selvedge_cluster::frame::{Class, Head, Service};
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::body::Body;
use crate::hub::Hub;
use crate::hub::post::{Letter, Post, PostError, Receiver};
use crate::worker::link::{Link, Outgoing};
use crate::worker::protocol::{FrameError, FromWorker, ToWorker, read_head};

/// The service of words.
pub(crate) const WORDS: Service = Service(18);

/// The longest body of a word: the longest letter of the hub.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 30;

/// The bytes of one worker's words that wait for the control thread at most. A worker that is not answered sends no more
/// than it was asked for, so only one that violates the protocol gets there.
const WAITING_BYTES_MAX: usize = 2 << 30;

/// The bytes that a word in the queue takes beside its own.
const WORD_BYTES: usize = 256;

/// The streams of words. Signs of life have one of their own, so that none waits behind a long body. They are loose letters, which nobody
/// acknowledges: another one follows.
const ORDINARY: u64 = 0;
const SIGNS_OF_LIFE: u64 = 1;

/// A word as a letter.
pub(crate) fn letter(is_sign_of_life: bool, head: &[u8], body: impl Into<Body>) -> Letter {
    Letter {
        service: WORDS,
        class: if is_sign_of_life {
            Class::Loose
        } else {
            Class::Ordered
        },
        stream: if is_sign_of_life { SIGNS_OF_LIFE } else { ORDINARY },
        head: Head::from_slice(head),
        body: body.into(),
    }
}

/// The variable with the time after which a worker that hears nothing of its driver ends.
const ENV_TIMEOUT: &str = "SELVEDGE_WORKER_TIMEOUT_MS";

/// The shortest such time.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// The time after which a worker that hears nothing of its driver ends: 60 s, or what the environment says.
pub(crate) fn driver_timeout() -> Duration {
    let given = std::env::var(ENV_TIMEOUT).ok();
    let millis = given.and_then(|text| text.parse().ok());
    let limit = millis.map_or(Duration::from_secs(60), Duration::from_millis);
    limit.max(TIMEOUT_MIN)
}

/// Sends the words of a queue to a worker, until the link or the hub is gone. A worker that is told nothing for a quarter of
/// its timeout is asked for a sign of life, which is one of the driver as well. A request for which there is no room fails alone.
pub(crate) async fn write_letters(
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    link: Weak<Link>,
    hub: Weak<Hub>,
    to: Peer,
) {
    let heartbeat = driver_timeout() / 4;
    let ping = postcard::to_stdvec(&ToWorker::Ping).unwrap_or_default();
    loop {
        let word = match timeout(heartbeat, queue.recv()).await {
            Ok(Some(word)) => Some(word),
            Ok(None) => return,
            Err(_) => None,
        };
        let Some(hub) = hub.upgrade() else { return };
        let request = word.as_ref().and_then(Outgoing::request);
        let sent = match word {
            Some(mut word) => {
                let body = word.take_body();
                hub.send(to, letter(word.head() == ping, word.head(), body))
            }
            None => hub.send(to, letter(true, &ping, Bytes::new())),
        };
        match (request, sent) {
            (Some(request), Err(error @ (PostError::Full { .. } | PostError::TooLarge { .. }))) => {
                if let Some(link) = link.upgrade() {
                    link.refuse(request, error.to_string());
                }
            }
            (_, sent) => hub.told(to, sent),
        }
    }
}

/// The words that have come from one worker.
pub(crate) struct ArrivedLetters {
    worker: Peer,
    words: Weak<WordsOfWorkers>,
    letters: mpsc::UnboundedReceiver<Letter>,
    waiting: Arc<AtomicUsize>,
}

impl Drop for ArrivedLetters {
    fn drop(&mut self) {
        // A worker that has never joined is not announced as dead.
        if let Some(words) = self.words.upgrade() {
            words.forget(self.worker);
        }
    }
}

impl ArrivedLetters {
    /// Waits for the next word and its body; `None` once the worker is dead.
    ///
    /// # Errors
    /// [`FrameError`]: what comes is no word.
    pub(crate) async fn next(&mut self) -> Result<Option<(FromWorker, Vec<u8>)>, FrameError> {
        let Some(letter) = self.letters.recv().await else {
            return Ok(None);
        };
        // Relaxed: the count stands alone.
        self.waiting.fetch_sub(bytes(&letter), Ordering::Relaxed);
        Ok(Some((read_head(&letter.head)?, letter.body.to_bytes().into())))
    }
}

/// The service of words in the driver.
pub(crate) struct WordsOfWorkers {
    this: Weak<WordsOfWorkers>,
    hub: Weak<Hub>,
    queues: Mutex<IdMap<Peer, WordQueue>>,
}

struct WordQueue {
    letters: mpsc::UnboundedSender<Letter>,
    waiting: Arc<AtomicUsize>,
}

impl WordsOfWorkers {
    /// Registers the service with a driver's new hub.
    pub(crate) fn register(hub: &Arc<Hub>) -> Arc<Self> {
        let words = Arc::new_cyclic(|this| WordsOfWorkers {
            this: Weak::clone(this),
            hub: Arc::downgrade(hub),
            queues: Mutex::default(),
        });
        hub.register(WORDS, Arc::clone(&words) as Arc<dyn Receiver>);
        words
    }

    /// The words of a worker, before any of them has come.
    pub(crate) fn of(&self, worker: Peer) -> ArrivedLetters {
        let (sender, letters) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let queue = WordQueue {
            letters: sender,
            waiting: Arc::clone(&waiting),
        };
        self.queues.lock().insert(worker, queue);
        ArrivedLetters {
            worker,
            words: Weak::clone(&self.this),
            letters,
            waiting,
        }
    }

    fn forget(&self, worker: Peer) {
        let removed = self.queues.lock().remove(&worker);
        drop(removed);
    }

    /// Queues a letter. Returns the reason for which the sender is cut off.
    fn queue(&self, from: Peer, letter: Letter) -> Result<(), &'static str> {
        let queues = self.queues.lock();
        let queue = queues
            .get(&from)
            .ok_or("it speaks like a worker of another host, and is none")?;
        // Relaxed: the count stands alone.
        let before = queue.waiting.fetch_add(bytes(&letter), Ordering::Relaxed);
        if before > WAITING_BYTES_MAX {
            return Err("its words come faster than they are read");
        }
        // The receiver is gone when the death of the worker was announced.
        let _ = queue.letters.send(letter);
        Ok(())
    }
}

impl Receiver for WordsOfWorkers {
    fn received(&self, from: Peer, letter: Letter) {
        if let (Err(why), Some(hub)) = (self.queue(from, letter), self.hub.upgrade()) {
            hub.cut(from, why.to_owned());
        }
    }

    fn died(&self, peer: Peer, _: &[(u64, Outcome)]) {
        self.forget(peer);
    }
}

fn bytes(letter: &Letter) -> usize {
    WORD_BYTES + letter.head.len() + letter.body.len()
}

/// The service of words in a worker.
pub(crate) struct WordsOfDriver {
    pub(crate) hub: Weak<Hub>,
    pub(crate) words: Sender<WordOfDriver>,
    pub(crate) way_on: Arc<dyn WayOn>,
}

/// The life of a worker after that of its driver.
pub(crate) trait WayOn: Send + Sync {
    /// Begins to wait for the driver's next life, or ends this process if there is no way on.
    fn begin(self: Arc<Self>);
}

/// A word that the main thread of a worker gets of its driver, or about it.
pub(crate) enum WordOfDriver {
    /// The message, or why it is none, and its body.
    Word(Result<ToWorker, FrameError>, Body),
    /// The driver is dead, and so is all that it has made here. Its next life may come.
    Died,
}

impl Receiver for WordsOfDriver {
    fn received(&self, from: Peer, letter: Letter) {
        if from.process != ProcessId::HEAD {
            let why = "it speaks like the driver, and is another process";
            if let Some(hub) = self.hub.upgrade() {
                hub.cut(from, why.to_owned());
            }
            return;
        }
        let word = read_head(&letter.head);
        // The main thread takes words as long as the process lives.
        let _ = self.words.send(WordOfDriver::Word(word, letter.body));
    }

    fn died(&self, peer: Peer, _: &[(u64, Outcome)]) {
        if peer.process == ProcessId::HEAD {
            // Queued before the words of the next life.
            let _ = self.words.send(WordOfDriver::Died);
            Arc::clone(&self.way_on).begin();
        }
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;
    use crate::testing::peer;

    /// Counts how often it was begun.
    #[derive(Default)]
    struct CountedWay(AtomicUsize);

    impl WayOn for CountedWay {
        fn begin(self: Arc<Self>) {
            // Relaxed: one thread counts.
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_death_of_the_driver_alone_begins_the_way_on_and_is_told_behind_its_words() {
        let (words, queue) = unbounded();
        let way_on = Arc::<CountedWay>::default();
        let service = WordsOfDriver {
            hub: Weak::new(),
            words,
            way_on: Arc::clone(&way_on) as Arc<dyn WayOn>,
        };
        let word = postcard::to_stdvec(&ToWorker::Ping).unwrap();
        service.received(peer(1), letter(false, &word, ""));
        service.died(peer(3), &[]);
        // Relaxed: as above.
        assert_eq!(way_on.0.load(Ordering::Relaxed), 0);
        service.died(peer(1), &[]);
        // Relaxed: as above.
        assert_eq!(way_on.0.load(Ordering::Relaxed), 1);
        let words: Vec<_> = queue.try_iter().collect();
        let [WordOfDriver::Word(Ok(ToWorker::Ping), _), WordOfDriver::Died] = &words[..] else {
            panic!("{} words", words.len());
        };
    }
}
