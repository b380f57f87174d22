//! A call whose arguments are on their way. It holds no thread and no place: an argument that arrives, or the call's
//! cancellation, gives it back to the executor.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use selvedge_channels::dispose;

use crate::call::remote_error::RemoteError;
use crate::cancel::CallCancel;
use crate::current::Current;
use crate::remote::executor::{Executor, Resting, WorkRefusal};
use crate::remote::function::Ended;
use crate::remote::job::{Reply, fault, polled};
use crate::remote::piece::Piece;

/// A call whose arguments are on their way.
pub(crate) struct ResolvingJob {
    /// Resolves the arguments, and then runs the function.
    pub(crate) ended: Pin<Box<dyn Future<Output = Ended> + Send>>,
    pub(crate) cancel: Arc<CallCancel>,
    pub(crate) current: Arc<Current>,
    pub(crate) reply: Reply,
    pub(crate) executor: Executor<Piece>,
    #[expect(dead_code, reason = "it counts the call while it lives")]
    pub(crate) resting: Resting,
}

/// The place of a call between two looks at its arguments.
#[derive(Default)]
enum Rest {
    /// A thread looks at the arguments.
    #[default]
    Looking,
    /// Something has come since the last look.
    Called,
    /// Nothing has come.
    Asleep(ResolvingJob),
}

#[derive(Default)]
struct Bed(Mutex<Rest>);

impl ResolvingJob {
    /// Looks at the arguments, and runs the function if all of them are there.
    pub(crate) fn run(mut self) {
        let bed = Arc::<Bed>::default();
        let waker = Waker::from(Arc::clone(&bed));
        let mut context = Context::from_waker(&waker);
        loop {
            let ended = self.ended.as_mut();
            if let Poll::Ready(ended) = polled(ended, &mut context, &self.cancel, &self.current) {
                dispose(self.ended);
                self.cancel.answered();
                return (self.reply)(ended.map_err(fault));
            }
            match bed.rest(self) {
                Some(called) => self = called,
                None => return,
            }
        }
    }

    /// The function will not run.
    pub(crate) fn refuse(self, why: WorkRefusal) {
        dispose(self.ended);
        self.cancel.answered();
        (self.reply)(Err(RemoteError::from(why)));
    }
}

impl Bed {
    /// Puts the call to rest, or returns it if something has come meanwhile.
    fn rest(&self, job: ResolvingJob) -> Option<ResolvingJob> {
        let mut rest = self.0.lock();
        match std::mem::take(&mut *rest) {
            Rest::Called => Some(job),
            Rest::Looking | Rest::Asleep(_) => {
                *rest = Rest::Asleep(job);
                None
            }
        }
    }
}

impl Wake for Bed {
    fn wake(self: Arc<Self>) {
        let rest = std::mem::replace(&mut *self.0.lock(), Rest::Called);
        if let Rest::Asleep(job) = rest {
            let executor = job.executor.clone();
            executor.submit(Piece::Resolving(job));
        }
    }
}
