//! The code of threads and tasks, in boxes: a program has the code that starts a thread once for each type of what it runs.

use std::pin::Pin;

/// The code of a thread.
pub(crate) fn boxed_run(run: impl FnOnce() + Send + 'static) -> Box<dyn FnOnce() + Send> {
    Box::new(run)
}

/// The code of a task.
pub(crate) fn boxed_task(
    task: impl Future<Output = ()> + Send + 'static,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(task)
}
