//! What the users of a simulated process do: they create objects, pass them on, ask for values, and drop everything.

use std::time::Duration;

use selvedge_objects::refs::{Event, Parcel, RefId};

use crate::process::{Payload, Process, peer};
use crate::world::{Happening, World};

/// The time in which objects are created.
const CREATION: u64 = 60_000_000;
/// The longest times for which users do nothing with a handle, in microseconds: some are in a hurry.
const HOLD: [u64; 2] = [10_000, 2_000_000];

impl World {
    /// Schedules the creation of all objects.
    pub(crate) fn schedule_users(&mut self) {
        for _ in 0..self.setting.refs {
            let (at, time) = (self.anybody(), self.random.below(CREATION));
            self.schedule(Duration::from_micros(time), at, Happening::Create);
        }
    }

    /// Schedules deaths, and when each process learns of them. The head stays, since somebody has to decide.
    pub(crate) fn schedule_deaths(&mut self) {
        let others: Vec<usize> = (1..self.processes.len()).collect();
        let count = (self.setting.crashes + self.setting.mistakes) as usize;
        for (number, dead) in self.shuffled(others).into_iter().take(count).enumerate() {
            self.oracle.mortals.insert(dead);
            let death = Duration::from_micros(self.random.below(CREATION));
            let is_mistake = number >= self.setting.crashes as usize;
            let end = if is_mistake {
                death + Duration::from_secs(3)
            } else {
                death
            };
            self.schedule(end, dead, Happening::End);
            for at in (0..self.processes.len()).filter(|at| *at != dead) {
                let later = Duration::from_micros(10_000 + self.random.below(2_000_000));
                self.schedule(death + later, at, Happening::Learn(dead));
            }
        }
    }

    /// Schedules shutdowns, of processes that do not die.
    pub(crate) fn schedule_shutdowns(&mut self) {
        let others = (1..self.processes.len()).filter(|at| !self.oracle.mortals.contains(at));
        let others = others.collect();
        for at in self
            .shuffled(others)
            .into_iter()
            .take(self.setting.shutdowns as usize)
        {
            // An owner that shuts down refuses to keep results.
            self.oracle.mortals.insert(at);
            let time = Duration::from_micros(self.random.below(CREATION));
            self.schedule(time, at, Happening::Shutdown);
        }
    }

    fn shuffled(&mut self, mut from: Vec<usize>) -> Vec<usize> {
        for at in (1..from.len()).rev() {
            let with = self.random.below(at as u64 + 1) as usize;
            from.swap(at, with);
        }
        from
    }

    fn anybody(&mut self) -> usize {
        self.random.below(self.processes.len() as u64) as usize
    }

    fn after(&mut self, most: u64) -> Duration {
        self.now + Duration::from_micros(self.random.below(most))
    }

    fn pace(&mut self) -> u64 {
        let [hurry, leisure] = HOLD;
        if self.random.happens(500) { hurry } else { leisure }
    }

    pub(crate) fn create(&mut self, at: usize) {
        let (now, owner) = (self.now, self.anybody());
        let Some(process) = self.processes.get_mut(at) else {
            return;
        };
        if owner == at {
            let id = process.refs.create();
            self.report.created += 1;
            self.hold(at, id);
            let pace = self.pace();
            let time = self.after(pace);
            self.schedule(time, at, Happening::Fill(id));
        } else if let Ok(parcel) = process.refs.keep(now, peer(owner)) {
            self.report.created += 1;
            self.hold(at, parcel.id());
            self.send(at, owner, Payload::Call(vec![parcel]), vec![parcel]);
        }
    }

    /// What a user does with a handle: pass it on, ask for the value, drop it. The asker drops it after the answer.
    fn hold(&mut self, at: usize, id: RefId) {
        self.oracle.touches(at, id);
        let pace = self.pace();
        let passes = [0, 0, 0, 1, 1, 2];
        let choice = self.random.below(passes.len() as u64) as usize;
        for _ in 0..passes.get(choice).copied().unwrap_or(0) {
            let time = self.after(pace);
            self.schedule(time, at, Happening::Pass(id));
        }
        let time = self.after(2 * pace);
        let asks = id.owner != peer(at) && self.random.happens(200);
        let last = if asks {
            Happening::Fetch(id)
        } else {
            Happening::Drop(id)
        };
        self.schedule(time, at, last);
    }

    /// Passes a reference on, at times with a call whose result the receiver keeps.
    pub(crate) fn pass(&mut self, at: usize, id: RefId) {
        let (now, to, keeps) = (self.now, self.anybody(), self.random.happens(200));
        let Some(process) = self.processes.get_mut(at) else {
            return;
        };
        let Ok(passed) = process.refs.pass(id, peer(to)) else {
            return;
        };
        let kept = keeps.then(|| process.refs.keep(now, peer(to)).ok()).flatten();
        self.report.passed += 1;
        if let Some(kept) = kept {
            self.report.created += 1;
            self.hold(at, kept.id());
        }
        let parcels: Vec<Parcel> = kept.into_iter().chain([passed]).collect();
        self.send(at, to, Payload::Call(parcels.clone()), parcels);
    }

    pub(crate) fn fetch(&mut self, at: usize, id: RefId) {
        let to = crate::process::index(id.owner);
        let Some(process) = self.processes.get_mut(at) else {
            return;
        };
        let question = process.number();
        process.fetches.insert(question, id);
        if process.dead.contains(&to) {
            return self.end_fetches(at, |lost| lost == id);
        }
        self.send(at, to, Payload::Fetch { question, id }, Vec::new());
    }

    pub(crate) fn answered(&mut self, at: usize, question: u64) {
        let fetched = self
            .processes
            .get_mut(at)
            .and_then(|it| it.fetches.remove(&question));
        if let Some(id) = fetched {
            self.step(at, Event::Dropped(id));
        }
    }

    /// Ends fetches with an error, since their object is lost.
    pub(crate) fn end_fetches(&mut self, at: usize, is_lost: impl Fn(RefId) -> bool) {
        let fetches = self
            .processes
            .get(at)
            .map(|it| it.fetches.clone())
            .unwrap_or_default();
        for (question, _) in fetches.into_iter().filter(|(_, id)| is_lost(*id)) {
            self.answered(at, question);
        }
    }

    pub(crate) fn receive_call(&mut self, at: usize, from: usize, parcels: Vec<Parcel>) {
        let is_discarded = self.random.happens(30);
        let Some(process) = self.processes.get_mut(at) else {
            return;
        };
        let call = process.number();
        let mut taken = Vec::new();
        for parcel in &parcels {
            self.oracle.touches(at, parcel.id());
            match parcel {
                Parcel::Keep { id } => drop(process.kept.insert(call, *id)),
                Parcel::Given { id, .. } | Parcel::Lent { id, .. } => taken.push(*id),
            }
        }
        let held = if is_discarded { Vec::new() } else { taken.clone() };
        process.calls.insert(call, held);
        let from = peer(from);
        self.step(at, Event::Arrived { from, call, parcels });
        let is_refused = |it: &Process| it.refused.contains(&call);
        let is_discarded = is_discarded && !self.processes.get(at).is_some_and(is_refused);
        for id in taken.into_iter().filter(|_| is_discarded) {
            self.step(at, Event::Discarded(id));
        }
    }

    /// A call whose references count as handles will not run.
    pub(crate) fn abandon_call(&mut self, at: usize, call: u64) {
        let Some(process) = self.processes.get_mut(at) else {
            return;
        };
        process.kept.remove(&call);
        for id in process.calls.remove(&call).unwrap_or_default() {
            self.step(at, Event::Discarded(id));
        }
    }

    /// A call whose references are no handles will not run.
    pub(crate) fn refuse_call(&mut self, at: usize, call: u64) {
        if let Some(process) = self.processes.get_mut(at) {
            process.calls.remove(&call);
            process.kept.remove(&call);
            process.refused.insert(call);
        }
    }

    pub(crate) fn run_call(&mut self, at: usize, call: u64) {
        let Some(process) = self.processes.get_mut(at) else {
            return;
        };
        let (taken, kept) = (process.calls.remove(&call), process.kept.remove(&call));
        for id in taken.unwrap_or_default() {
            self.hold(at, id);
        }
        if let Some(kept) = kept {
            let pace = self.pace();
            let time = self.after(pace);
            self.schedule(time, at, Happening::Fill(kept));
        }
    }
}
