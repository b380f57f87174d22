//! The thread of a lane: started once, stopped once, and joined with a deadline.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use selvedge_channels::dispose;

use crate::boxed::boxed_run;
use crate::call::request::{ActorCall, CallFault};
use crate::current::{Current, OwnThread, Place, within_current};
use crate::id::LaneId;
use crate::lane::host::LaneState;
use crate::lane::mailbox::{LaneMessage, Mailbox};

/// A running lane. Its drop neither stops the thread nor waits for it: [`LaneThread::stop`] stops the thread, and
/// [`LaneThread::join_until`] waits.
pub(crate) struct LaneThread {
    id: LaneId,
    name: String,
    mailbox: Arc<Mailbox>,
    ended: Arc<EndSignal>,
    place: Arc<OwnThread>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

/// A callback for the end of a lane, called on the lane's thread.
pub(crate) type OnEnd = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct EndSignal {
    /// The progress of the end, and the callbacks that wait for it.
    state: Mutex<EndState>,
    changed: Condvar,
}

#[derive(Default)]
struct EndState {
    ended: bool,
    /// Set once the thread has also dropped its thread-local values, which is user code.
    gone: bool,
    waiting: Vec<OnEnd>,
}

impl LaneThread {
    /// Starts the thread, with the name `lane <name>`. The user code on it has these surroundings.
    pub(crate) fn start(id: LaneId, name: &str, current: Option<Arc<Current>>) -> io::Result<Arc<Self>> {
        let mailbox = Arc::new(Mailbox::default());
        let ended = Arc::new(EndSignal::default());
        let place = Arc::<OwnThread>::default();
        let own = |current: Arc<Current>| Current {
            place: Arc::clone(&place) as Arc<dyn Place>,
            ..Current::clone(&current)
        };
        let current = current.map(own).map(Arc::new);
        let run = {
            let mailbox = Arc::clone(&mailbox);
            let ended = Arc::clone(&ended);
            move || live(id, &mailbox, &ended, current.as_ref())
        };
        // The name of a thread must not contain NUL.
        let thread_name = format!("lane {name}").replace('\0', "?");
        let handle = thread::Builder::new().name(thread_name).spawn(boxed_run(run))?;
        Ok(Arc::new(Self {
            id,
            name: name.to_owned(),
            mailbox,
            ended,
            place,
            handle: Mutex::new(Some(handle)),
        }))
    }

    pub(crate) fn id(&self) -> LaneId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Queues a message; returns it if the lane has ended.
    pub(crate) fn push(&self, message: LaneMessage) -> Result<(), LaneMessage> {
        self.mailbox.push(message)
    }

    /// Queues a call; a lane that has ended replies that it has no such actor.
    pub(crate) fn call(&self, call: ActorCall) {
        if let Err(LaneMessage::Call(call)) = self.push(LaneMessage::Call(call)) {
            (call.reply)(Err(CallFault::NoActor));
        }
    }

    /// Makes an async method that the lane's program awaits ask again whether it is wanted.
    pub(crate) fn wake_async(&self) {
        self.mailbox.wake_async();
    }

    /// Asks the lane to end after the messages that were queued before, and after the program that it runs.
    pub(crate) fn stop(&self) {
        // Only a lane that has ended returns the message, and then there is nothing to ask for.
        let _ = self.mailbox.push(LaneMessage::Stop);
    }

    /// Abandons the lane: no message reaches it any more, and calls that wait are answered by broken promises. Its
    /// thread ends when the code that occupies it returns.
    pub(crate) fn abandon(&self) {
        self.mailbox.close();
    }

    /// Calls `on_end` when the lane has ended; at once, on the calling thread, if it has ended already.
    pub(crate) fn when_ended(&self, on_end: OnEnd) {
        let mut state = self.ended.state.lock();
        if state.ended {
            drop(state);
            return on_end();
        }
        state.waiting.push(on_end);
    }

    /// Whether the lane has ended and its thread runs no more user code.
    pub(crate) fn is_gone(&self) -> bool {
        self.ended.state.lock().gone
    }

    /// Whether the caller is the lane's own thread.
    pub(crate) fn is_own(&self) -> bool {
        let is_own = |handle: &JoinHandle<()>| handle.thread().id() == thread::current().id();
        self.handle.lock().as_ref().is_some_and(is_own)
    }

    /// Whether a method of the lane waits at present, so that no other one runs. If the caller is the lane's thread, that method is the
    /// caller's own.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_own() || self.place.is_waiting()
    }

    /// Waits for the thread to end. Returns `false` if the deadline passes first, or if the caller is the lane's own
    /// thread; the thread is then left behind.
    pub(crate) fn join_until(&self, deadline: Instant) -> bool {
        if self.is_own() {
            return false;
        }
        let mut state = self.ended.state.lock();
        while !state.gone {
            if self.ended.changed.wait_until(&mut state, deadline).timed_out() && !state.gone {
                return false;
            }
        }
        drop(state);
        let handle = self.handle.lock().take();
        if let Some(handle) = handle {
            // The thread only has to return now. A panic in it was caught and carries no information.
            let _ = handle.join();
        }
        true
    }
}

/// A guard whose drop records that a thread is gone.
struct Gone(Arc<EndSignal>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.state.lock().gone = true;
        self.0.changed.notify_all();
    }
}

thread_local! {
    /// The first thread-local value of a lane's thread, so it is dropped last.
    static GONE: RefCell<Option<Gone>> = const { RefCell::new(None) };
}

fn live(id: LaneId, mailbox: &Arc<Mailbox>, ended: &Arc<EndSignal>, current: Option<&Arc<Current>>) {
    GONE.set(Some(Gone(Arc::clone(ended))));
    // User code is guarded where it is called. This guard is for bugs of selvedge, because the end must be announced.
    dispose(catch_unwind(AssertUnwindSafe(|| {
        let run = || LaneState::new(id, Arc::clone(mailbox)).run();
        match current {
            Some(current) => within_current(current, run),
            None => run(),
        }
    })));
    mailbox.close();
    let waiting = {
        let mut state = ended.state.lock();
        state.ended = true;
        std::mem::take(&mut state.waiting)
    };
    ended.changed.notify_all();
    waiting.into_iter().for_each(|on_end| on_end());
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;
    use crate::deadline::deadline_after;
    use crate::directory::Directory;
    use crate::lane::host::LaneHost;
    use crate::lane::mailbox::ProgramEnd;
    use crate::lane::program::Program;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// A value whose drop waits for a message.
    struct Held {
        begun: Sender<()>,
        go: Receiver<()>,
    }

    impl Drop for Held {
        fn drop(&mut self) {
            self.begun.send(()).unwrap();
            let _ = self.go.recv();
        }
    }

    thread_local! {
        static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
    }

    /// Leaves a value in a thread-local.
    struct Leaves(Option<Held>);

    impl Program for Leaves {
        fn run(&mut self, _lane: &mut LaneHost<'_>) {
            HELD.set(self.0.take());
        }
    }

    /// Panics when it is dropped.
    struct PanicsInDrop;

    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("a bomb"));
        }
    }

    /// Panics with a payload whose drop panics.
    struct Throws;

    impl Program for Throws {
        fn run(&mut self, _lane: &mut LaneHost<'_>) {
            std::panic::resume_unwind(Box::new(PanicsInDrop));
        }
    }

    #[test]
    fn a_lane_outlives_the_drop_of_what_a_program_panicked_with() {
        let lane = LaneThread::start(LaneId(1), "l", None).unwrap();
        let (told, panics) = channel();
        for program in [Box::new(Throws) as Box<dyn Program>, Box::new(Leaves(None))] {
            let told = told.clone();
            let end = ProgramEnd::new(move |panic| told.send(panic).unwrap());
            assert!(lane.push(LaneMessage::Run(program, end)).is_ok());
        }
        assert!(panics.recv_timeout(TIMEOUT).unwrap().is_some());
        assert_eq!(panics.recv_timeout(TIMEOUT), Ok(None));
        lane.stop();
        assert!(lane.join_until(deadline_after(TIMEOUT)));
    }

    /// Reports that it runs, and returns when it is released.
    struct Waits(Option<Held>);

    impl Program for Waits {
        fn run(&mut self, _lane: &mut LaneHost<'_>) {
            drop(self.0.take());
        }
    }

    #[test]
    fn a_program_behind_the_end_of_its_lane_is_told_of_as_ended() {
        let lane = LaneThread::start(LaneId(1), "l", None).unwrap();
        let (begun, has_begun) = channel();
        let (go, held) = channel();
        let waits = Box::new(Waits(Some(Held { begun, go: held })));
        assert!(
            lane.push(LaneMessage::Run(waits, ProgramEnd::new(|_| {})))
                .is_ok()
        );
        has_begun.recv_timeout(TIMEOUT).unwrap();
        lane.stop();
        let (told, ended) = channel();
        let late = ProgramEnd::new(move |panic| told.send(panic).unwrap());
        assert!(lane.push(LaneMessage::Run(Box::new(Leaves(None)), late)).is_ok());
        drop(go);
        let said = ended.recv_timeout(TIMEOUT).unwrap();
        assert!(said.unwrap().contains("has ended"));
        assert!(lane.join_until(deadline_after(TIMEOUT)));
    }

    /// Returns the answer of `ask`, called on a thread of its own, so that a wait without end fails the test.
    fn answered<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> T {
        let (say, said) = channel();
        thread::spawn(move || say.send(ask()));
        said.recv_timeout(TIMEOUT).expect("it waits without end")
    }

    #[test]
    fn what_a_thread_drops_at_its_end_holds_up_no_join_beyond_its_deadline_and_no_lane_that_is_added() {
        let lane = LaneThread::start(LaneId(1), "l", None).unwrap();
        let (begun, has_begun) = channel();
        let (go, held) = channel();
        let leaves = Box::new(Leaves(Some(Held { begun, go: held })));
        let run = LaneMessage::Run(leaves, ProgramEnd::new(|_| {}));
        assert!(lane.push(run).is_ok());
        lane.stop();
        has_begun.recv_timeout(TIMEOUT).unwrap();
        let stuck = Arc::clone(&lane);
        assert!(!answered(move || stuck.join_until(Instant::now())));
        let directory = Directory::new();
        let known = answered({
            let lane = Arc::clone(&lane);
            move || {
                directory.add_lane(&lane);
                let other = LaneThread::start(LaneId(2), "m", None).unwrap();
                directory.add_lane(&other);
                other.stop();
                directory.lane(lane.id()).is_some()
            }
        });
        assert!(known, "a lane that still ends is waited for by a shutdown");
        drop(go);
        assert!(lane.join_until(deadline_after(Duration::MAX)));
        assert!(lane.is_gone());
        assert!(lane.join_until(Instant::now()), "once more");
    }
}
