//! The places of functions that block: how many threads there are, and which work is next. Plain data; `executor` adds the
//! lock and the threads.
//!
//! At most one of the threads without work leads: it reads letters while it waits for work, and does the first piece itself
//! that it finds in them.
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
    /// Threads that have no work, apart from the one that leads.
    idle: usize,
    /// Whether a thread that has no work leads.
    is_led: bool,
    /// Threads without a place that wait until they are needed.
    spare: usize,
    /// Threads whose function waits.
    blocked: usize,
    /// Threads that are about to look for work: they start, they were spare, or they read letters.
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
    Run(W),
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
        if self.queue.len() <= self.starting {
            return Need::Nothing;
        }
        if self.queue.len() <= self.idle + self.starting {
            return Need::Wake;
        }
        if self.is_led {
            self.looks();
            return Need::Nudge;
        }
        if self.taken() < self.limits.places {
            return self.another();
        }
        if self.idle > 0 { Need::Wake } else { Need::Nothing }
    }

    /// Has one more thread take a place.
    fn another(&mut self) -> Need {
        self.starting += 1;
        match self.spare.checked_sub(1) {
            Some(others) => {
                self.spare = others;
                Need::Rouse
            }
            None => Need::Thread,
        }
    }

    fn taken(&self) -> usize {
        self.active + self.idle + self.starting + usize::from(self.is_led)
    }

    /// A thread has started, was spare, or has ended to lead, and looks for work.
    pub(crate) fn started(&mut self) -> Next<W> {
        self.starting -= 1;
        self.next()
    }

    /// The system refused a thread. Returns the step that has other threads do its work, or all work if there are none.
    pub(crate) fn not_started(&mut self) -> Result<Need, Vec<W>> {
        self.starting -= 1;
        if self.spare > 0 {
            return Ok(self.another());
        }
        if self.taken() == 0 {
            return Err(self.queue.drain(..).collect());
        }
        if self.idle > 0 {
            return Ok(Need::Wake);
        }
        let is_led = self.is_led;
        self.looks();
        Ok(if is_led { Need::Nudge } else { Need::Nothing })
    }

    /// A thread has ended its work.
    pub(crate) fn done(&mut self) -> Next<W> {
        self.active -= 1;
        self.next()
    }

    /// An idle thread was woken.
    pub(crate) fn woken(&mut self) -> Next<W> {
        self.idle -= 1;
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
            return Next::Run(work);
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

    /// Ends all threads after their present work; returns the work that will not be done.
    pub(crate) fn stop(&mut self) -> Vec<W> {
        self.is_stopped = true;
        // The spare ones are woken too.
        self.starting += std::mem::take(&mut self.spare);
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

    #[test]
    fn threads_start_on_demand_up_to_the_places_and_work_beyond_waits() {
        let mut places = places(2);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.submit(2), Ok(Need::Thread));
        assert_eq!(places.submit(3), Ok(Need::Nothing));
        assert_eq!(places.submit(4), Err((4, Refused::Full)));
        assert_eq!(places.started(), Next::Run(1));
        assert_eq!(places.done(), Next::Run(2));
        assert_eq!(places.started(), Next::Run(3));
        assert_eq!(places.done(), Next::Wait);
        assert_eq!(places.submit(5), Ok(Need::Wake));
        assert_eq!(
            places.submit(6),
            Ok(Need::Wake),
            "the place that is taken is soon free"
        );
        assert_eq!(places.woken(), Next::Run(5));
        assert_eq!(places.stop(), [6]);
        assert_eq!(places.done(), Next::End);
        assert_eq!(places.submit(7), Err((7, Refused::Stopped)));
    }

    #[test]
    fn p11_a_function_that_waits_gives_its_place_back_and_goes_on_at_once() {
        let mut places = places(1);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), Next::Run(1));
        assert_eq!(places.submit(2), Ok(Need::Nothing));
        assert_eq!(places.block(), Some(Need::Thread));
        assert_eq!(places.started(), Next::Run(2));
        assert_eq!(places.block(), None, "one function may wait");
        places.resume();
        assert_eq!(places.done(), Next::Spare, "one thread too many");
        assert_eq!(places.done(), Next::Wait);
    }

    #[test]
    fn a_spare_thread_takes_the_place_of_the_next_function_that_waits() {
        let mut places = places(1);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), Next::Run(1));
        assert_eq!(places.block(), Some(Need::Nothing));
        assert_eq!(places.submit(2), Ok(Need::Thread));
        assert_eq!(places.started(), Next::Run(2));
        places.resume();
        assert_eq!(places.done(), Next::Spare);
        for work in 3..100 {
            assert_eq!(places.submit(work), Ok(Need::Nothing), "the place is taken");
            assert_eq!(places.block(), Some(Need::Rouse), "no thread is started");
            assert_eq!(places.started(), Next::Run(work));
            places.resume();
            assert_eq!(places.done(), Next::Spare);
        }
        assert_eq!(places.submit(100), Ok(Need::Nothing));
        assert_eq!(places.done(), Next::Run(100));
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
        assert_eq!(places.started(), Next::Run(0));
        for work in 1..3 {
            assert_eq!(places.submit(work), Ok(Need::Nothing));
            assert_eq!(places.block(), Some(Need::Thread));
            assert_eq!(places.started(), Next::Run(work));
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
        assert_eq!(places.started(), Next::Run(1));
        assert_eq!(places.done(), Next::Wait);
        places.lead();
        places
    }

    #[test]
    fn the_thread_that_leads_does_the_first_piece_that_it_reads() {
        let mut places = led();
        places.looks();
        assert_eq!(places.submit(2), Ok(Need::Nothing), "it looks itself");
        assert_eq!(places.submit(3), Ok(Need::Thread));
        assert!(places.has_news());
        assert_eq!(places.started(), Next::Run(2));
        assert_eq!(places.started(), Next::Run(3));
    }

    #[test]
    fn the_thread_that_leads_is_woken_once_for_work_that_others_bring() {
        let mut places = led();
        assert_eq!(places.submit(2), Ok(Need::Nudge));
        assert_eq!(places.submit(3), Ok(Need::Thread));
        assert_eq!(places.submit(4), Ok(Need::Nothing));
        places.looks();
        assert_eq!(places.started(), Next::Run(2));
        assert_eq!(places.started(), Next::Run(3));
        assert_eq!(places.done(), Next::Run(4));
    }

    #[test]
    fn work_is_given_back_if_no_thread_starts() {
        let mut places = places(2);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.not_started(), Err(vec![1]));
        assert_eq!(places.submit(2), Ok(Need::Thread));
        assert_eq!(places.started(), Next::Run(2));
        assert_eq!(places.submit(3), Ok(Need::Thread));
        assert_eq!(places.not_started(), Ok(Need::Nothing));
        assert_eq!(places.done(), Next::Run(3));
    }

    #[test]
    fn a_spare_thread_does_what_a_refused_thread_was_to_do() {
        let mut places = places(1);
        assert_eq!(places.submit(1), Ok(Need::Thread));
        assert_eq!(places.started(), Next::Run(1));
        assert_eq!(places.block(), Some(Need::Nothing));
        assert_eq!(places.submit(2), Ok(Need::Thread));
        places.resume();
        assert_eq!(
            places.done(),
            Next::Run(2),
            "it is sooner than the thread that starts"
        );
        assert_eq!(places.done(), Next::Spare);
        assert_eq!(
            places.submit(3),
            Ok(Need::Nothing),
            "the thread that starts does it"
        );
        assert_eq!(places.not_started(), Ok(Need::Rouse));
        assert_eq!(places.started(), Next::Run(3));
    }

    #[test]
    fn a_thread_without_work_does_what_a_refused_thread_was_to_do() {
        for leads in [false, true] {
            let mut places = places(2);
            assert_eq!(places.submit(1), Ok(Need::Thread));
            assert_eq!(places.started(), Next::Run(1));
            assert_eq!(places.submit(2), Ok(Need::Thread));
            assert_eq!(places.done(), Next::Run(2));
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
            let next = if leads { places.started() } else { places.woken() };
            assert_eq!(next, Next::Run(3));
        }
    }

    #[test]
    fn threads_without_work_take_no_place_from_work_when_a_function_has_gone_on() {
        for leads in [false, true] {
            let mut places = places(2);
            assert_eq!(places.submit(1), Ok(Need::Thread));
            assert_eq!(places.started(), Next::Run(1));
            assert_eq!(places.block(), Some(Need::Nothing));
            for work in [2, 3] {
                assert_eq!(places.submit(work), Ok(Need::Thread));
                assert_eq!(places.started(), Next::Run(work));
            }
            assert_eq!(places.done(), Next::Wait);
            assert_eq!(places.done(), Next::Wait);
            if leads {
                places.lead();
                places.resume();
                places.looks();
                assert_eq!(places.submit(4), Ok(Need::Nothing), "it looks itself");
                assert_eq!(places.started(), Next::Run(4));
            } else {
                places.resume();
                assert_eq!(places.submit(4), Ok(Need::Wake));
                assert_eq!(places.woken(), Next::Run(4));
            }
        }
    }
}
