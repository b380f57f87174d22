//! Turns: the batches of one map that are in one process run one after the other. So a batch can be there before the one before it has
//! ended, and the process need not wait for its caller in between.

use std::sync::LazyLock;
use std::time::Duration;

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;

use crate::promise::{Answer, Promise, promise};
use crate::waiting::{Unanswered, WaitPermit, wait_for};

/// The batches that run or wait in this process.
static TURNS: LazyLock<Mutex<TurnTable>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct TurnTable {
    last: u64,
    /// The last batch of each map, by the map's name, with its end.
    ends: IdMap<u64, (u64, Answer<()>)>,
}

/// The turn of a batch. The drop begins the next one.
pub(super) struct Turn {
    map: u64,
    number: u64,
    _end: Promise<()>,
}

impl Turn {
    /// Waits until all batches of a map have ended that came before this one. Other calls may have the thread's place meanwhile.
    ///
    /// # Errors
    /// The call of the batch was cancelled, or it must not wait.
    pub(super) fn of(map: u64) -> Result<Self, Unanswered> {
        let (promise, end) = promise();
        let (number, before) = {
            let mut table = TURNS.lock();
            table.last += 1;
            let number = table.last;
            (number, table.ends.insert(map, (number, end)))
        };
        let turn = Turn {
            map,
            number,
            _end: promise,
        };
        if let Some((_, mut before)) = before {
            match wait_for(&mut before, Duration::MAX) {
                // The batch before has a thread of its own, so it ends although this one keeps its place.
                Err(Unanswered::Refused(_)) => {
                    let _ = WaitPermit::in_place(Duration::MAX).wait_for(&mut before)?;
                }
                waited => drop(waited?),
            }
        }
        Ok(turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut table = TURNS.lock();
        let is_last = table
            .ends
            .get(&self.map)
            .is_some_and(|(number, _)| *number == self.number);
        let ended = is_last.then(|| table.ends.remove(&self.map));
        drop(table);
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn batches_of_one_map_take_turns_and_others_do_not_wait() {
        let first = Turn::of(7).unwrap();
        let other = Turn::of(8).unwrap();
        let (sender, order) = mpsc::channel();
        let second = thread::spawn({
            let sender = sender.clone();
            move || {
                let turn = Turn::of(7).unwrap();
                sender.send("second").unwrap();
                drop(turn);
            }
        });
        while TURNS
            .lock()
            .ends
            .get(&7)
            .is_none_or(|(number, _)| *number == first.number)
        {
            thread::yield_now();
        }
        sender.send("first").unwrap();
        drop(first);
        second.join().unwrap();
        assert_eq!(order.try_iter().collect::<Vec<_>>(), ["first", "second"]);
        drop(other);
        let table = TURNS.lock();
        assert!(table.ends.get(&7).is_none() && table.ends.get(&8).is_none());
    }
}
