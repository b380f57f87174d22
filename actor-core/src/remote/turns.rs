//! Turns: the batches of one map that are in one process run one after the other. So a batch can be there before the one before it has
//! ended, and the process need not wait for its caller in between. A batch that waits for its turn holds no thread: its turn is one of
//! the arguments that the call of the batch waits for.

use std::sync::LazyLock;

use parking_lot::Mutex;
use selvedge_cluster::id_map::IdMap;

use crate::promise::{Answer, Promise, promise};

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
    /// Waits until all batches of a map have ended that came before this one.
    pub(super) async fn of(map: u64) -> Self {
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
        if let Some((_, before)) = before {
            // The batch before gives no answer: its promise is broken when it ends.
            let _ = before.await;
        }
        turn
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
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn look(turn: Pin<&mut impl Future<Output = Turn>>) -> Option<Turn> {
        match turn.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    fn is_known(map: u64) -> bool {
        TURNS.lock().ends.get(&map).is_some()
    }

    #[test]
    fn batches_of_one_map_take_turns_and_others_do_not_wait() {
        let (mut second, mut third) = (pin!(Turn::of(7)), pin!(Turn::of(7)));
        let first = look(pin!(Turn::of(7))).unwrap();
        let other = look(pin!(Turn::of(8))).unwrap();
        assert!(look(second.as_mut()).is_none() && look(third.as_mut()).is_none());
        drop(first);
        assert!(look(third.as_mut()).is_none(), "its turn is after the second's");
        let second = look(second).unwrap();
        drop(second);
        drop(look(third).unwrap());
        assert!(!is_known(7) && is_known(8));
        drop(other);
        assert!(!is_known(8));
    }

    #[test]
    fn a_batch_that_is_withdrawn_while_it_waits_is_not_waited_for() {
        let first = look(pin!(Turn::of(9))).unwrap();
        let mut second = Box::pin(Turn::of(9));
        let mut third = pin!(Turn::of(9));
        assert!(look(second.as_mut()).is_none() && look(third.as_mut()).is_none());
        drop(second);
        drop(look(third).unwrap());
        drop(first);
        assert!(!is_known(9));
    }
}
