//! The thread that writes a head's log: it writes what has come meanwhile at once, and then says so to each who has asked.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::error::HeadLogError;
use super::file::LogFile;
use super::record::HeadRecord;

/// The reason that a decision is not in the log: the log cannot be written any more, and the head ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the decision cannot be logged: {0}")]
pub(crate) struct NotLogged(Arc<str>);

/// Is called on the log's thread once a decision is on the disk, or will not be. It must not block.
pub(crate) type ThenTell = Box<dyn FnOnce(Result<(), NotLogged>) + Send>;

struct Decision {
    /// `None` for a wait until all decisions before are on the disk.
    record: Option<HeadRecord>,
    then: ThenTell,
}

/// The log of a head. The drop ends the thread when everything is written.
pub(crate) struct HeadLog {
    /// `None` once the log is about to end.
    decisions: Mutex<Option<Sender<Decision>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl HeadLog {
    /// Starts the thread. `failed` is called once, when a decision cannot be written.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(
        file: LogFile,
        failed: impl FnOnce(HeadLogError) + Send + 'static,
    ) -> io::Result<Self> {
        let (decisions, made) = unbounded();
        let thread = thread::Builder::new()
            .name("selvedge-head-log".to_owned())
            .spawn(move || keep(file, &made, failed))?;
        Ok(HeadLog {
            decisions: Mutex::new(Some(decisions)),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Logs a decision, and calls `then` when it may be told.
    pub(crate) fn note_then(
        &self,
        record: HeadRecord,
        then: impl FnOnce(Result<(), NotLogged>) + Send + 'static,
    ) {
        self.push(Some(record), Box::new(then));
    }

    /// Calls `then` when all decisions so far may be told.
    pub(crate) fn after_all(&self, then: impl FnOnce(Result<(), NotLogged>) + Send + 'static) {
        self.push(None, Box::new(then));
    }

    /// Has a decision made and logs it. Of decisions that are made by this function, those that are made first are logged first.
    pub(crate) fn decide(&self, make: impl FnOnce() -> (HeadRecord, ThenTell)) {
        self.push_made(|| {
            let (record, then) = make();
            let record = Some(record);
            Decision { record, then }
        });
    }

    fn push(&self, record: Option<HeadRecord>, then: ThenTell) {
        self.push_made(|| Decision { record, then });
    }

    fn push_made(&self, make: impl FnOnce() -> Decision) {
        let refused = {
            let decisions = self.decisions.lock();
            let decision = make();
            match &*decisions {
                Some(decisions) => decisions.send(decision).err().map(|refused| refused.0),
                None => Some(decision),
            }
        };
        if let Some(refused) = refused {
            (refused.then)(Err(NotLogged("the head has ended".into())));
        }
    }

    /// Logs a decision that nobody waits for.
    pub(crate) fn note_later(&self, record: HeadRecord) {
        self.note_then(record, |_| {});
    }

    /// Logs a decision, and waits until it may be told.
    ///
    /// # Errors
    /// [`NotLogged`].
    pub(crate) async fn note(&self, record: HeadRecord) -> Result<(), NotLogged> {
        let (logged, answer) = oneshot::channel();
        self.note_then(record, |result| {
            // Whoever has asked may have gone.
            let _ = logged.send(result);
        });
        let ended = || Err(NotLogged("the thread of the log has ended".into()));
        answer.await.unwrap_or_else(|_| ended())
    }

    /// Writes what is left, and ends the thread.
    pub(crate) fn end(&self) {
        drop(self.decisions.lock().take());
        let thread = self.thread.lock().take();
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

impl Drop for HeadLog {
    fn drop(&mut self) {
        self.end();
    }
}

fn keep(mut file: LogFile, made: &Receiver<Decision>, failed: impl FnOnce(HeadLogError)) {
    let mut failed = Some(failed);
    let mut defect: Option<NotLogged> = None;
    while let Ok(first) = made.recv() {
        let (mut records, mut waiting) = (Vec::new(), Vec::new());
        for Decision { record, then } in std::iter::once(first).chain(made.try_iter()) {
            records.extend(record);
            waiting.push(then);
        }
        if defect.is_none()
            && !records.is_empty()
            && let Err(error) = file.append(records)
        {
            defect = Some(NotLogged(error.to_string().into()));
            if let Some(failed) = failed.take() {
                failed(error);
            }
        }
        for then in waiting {
            then(defect.clone().map_or(Ok(()), Err));
        }
    }
}
