//! The number of frames that passing a reference takes when nothing goes wrong.

use std::time::Duration;

use selvedge_objects::refs::{Action, Event, RefError, RefId, RefSettings, Refs};

use crate::process::{index, peer};

/// Processes whose frames arrive at once.
struct Ideal {
    tables: Vec<Refs>,
    now: Duration,
    frames: u64,
}

/// An owner, the creator of a reference, and a third process.
const OWNER: usize = 0;
const CREATOR: usize = 1;
const THIRD: usize = 2;

impl Ideal {
    /// A reference that its creator holds and its owner has confirmed.
    fn new() -> Result<(Self, RefId), RefError> {
        let tables = (0..3)
            .map(|at| Refs::new(peer(at), RefSettings::default()))
            .collect();
        let mut ideal = Ideal {
            tables,
            now: Duration::ZERO,
            frames: 0,
        };
        let now = ideal.now;
        let parcel = ideal.tables.get_mut(CREATOR).map(|it| it.keep(now, peer(OWNER)));
        let parcel = parcel.unwrap_or(Err(RefError::ToItself(peer(CREATOR))))?;
        let (from, call, parcels) = (peer(CREATOR), 0, vec![parcel]);
        ideal.step(OWNER, Event::Arrived { from, call, parcels });
        ideal.wait();
        ideal.frames = 0;
        Ok((ideal, parcel.id()))
    }

    fn step(&mut self, at: usize, event: Event) {
        let mut events = vec![(at, event)];
        while let Some((at, event)) = events.pop() {
            let now = self.now;
            let actions = self.tables.get_mut(at).map(|it| it.step(now, event));
            for action in actions.unwrap_or_default() {
                if let Action::Send { to, bundle } = action {
                    self.frames += 1;
                    events.push((
                        index(to),
                        Event::Heard {
                            from: peer(at),
                            bundle,
                        },
                    ));
                }
            }
        }
    }

    fn pass(&mut self, id: RefId) {
        let parcel = self.tables.get_mut(CREATOR).map(|it| it.pass(id, peer(THIRD)));
        if let Some(Ok(parcel)) = parcel {
            let (from, call, parcels) = (peer(CREATOR), 1, vec![parcel]);
            self.step(THIRD, Event::Arrived { from, call, parcels });
        }
    }

    /// Lets timers fire until there are none.
    fn wait(&mut self) {
        while let Some(due) = self.tables.iter().filter_map(Refs::deadline).min() {
            self.now = self.now.max(due);
            (0..self.tables.len()).for_each(|at| self.step(at, Event::Tick));
        }
    }
}

/// The frames beside the call for passing a reference to a process that does not have it.
pub fn to_a_third() -> u64 {
    Ideal::new().map_or(u64::MAX, |(mut ideal, id)| {
        ideal.pass(id);
        ideal.wait();
        ideal.frames
    })
}

/// The frames beside the calls for passing a reference `passes` times, within a millisecond each, to a process that has
/// it.
pub fn to_a_holder(passes: u64) -> u64 {
    Ideal::new().map_or(u64::MAX, |(mut ideal, id)| {
        ideal.pass(id);
        ideal.wait();
        ideal.frames = 0;
        for _ in 0..passes {
            ideal.pass(id);
            ideal.step(THIRD, Event::Dropped(id));
            ideal.now += Duration::from_micros(100);
            (0..3).for_each(|at| ideal.step(at, Event::Tick));
        }
        ideal.wait();
        ideal.frames
    })
}
