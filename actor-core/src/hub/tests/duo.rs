//! A driver and a worker in one process, for tests of the thread that leads.

use std::time::Instant;

use super::*;
use crate::hub::lead::Lead;
use crate::hub::post::Post;

/// A driver and a worker, each with a reactor of its own.
pub(super) struct Duo {
    pub(super) driver: Arc<Hub>,
    pub(super) worker: Arc<Hub>,
    pub(super) seen: mpsc::Receiver<Seen>,
    pub(super) at_driver: Reactor,
    pub(super) at_worker: Reactor,
}

impl Duo {
    pub(super) fn new() -> Self {
        Self::with(|_, _| ())
    }

    /// `register` registers services before the first letter.
    pub(super) fn with(register: impl FnOnce(&Hub, &Hub)) -> Self {
        let (at_driver, at_worker) = (Reactor::start(), Reactor::start());
        let driver = Hub::of_driver(LinkSettings::default());
        driver.set_reactor(at_driver.handle.clone());
        let worker = Hub::of_worker(peer(2, 1), driver.me(), LinkSettings::default(), |_| {});
        worker.set_reactor(at_worker.handle.clone());
        let seen = Recorder::register(&driver);
        register(&driver, &worker);
        let arrived = Recorder::register(&worker);
        let (courier, notices) = ToTest::new();
        driver.joined(worker.me(), courier, None);
        driver.send(worker.me(), letter(1, "makes the link")).unwrap();
        let (notice, end) = notices.recv().unwrap();
        worker.notice(notice, end);
        next_letter(&arrived);
        Duo {
            driver,
            worker,
            seen,
            at_driver,
            at_worker,
        }
    }

    pub(super) fn say(&self, count: u64, body: impl Into<Body>) {
        self.worker.send(self.driver.me(), letter(count, body)).unwrap();
    }

    pub(super) fn lead(&self) -> Arc<Lead> {
        Post::lead(&*self.driver)
    }

    /// The number of the next letter, which this thread reads as the leader if it has not come yet.
    pub(super) fn led_letter(&self) -> u64 {
        let lead = self.lead();
        let leading = lead.take().unwrap();
        let late = Instant::now() + TIMEOUT;
        loop {
            match self.seen.try_recv() {
                Ok(Seen::Letter(_, letter)) => return number(&letter),
                Ok(died) => panic!("{died:?}"),
                Err(_) => {}
            }
            let arrivals = leading.wait(Some(late)).expect("no letter comes");
            leading.read(arrivals, || false);
        }
    }
}

impl Drop for Duo {
    fn drop(&mut self) {
        self.driver.close();
        self.worker.close();
    }
}
