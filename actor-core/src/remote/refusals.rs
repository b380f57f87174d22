//! A thread that drops refused work for threads which must not run user code. Begun on demand, ended with the executor.

use std::any::Any;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use selvedge_channels::dispose;

use super::on_demand::OnDemand;
use super::threads::Threads;

/// The refusals that wait at most. Further ones are dropped by whoever refuses, which slows down a peer that asks for too much.
const REFUSALS_MAX: usize = 1024;

type RefusedBox = Box<dyn Any + Send>;

/// The thread that drops refused work.
pub(crate) struct RefusalThread {
    threads: Threads,
    queue: OnDemand<SyncSender<RefusedBox>>,
}

impl RefusalThread {
    pub(crate) fn new(threads: &Threads) -> Self {
        RefusalThread {
            threads: threads.clone(),
            queue: OnDemand::new(),
        }
    }

    /// Drops refused work on the thread; on the calling one if the system gives no thread, if the thread has ended, or if it
    /// has too much to drop already.
    pub(crate) fn drop_there(&self, refused: impl Send + 'static) {
        let start = || {
            let (sender, receiver) = sync_channel(REFUSALS_MAX);
            self.threads.start("selvedge-refusals", move || live(&receiver))?;
            Ok(sender)
        };
        if let Ok(sender) = self.queue.get(start) {
            // What is not sent is dropped here.
            drop(sender.try_send(Box::new(refused)));
        }
    }

    /// Ends the thread, once it has dropped what it has.
    pub(crate) fn stop(&self) {
        self.queue.stop();
    }
}

fn live(refusals: &Receiver<RefusedBox>) {
    while let Ok(refused) = refusals.recv() {
        dispose(refused);
    }
}
