//! The places of functions that block: how many threads there are, and which work is next. Plain data; `executor` adds the
//! lock and the threads.
//!
//! At most one of the threads without work leads: it reads letters while it waits for work, and does the first piece itself
//! that it finds in them.
//!
//! One thread at a time is on its way to work. If it leaves work to others, it has the next one woken, so many short pieces that
//! come at once wake few threads.
//!
//! A place is the right of one thread to run functions. A function that waits gives its place back and takes it again
//! afterwards at once, so there may be more threads than places for a time. After their work some of those above are spare until
//! the next function waits; others end.
//!
//! - `PLACES-1`: work waits only while all places are taken, or while a thread is about to look for it.
//! - `PLACES-2`: a function that goes on never waits for a place, so functions that wait for each other end.

use std::collections::VecDeque;

/// The state of the places. `W` is a piece of work.
#[derive(Debug)]
pub(crate) struct ThreadPlaces<W> {
    limits: Limits,
    queue: VecDeque<W>,
    /// Threads that run work, and do not wait.
    active: usize,
    /// Threads that have no work and were not woken, apart from the one that leads.
    idle: usize,
    /// Whether a thread that has no work leads.
    is_led: bool,
    /// Threads without a place that wait until they are needed.
    spare: usize,
    /// Threads whose function waits.
    blocked: usize,
    /// Threads that are about to look for work: they start, they were woken, or they read letters.
    starting: usize,
    is_stopped: bool,
}

/// The limits of an executor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of places.
    pub(crate) places: usize,
    /// The number of functions that may wait at a time.
    pub(crate) blocked: usize,
    /// The number of spare threads: those without a place that do not end.
    pub(crate) spare: usize,
    /// The number of pieces of work that may wait for a place.
    pub(crate) queued: usize,
}

/// The step that new work needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: all places are taken.
    Nothing,
    /// An idle thread has to be woken.
    Wake,
    /// A spare thread has to be woken.
    Rouse,
    /// The thread that leads has to be woken.
    Nudge,
    /// A thread has to be started.
    Thread,
}

/// The next step of a thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<W> {
    /// Runs work, after the step that other work needs.
    Run(W, Need),
    Wait,
    /// Waits as a spare thread, which does not lead.
    Spare,
    End,
}

/// The reason that work is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Stopped,
    Full,
}

impl<W> ThreadPlaces<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        ThreadPlaces {
            limits,
            queue: VecDeque::new(),
            active: 0,
            idle: 0,
            is_led: false,
            spare: 0,
            blocked: 0,
            starting: 0,
            is_stopped: false,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the number of places. Functions that have more of them keep these to their end.
    pub(crate) fn set_places(&mut self, places: usize) -> Need {
        self.limits.places = places;
        self.need()
    }

    /// Takes work, or gives it back.
    pub(crate) fn submit(&mut self, work: W) -> Result<Need, (W, Refused)> {
        if self.is_stopped {
            return Err((work, Refused::Stopped));
        }
        if self.queue.len() >= self.limits.queued {
            return Err((work, Refused::Full));
        }
        self.queue.push_back(work);
        Ok(self.need())
    }

    fn need(&mut self) -> Need {
        // Whoever is about to look takes care of what it leaves.
        let is_looked_for = self.queue.is_empty() || self.starting > 0;
        match is_looked_for || self.active >= self.limits.places {
            true => Need::Nothing,
            false => self.another().unwrap_or_else(|| {
                self.starting += 1;
                Need::Thread
            }),
        }
    }

    /// Has one more of the threads that are there look for work.
    fn another(&mut self) -> Option<Need> {
        if self.idle > 0 {
            self.idle -= 1;
            self.starting += 1;
            return Some(Need::Wake);
        }
        if self.is_led {
            self.looks();
            return Some(Need::Nudge);
        }
        self.spare = self.spare.checked_sub(1)?;
        self.starting += 1;
        Some(Need::Rouse)
    }

    fn taken(&self) -> usize {
        self.active + self.idle + self.starting + usize::from(self.is_led)
    }

    /// A thread has started, was woken, or has ended to lead, and looks for work.
    pub(crate) fn started(&mut self) -> Next<W> {
        self.starting -= 1;
        self.next()
    }

    /// The system refused a thread. Returns the step that has other threads do its work, or all work if there are none.
    pub(crate) fn not_started(&mut self) -> Result<Need, Vec<W>> {
        self.starting -= 1;
        match self.another() {
            Some(need) => Ok(need),
            None if self.taken() == 0 => Err(self.queue.drain(..).collect()),
            None => Ok(Need::Nothing),
        }
    }

    /// A thread has ended its work.
    pub(crate) fn done(&mut self) -> Next<W> {
        self.active -= 1;
        self.next()
    }

    /// An idle thread leads from now on.
    pub(crate) fn lead(&mut self) {
        self.idle -= 1;
        self.is_led = true;
    }

    /// The thread that leads is about to look for work: [`started`](Self::started).
    pub(crate) fn looks(&mut self) {
        if std::mem::take(&mut self.is_led) {
            self.starting += 1;
        }
    }

    /// Whether a thread that looks has something to do: work, or its end.
    pub(crate) fn has_news(&self) -> bool {
        self.is_stopped || !self.queue.is_empty()
    }

    fn next(&mut self) -> Next<W> {
        if self.is_stopped {
            return Next::End;
        }
        // Threads without work take no place from work.
        if self.active < self.limits.places
            && let Some(work) = self.queue.pop_front()
        {
            self.active += 1;
            return Next::Run(work, self.need());
        }
        if self.taken() < self.limits.places {
            self.idle += 1;
            return Next::Wait;
        }
        if self.spare < self.limits.spare {
            self.spare += 1;
            return Next::Spare;
        }
        Next::End
    }

    /// A function is about to wait. `None` if too many wait.
    pub(crate) fn block(&mut self) -> Option<Need> {
        if self.blocked >= self.limits.blocked {
            return None;
        }
        self.active -= 1;
        self.blocked += 1;
        Some(self.need())
    }

    /// A function has waited and goes on.
    pub(crate) fn resume(&mut self) {
        self.blocked -= 1;
        self.active += 1;
    }

    /// Whether [`stop`](Self::stop) was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Ends all threads after their present work; returns the work that will not be done.
    pub(crate) fn stop(&mut self) -> Vec<W> {
        self.is_stopped = true;
        // All that wait are woken.
        self.starting += std::mem::take(&mut self.idle) + std::mem::take(&mut self.spare);
        self.queue.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(places: usize) -> ThreadPlaces<u8> {
        ThreadPlaces::new(Limits {
            places,
            blocked: 1,
            spare: 1,
            queued: 3,
        })
    }

    /// Runs work, and no other work needs anything.
    fn runs(work: u8) -> Next<u8> {
        Next::Run(work, Need::Nothing)
    }

    #[test]
    fn work_that_waits_gets_the_places_that_are_added() {
        let mut places = places(1);
        assert_eq!(places.set_places(1), Need::Nothing, "no work waits");
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), runs(1));
        assert_eq!(
            (places.submit(2), places.submit(3)),
            (Ok(Need::Nothing), Ok(Need::Nothing))
        );
        assert_eq!(places.set_places(3), Need::Thread);
        assert_eq!(places.started(), Next::Run(2, Need::Thread));
        assert_eq!(places.started(), runs(3));
        assert_eq!(places.set_places(1), Need::Nothing);
        assert_eq!(places.submit(4), Ok(Need::Nothing));
        assert_eq!(
            (places.done(), places.done()),
            (Next::Spare, Next::End),
            "there is one place"
        );
        assert_eq!(places.done(), runs(4));
    }

    #[test]
    fn threads_start_on_demand_up_to_the_places_and_work_beyond_waits() {
        let mut places = places(2);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.submit(2), Ok(Need::Nothing), "the first one starts");
        assert_eq!(places.submit(3), Ok(Need::Nothing));
        assert_eq!(places.submit(4), Err((4, Refused::Full)));
        assert_eq!(places.started(), Next::Run(1, Need::Thread));
        assert_eq!(places.done(), runs(2));
        assert_eq!(places.started(), runs(3));
        assert_eq!(places.done(), Next::Wait);
        assert_eq!(places.submit(5), Ok(Need::Wake));
        assert_eq!(places.submit(6), Ok(Need::Nothing), "one is on its way");
        assert_eq!(places.started(), runs(5));
        assert_eq!(places.stop(), [6]);
        assert_eq!(places.done(), Next::End);
        assert_eq!(places.submit(7), Err((7, Refused::Stopped)));
    }

    #[test]
    fn one_thread_at_a_time_is_woken_and_has_the_next_one_woken_for_what_it_leaves() {
        let mut places = ThreadPlaces::new(Limits {
            places: 4,
            blocked: 1,
            spare: 1,
            queued: 9,
        });
        for work in 0..4 {
            assert_eq!(places.submit(work), Ok(Need::Thread));
            assert_eq!(places.started(), runs(work));
        }
        for _ in 0..4 {
            assert_eq!(places.done(), Next::Wait);
        }
        assert_eq!(places.submit(4), Ok(Need::Wake));
        for work in 5..9 {
            assert_eq!(places.submit(work), Ok(Need::Nothing));
        }
        assert_eq!(places.started(), Next::Run(4, Need::Wake));
        assert_eq!(places.done(), runs(5), "it is sooner than the one that was woken");
        assert_eq!(places.started(), Next::Run(6, Need::Wake));
        assert_eq!(places.done(), runs(7));
        assert_eq!(places.done(), runs(8));
        assert_eq!(places.started(), Next::Wait, "nothing is left for the third");
        assert_eq!(places.submit(9), Ok(Need::Wake));
    }

    #[test]
    fn p11_a_function_that_waits_gives_its_place_back_and_goes_on_at_once() {
        let mut places = places(1);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), runs(1));
        assert_eq!(places.submit(2), Ok(Need::Nothing));
        assert_eq!(places.block(), Some(Need::Thread));
        assert_eq!(places.started(), runs(2));
        assert_eq!(places.block(), None, "one function may wait");
        places.resume();
        assert_eq!(places.done(), Next::Spare, "one thread too many");
        assert_eq!(places.done(), Next::Wait);
    }

    #[test]
    fn a_spare_thread_takes_the_place_of_the_next_function_that_waits() {
        let mut places = places(1);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), runs(1));
        assert_eq!(places.block(), Some(Need::Nothing));
        assert_eq!(places.submit(2), Ok(Need::Thread));
        assert_eq!(places.started(), runs(2));
        places.resume();
        assert_eq!(places.done(), Next::Spare);
        for work in 3..100 {
            assert_eq!(places.submit(work), Ok(Need::Nothing), "the place is taken");
            assert_eq!(places.block(), Some(Need::Rouse), "no thread is started");
            assert_eq!(places.started(), runs(work));
            places.resume();
            assert_eq!(places.done(), Next::Spare);
        }
        assert_eq!(places.submit(100), Ok(Need::Nothing));
        assert_eq!(places.done(), runs(100));
        assert!(places.stop().is_empty());
        assert_eq!(places.started(), Next::End, "the spare one");
        assert_eq!(places.done(), Next::End);
    }

    #[test]
    fn no_more_threads_are_spare_than_may_be() {
        let mut places = ThreadPlaces::new(Limits {
            places: 1,
            blocked: 3,
            spare: 1,
            queued: 9,
        });
        assert_eq!(places.submit(0), Ok(Need::Thread));
        assert_eq!(places.started(), runs(0));
        for work in 1..3 {
            assert_eq!(places.submit(work), Ok(Need::Nothing));
            assert_eq!(places.block(), Some(Need::Thread));
            assert_eq!(places.started(), runs(work));
        }
        places.resume();
        places.resume();
        assert_eq!(places.done(), Next::Spare);
        assert_eq!(places.done(), Next::End);
        assert_eq!(places.done(), Next::Wait);
    }

    /// Two places, and a thread without work that leads.
    fn led() -> ThreadPlaces<u8> {
        let mut places = places(2);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), runs(1));
        assert_eq!(places.done(), Next::Wait);
        places.lead();
        places
    }

    #[test]
    fn the_thread_that_leads_does_the_first_piece_that_it_reads() {
        let mut places = led();
        places.looks();
        assert_eq!(places.submit(2), Ok(Need::Nothing), "it looks itself");
        assert_eq!(places.submit(3), Ok(Need::Nothing));
        assert!(places.has_news());
        assert_eq!(places.started(), Next::Run(2, Need::Thread));
        assert_eq!(places.started(), runs(3));
    }

    #[test]
    fn the_thread_that_leads_is_woken_once_for_work_that_others_bring() {
        let mut places = led();
        assert_eq!(places.submit(2), Ok(Need::Nudge));
        assert_eq!(places.submit(3), Ok(Need::Nothing));
        assert_eq!(places.submit(4), Ok(Need::Nothing));
        places.looks();
        assert_eq!(places.started(), Next::Run(2, Need::Thread));
        assert_eq!(places.started(), runs(3));
        assert_eq!(places.done(), runs(4));
    }

    #[test]
    fn work_is_given_back_if_no_thread_starts() {
        let mut places = places(2);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.not_started(), Err(vec![1]));
        assert_eq!(places.submit(2), Ok(Need::Thread));
        assert_eq!(places.started(), runs(2));
        assert_eq!(places.submit(3), Ok(Need::Thread));
        assert_eq!(places.not_started(), Ok(Need::Nothing));
        assert_eq!(places.done(), runs(3));
    }

    #[test]
    fn a_spare_thread_does_what_a_refused_thread_was_to_do() {
        let mut places = places(1);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), runs(1));
        assert_eq!(places.block(), Some(Need::Nothing));
        assert_eq!(places.submit(2), Ok(Need::Thread));
        places.resume();
        assert_eq!(places.done(), runs(2), "it is sooner than the thread that starts");
        assert_eq!(places.done(), Next::Spare);
        assert_eq!(
            places.submit(3),
            Ok(Need::Nothing),
            "the thread that starts does it"
        );
        assert_eq!(places.not_started(), Ok(Need::Rouse));
        assert_eq!(places.started(), runs(3));
    }

    #[test]
    fn a_thread_without_work_does_what_a_refused_thread_was_to_do() {
        for leads in [false, true] {
            let mut places = places(2);
            assert_eq!(places.submit(1), Ok(Need::Thread));
            assert_eq!(places.started(), runs(1));
            assert_eq!(places.submit(2), Ok(Need::Thread));
            assert_eq!(places.done(), runs(2));
            assert_eq!(places.done(), Next::Wait);
            if leads {
                places.lead();
            }
            assert_eq!(
                places.submit(3),
                Ok(Need::Nothing),
                "the thread that starts does it"
            );
            assert_eq!(
                places.not_started(),
                Ok(if leads { Need::Nudge } else { Need::Wake })
            );
            assert_eq!(places.started(), runs(3));
        }
    }

    #[test]
    fn threads_without_work_take_no_place_from_work_when_a_function_has_gone_on() {
        for leads in [false, true] {
            let mut places = places(2);
            assert_eq!(places.submit(1), Ok(Need::Thread));
            assert_eq!(places.started(), runs(1));
            assert_eq!(places.block(), Some(Need::Nothing));
            for work in [2, 3] {
                assert_eq!(places.submit(work), Ok(Need::Thread));
                assert_eq!(places.started(), runs(work));
            }
            assert_eq!(places.done(), Next::Wait);
            assert_eq!(places.done(), Next::Wait);
            if leads {
                places.lead();
                places.resume();
                places.looks();
                assert_eq!(places.submit(4), Ok(Need::Nothing), "it looks itself");
                assert_eq!(places.started(), runs(4));
            } else {
                places.resume();
                assert_eq!(places.submit(4), Ok(Need::Wake));
                assert_eq!(places.started(), runs(4));
            }
        }
    }
}
