//! The ring and the doorbell under loom: every interleaving of small scenarios with at most three preemptions (two
//! where three threads pass three messages); `LOOM_MAX_PREEMPTIONS` can ask for fewer.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p selvedge-channels --test loom --release`
#![cfg(all(loom, not(shuttle)))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use std::convert::Infallible;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use selvedge_channels::in_use::{Slots, UseWords, begin_part, begin_view, end_part, end_view};
use selvedge_channels::{CorePermit, Doorbell, OnBehalf, Summons, Waiting, ring};

fn model(scenario: impl Fn() + Send + Sync + 'static) {
    model_bounded(3, scenario);
}

fn model_bounded(preemptions: usize, scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    let asked = builder.preemption_bound.unwrap_or(preemptions);
    builder.preemption_bound = Some(asked.min(preemptions));
    builder.check(scenario);
}

#[test]
fn bell_01_no_wake_up_is_lost() {
    model(|| {
        let bell = Doorbell::heap();
        let flag = Arc::new(AtomicBool::new(false));
        let (ringer, set) = (bell.clone(), Arc::clone(&flag));
        let thread = thread::spawn(move || {
            set.store(true, Ordering::Relaxed);
            ringer.ring();
        });
        assert!(bell.wait(&Waiting::Park, None, || flag.load(Ordering::Relaxed)));
        thread.join().unwrap();
    });
}

#[test]
fn bell_01_a_waiter_that_sleeps_elsewhere_is_claimed_or_sees_the_change() {
    model(|| {
        let bell = Doorbell::heap();
        let flag = Arc::new(AtomicBool::new(false));
        let (ringer, set) = (bell.clone(), Arc::clone(&flag));
        let other = thread::spawn(move || {
            set.store(true, Ordering::Relaxed);
            ringer.claim()
        });
        bell.announce();
        let saw = flag.load(Ordering::Relaxed);
        let is_claimed = other.join().unwrap();
        assert!(saw || is_claimed, "nobody wakes it");
        assert!(!bell.claim() || !is_claimed, "one wake-up is claimed once");
    });
}

/// Writers of messages, each of which takes what is written if the thread sleeps, and the thread, which does so before it sleeps. A
/// message is a bit.
fn written_on_behalf(writers: u32) {
    let bell = Doorbell::heap();
    let taken = Arc::new(OnBehalf::new(0_u32));
    let written: Arc<Vec<_>> = Arc::new((0..writers).map(|_| AtomicBool::new(false)).collect());
    let is_called = Arc::new(AtomicBool::new(false));
    let take_all = |written: &[AtomicBool], taken: &mut u32| {
        for (writer, written) in written.iter().enumerate() {
            *taken |= u32::from(written.load(Ordering::Relaxed)) << writer;
        }
    };
    let threads: Vec<_> = (0..writers as usize)
        .map(|writer| {
            let (bell, taken) = (bell.clone(), Arc::clone(&taken));
            let (written, is_called) = (Arc::clone(&written), Arc::clone(&is_called));
            thread::spawn(move || {
                written[writer].store(true, Ordering::Relaxed);
                let look = |taken: &mut u32| {
                    bell.announce();
                    take_all(&written, taken);
                    false
                };
                if bell.claim() && taken.ring(2, look) {
                    is_called.store(true, Ordering::Relaxed);
                }
            })
        })
        .collect();
    loop {
        bell.announce();
        taken.own(|taken| take_all(&written, taken));
        if !taken.was_rung() {
            break;
        }
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let all = taken.own(|taken| *taken) == (1 << writers) - 1;
    assert!(all || is_called.load(Ordering::Relaxed), "a message stays behind");
}

#[test]
fn berth_01_a_message_is_taken_by_whoever_writes_it_or_by_the_thread() {
    model(|| written_on_behalf(1));
}

#[test]
fn berth_01_of_two_that_write_one_takes_both_messages_or_each_its_own() {
    model_bounded(2, || written_on_behalf(2));
}

#[test]
fn berth_03_who_rings_sees_the_summons_or_the_thread_sees_what_was_rung_for() {
    model(|| {
        let bell = Doorbell::heap();
        let (is_free, summons) = (Arc::new(AtomicBool::new(false)), Arc::new(Summons::default()));
        summons.set();
        let reader = {
            let (bell, is_free, summons) = (bell.clone(), Arc::clone(&is_free), Arc::clone(&summons));
            thread::spawn(move || {
                is_free.store(true, Ordering::Relaxed);
                bell.claim() && {
                    bell.announce();
                    summons.is_set()
                }
            })
        };
        bell.announce();
        let has_moved = summons.serve(|| {
            let is_free = is_free.load(Ordering::Relaxed);
            if !is_free {
                summons.set();
            }
            is_free
        });
        let is_called = reader.join().unwrap();
        assert!(has_moved || is_called, "a message waits for a slot that is free");
    });
}

#[test]
fn bell_02_two_ringers_one_waiter() {
    model(|| {
        let bell = Doorbell::heap();
        let flags = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
        let threads: Vec<_> = flags
            .iter()
            .map(|flag| {
                let (ringer, set) = (bell.clone(), Arc::clone(flag));
                thread::spawn(move || {
                    set.store(true, Ordering::Relaxed);
                    ringer.ring();
                })
            })
            .collect();
        assert!(bell.wait(&Waiting::Park, None, || {
            flags.iter().all(|flag| flag.load(Ordering::Relaxed))
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Sends one message more than there are slots, `before` of them in advance: the reader sees all in order, and then the
/// end.
fn in_order(slots: u32, before: u32) {
    model(move || {
        let (to_writer, to_reader) = (Doorbell::heap(), Doorbell::heap());
        let (mut writer, mut readers) =
            ring::<u32>(slots as usize, to_writer.clone(), vec![to_reader.clone()]).unwrap();
        let mut reader = readers.pop().unwrap();
        for message in 0..before {
            writer.try_write(Ok(message)).unwrap();
        }
        let thread = thread::spawn(move || {
            for message in before..=slots {
                assert!(to_writer.wait(&Waiting::Park, None, || writer.has_space()));
                writer.try_write(Ok(message)).unwrap();
            }
            writer.close();
            let _ = writer.try_write(Ok(u32::MAX)).unwrap_err();
        });
        for expected in 0..=slots {
            assert!(to_reader.wait(&Waiting::Park, None, || reader.ready()));
            assert_eq!(reader.take().unwrap().unwrap(), expected);
        }
        thread.join().unwrap();
        assert!(reader.is_closed());
    });
}

/// K = 2, three messages: the third waits until a slot is free.
#[test]
fn ring_01_one_reader_sees_every_message_in_order() {
    in_order(2, 0);
}

/// K = 3, four messages: the writer reads the tail when one slot is left, and finds that it has moved or not.
#[test]
fn ring_01_a_writer_that_looks_ahead_writes_what_has_been_read_over() {
    in_order(3, 1);
}

/// One writer, two readers, K = 2, three messages: the third waits for the slower reader, both readers see all in
/// order, and the last reader of a message moves the value out instead of cloning it.
#[test]
fn chan_03_two_readers_see_every_message_in_order() {
    model_bounded(2, || {
        let bells = [Doorbell::heap(), Doorbell::heap()];
        let to_writer = Doorbell::heap();
        let (mut writer, mut readers) = ring::<u32>(2, to_writer.clone(), bells.to_vec()).unwrap();
        let (mut second, mut first) = (readers.pop().unwrap(), readers.pop().unwrap());
        let [first_bell, second_bell] = bells;
        writer.try_write(Ok(0)).unwrap();
        writer.try_write(Ok(1)).unwrap();
        let writing = thread::spawn(move || {
            assert!(to_writer.wait(&Waiting::Park, None, || writer.has_space()));
            writer.try_write(Ok(2)).unwrap();
        });
        let reading = thread::spawn(move || {
            for expected in 0..3 {
                assert!(second_bell.wait(&Waiting::Park, None, || second.ready()));
                assert_eq!(second.take().unwrap().unwrap(), expected);
            }
        });
        for expected in 0..3 {
            assert!(first_bell.wait(&Waiting::Park, None, || first.ready()));
            assert_eq!(first.take().unwrap().unwrap(), expected);
        }
        writing.join().unwrap();
        reading.join().unwrap();
    });
}

/// Two readers, K = 1: the second message waits for both, and the last reader to release drops the value.
#[test]
fn ring_04_two_readers_share_a_message_and_the_last_drops_it() {
    model(|| {
        let bells = [Doorbell::heap(), Doorbell::heap()];
        let to_writer = Doorbell::heap();
        let (mut writer, readers) =
            ring::<std::sync::Arc<u32>>(1, to_writer.clone(), bells.to_vec()).unwrap();
        let value = std::sync::Arc::new(7);
        writer.try_write(Ok(std::sync::Arc::clone(&value))).unwrap();
        let threads: Vec<_> = readers
            .into_iter()
            .zip(bells)
            .map(|(mut reader, bell)| {
                thread::spawn(move || {
                    assert!(bell.wait(&Waiting::Park, None, || reader.ready()));
                    assert_eq!(**reader.current().unwrap().as_ref().unwrap(), 7);
                    reader.release();
                    reader
                })
            })
            .collect();
        assert!(to_writer.wait(&Waiting::Park, None, || writer.has_space()));
        for thread in threads {
            assert_eq!(thread.join().unwrap().position(), 1);
        }
        assert_eq!(
            std::sync::Arc::strong_count(&value),
            1,
            "the slot gave the value back"
        );
    });
}

#[test]
fn ring_05_close_wakes_a_sleeping_reader_after_the_last_message() {
    model(|| {
        let (to_writer, to_reader) = (Doorbell::heap(), Doorbell::heap());
        let (mut writer, mut readers) = ring::<u32>(2, to_writer, vec![to_reader.clone()]).unwrap();
        let mut reader = readers.pop().unwrap();
        let thread = thread::spawn(move || {
            writer.try_write(Ok(1)).unwrap();
            writer.close();
        });
        let mut seen = 0;
        loop {
            let mut closed = false;
            to_reader.wait(&Waiting::Park, None, || {
                // The last message and the end may arrive between the two checks.
                let ready = reader.ready();
                closed = !ready && reader.is_closed();
                ready || closed
            });
            if closed {
                break;
            }
            seen += reader.take().unwrap().unwrap();
        }
        assert_eq!(seen, 1, "closed only after what was written has been read");
        thread.join().unwrap();
    });
}

/// One of two readers goes away while the other reads on: the countdown never drops a message that the other still
/// reads.
#[test]
fn ring_05_a_reader_that_goes_takes_no_message_from_the_other() {
    model(|| {
        let bells = [Doorbell::heap(), Doorbell::heap()];
        let to_writer = Doorbell::heap();
        let (mut writer, mut readers) =
            ring::<std::sync::Arc<u32>>(1, to_writer.clone(), bells.to_vec()).unwrap();
        let (leaver, mut stayer) = (readers.pop().unwrap(), readers.pop().unwrap());
        let leaving = thread::spawn(move || drop(leaver));
        let [bell, _] = bells;
        let reading = thread::spawn(move || {
            for expected in 0..2 {
                assert!(bell.wait(&Waiting::Park, None, || stayer.ready()));
                assert_eq!(**stayer.current().unwrap().as_ref().unwrap(), expected);
                stayer.release();
            }
        });
        for message in 0..2 {
            assert!(to_writer.wait(&Waiting::Park, None, || writer.has_space()));
            writer.try_write(Ok(std::sync::Arc::new(message))).unwrap();
        }
        leaving.join().unwrap();
        reading.join().unwrap();
    });
}

/// A lane may check for space only after it has announced its sleep: that check itself must not miss a reader's
/// release.
#[test]
fn ring_06_a_writer_that_looks_for_space_at_the_last_moment_is_woken() {
    model(|| {
        let (to_writer, to_reader) = (Doorbell::heap(), Doorbell::heap());
        let (mut writer, mut readers) = ring::<u32>(1, to_writer.clone(), vec![to_reader]).unwrap();
        let mut reader = readers.pop().unwrap();
        writer.try_write(Ok(1)).unwrap();
        let thread = thread::spawn(move || {
            reader.release();
            reader
        });
        let mut looks = 0;
        assert!(to_writer.wait(&Waiting::Park, None, || {
            looks += 1;
            looks > 1 && writer.has_space()
        }));
        thread.join().unwrap();
    });
}

/// A reader that goes away while the ring is full lets the writer go on.
#[test]
fn ring_06_a_reader_that_is_gone_does_not_block_the_writer() {
    model(|| {
        let (to_writer, to_reader) = (Doorbell::heap(), Doorbell::heap());
        let (mut writer, mut readers) = ring::<u32>(1, to_writer.clone(), vec![to_reader]).unwrap();
        let reader = readers.pop().unwrap();
        writer.try_write(Ok(1)).unwrap();
        let thread = thread::spawn(move || drop(reader));
        assert!(to_writer.wait(&Waiting::Park, None, || writer.has_space()));
        assert!(writer.try_write(Ok(2)).is_ok());
        thread.join().unwrap();
    });
}

/// A writer that waits until everything has been read is woken by the last release, though it had space all along.
#[test]
fn ring_06_a_writer_that_waits_for_its_readers_is_woken_by_the_last_one() {
    model(|| {
        let (to_writer, to_reader) = (Doorbell::heap(), Doorbell::heap());
        let (mut writer, mut readers) = ring::<u32>(2, to_writer.clone(), vec![to_reader]).unwrap();
        let mut reader = readers.pop().unwrap();
        writer.try_write(Ok(1)).unwrap();
        let thread = thread::spawn(move || {
            reader.release();
            reader
        });
        assert!(to_writer.wait(&Waiting::Park, None, || writer.is_drained()));
        assert_eq!(thread.join().unwrap().position(), 1);
    });
}

#[test]
fn permit_01_of_threads_that_ask_at_once_one_gets_the_permit() {
    model(|| {
        let permit = Arc::new(CorePermit::default());
        let asks = |permit: &Arc<CorePermit>| {
            let permit = Arc::clone(permit);
            thread::spawn(move || permit.take(0, 1000))
        };
        let (one, two) = (asks(&permit), asks(&permit));
        let three = permit.take(0, 1000);
        let taken = [one.join().unwrap(), two.join().unwrap(), three];
        assert_eq!(taken.iter().flatten().count(), 1);
    });
}

#[test]
fn permit_03_who_died_with_a_permit_or_lost_it_does_not_disturb_the_next_holder() {
    model(|| {
        let permit = Arc::new(CorePermit::default());
        let held = permit.take(0, 1000).unwrap();
        let asks = |permit: &Arc<CorePermit>| {
            let permit = Arc::clone(permit);
            thread::spawn(move || permit.take(0, held))
        };
        let (one, two) = (asks(&permit), asks(&permit));
        // The holder comes back late: it extends the permit, unless somebody else has it by now, and ends only its own.
        let extended = permit.take(held, held);
        if extended.is_none() {
            permit.end(held);
        }
        let taken = [one.join().unwrap(), two.join().unwrap(), extended];
        assert_eq!(taken.iter().flatten().count(), 1);
        assert!(permit.is_held(held));
    });
}

/// The words of an array of two slots, and one of its elements.
struct Array {
    words: [(AtomicU64, AtomicU64); 2],
    element: UnsafeCell<()>,
}

impl Slots for Array {
    type Error = Infallible;

    fn count(&self) -> usize {
        self.words.len()
    }

    fn words(&self, slot: usize) -> Result<UseWords<'_>, Infallible> {
        let (views, claim) = &self.words[slot];
        Ok(UseWords { views, claim })
    }

    fn living(&self, slot: usize) -> Result<Option<u32>, Infallible> {
        Ok(Some(slot as u32))
    }
}

impl Array {
    /// Writes the element as the owner of a part does, unless that is refused.
    fn write(&self, slot: usize) {
        if begin_part(self, slot).is_ok() {
            // Loom reports an access beside another one.
            self.element.with_mut(|_| ());
            end_part(self, slot);
        }
    }

    /// Reads the element as a view does, unless that is refused. Views read and write by atomics, which may meet.
    fn view(&self, slot: usize) {
        if begin_view(self, slot).is_ok() {
            self.element.with(|_| ());
            end_view(self, slot);
        }
    }
}

/// Lets all of them use one array at a time, the first one in this thread. Loom reports an element that is written while another thread
/// looks at it, or after a use that does not happen before.
fn uses(preemptions: usize, uses: &'static [fn(&Array)]) {
    model_bounded(preemptions, move || {
        let array = Arc::new(Array {
            words: Default::default(),
            element: UnsafeCell::new(()),
        });
        let [here, others @ ..] = uses else { return };
        let threads: Vec<_> = others
            .iter()
            .map(|used| {
                let array = Arc::clone(&array);
                thread::spawn(move || used(&array))
            })
            .collect();
        here(&array);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let free = |(views, claim): &(AtomicU64, AtomicU64)| {
            (views.load(Ordering::Relaxed), claim.load(Ordering::Relaxed)) == (0, 0)
        };
        assert!(
            array.words.iter().all(free),
            "a use that was refused or ended is counted"
        );
    });
}

#[test]
fn arr_02_a_part_is_never_claimed_beside_a_view() {
    uses(3, &[|array| array.write(0), |array| array.view(1)]);
}

#[test]
fn arr_02_a_process_has_no_view_beside_its_own_part() {
    uses(3, &[|array| array.write(0), |array| array.view(0)]);
}

#[test]
fn arr_02_a_part_waits_for_the_last_of_two_views() {
    uses(
        2,
        &[
            |array| array.write(0),
            |array| array.view(1),
            |array| array.view(1),
        ],
    );
}

#[test]
fn arr_03_two_threads_of_a_process_claim_its_part_one_after_the_other() {
    uses(3, &[|array| array.write(0), |array| array.write(0)]);
}
