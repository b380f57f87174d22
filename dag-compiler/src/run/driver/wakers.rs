//! The tasks that await results, and the wakers that are due.

use std::task::Waker;
use std::time::Instant;

use selvedge_channels::dispose;
use selvedge_core::wake;

/// A task that awaits a result.
struct Awaiting {
    execution: u64,
    waker: Waker,
    /// The deadline of the task.
    until: Option<Instant>,
}

/// The awaiting tasks of one graph.
#[derive(Default)]
pub(crate) struct Wakers {
    /// Tasks that are registered and not yet woken.
    waiting: Vec<Awaiting>,
    /// True if a task was registered whose deadline is earlier than those of all others, since
    /// [`is_hurried`](Self::is_hurried) was last called.
    hurried: bool,
    due: Due,
}

/// The wakers whose user code runs as soon as the driver is released.
#[derive(Default)]
pub(crate) struct Due {
    woken: Vec<Waker>,
    /// The wakers of tasks that have their results, to be dropped.
    forgotten: Vec<Waker>,
}

impl Due {
    /// Wakes and drops the wakers. The caller holds no lock.
    pub(crate) fn settle(self) {
        self.woken.into_iter().for_each(wake);
        self.forgotten.into_iter().for_each(dispose);
    }
}

impl Wakers {
    /// Whether a task waits to be woken when a result has arrived.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether wakers are due.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        !(self.due.woken.is_empty() && self.due.forgotten.is_empty())
    }

    /// Takes the wakers that are due, if there are any.
    #[inline]
    pub(crate) fn due(&mut self) -> Option<Due> {
        self.is_due().then(|| std::mem::take(&mut self.due))
    }

    /// Queues the wakers of the tasks that await a result of an execution before `first_ahead`; each looks for its own result.
    pub(crate) fn wake_before(&mut self, first_ahead: u64) {
        let may_be_there = self.waiting.extract_if(.., |it| it.execution < first_ahead);
        self.due.woken.extend(may_be_there.map(|awaiting| awaiting.waker));
    }

    /// Queues the wakers of all tasks that await a result; each task looks for its own result.
    pub(crate) fn wake(&mut self) {
        self.due
            .woken
            .extend(self.waiting.drain(..).map(|awaiting| awaiting.waker));
    }

    /// Queues further wakers.
    pub(crate) fn wake_also(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.due.woken.extend(wakers);
    }

    /// Queues the wakers of the tasks whose deadline has passed.
    pub(crate) fn wake_late(&mut self, now: Instant) {
        let late = self
            .waiting
            .extract_if(.., |it| it.until.is_some_and(|until| until <= now));
        self.due.woken.extend(late.map(|awaiting| awaiting.waker));
    }

    /// The earliest deadline of the waiting tasks.
    pub(crate) fn first_late(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|awaiting| awaiting.until).min()
    }

    /// Registers a task to be woken when outputs arrive or when its deadline passes. `true` if its deadline is earlier
    /// than those of all others.
    pub(super) fn register(&mut self, execution: u64, waker: &Waker, until: Option<Instant>) -> bool {
        let first = until.is_some_and(|until| self.first_late().is_none_or(|first| until < first));
        self.hurried |= first;
        let known = |it: &&mut Awaiting| it.execution == execution && it.waker.will_wake(waker);
        match self.waiting.iter_mut().find(known) {
            Some(known) => known.until = until,
            None => self.waiting.push(Awaiting {
                execution,
                waker: waker.clone(),
                until,
            }),
        }
        first
    }

    /// Forgets the tasks that await `execution`.
    pub(super) fn forget(&mut self, execution: u64) {
        if self.is_awaited() {
            let gone = self.waiting.extract_if(.., |it| it.execution == execution);
            self.due.forgotten.extend(gone.map(|awaiting| awaiting.waker));
        }
    }

    /// Whether a task whose deadline is earlier than those of all others was registered since the last call.
    pub(crate) fn is_hurried(&mut self) -> bool {
        std::mem::take(&mut self.hurried)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Never;

    impl Wake for Never {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_task_is_woken_only_if_a_result_of_its_execution_may_be_there() {
        let mut wakers = Wakers::default();
        let tasks = [(); 4].map(|()| Waker::from(Arc::new(Never)));
        for (execution, task) in (0..).zip(&tasks) {
            wakers.register(execution, task, None);
        }
        wakers.wake_before(0);
        assert!(!wakers.is_due());
        wakers.wake_before(3);
        let due = wakers.due().unwrap();
        let is_woken = |task: &Waker| due.woken.iter().any(|woken| woken.will_wake(task));
        assert_eq!(tasks.each_ref().map(is_woken), [true, true, true, false]);
        assert!(wakers.is_awaited());
        wakers.wake();
        assert!(wakers.is_due() && !wakers.is_awaited());
    }
}
