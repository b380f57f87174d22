//! The exploration of a [`Machine`]: turns ends with single steps into a stateright model.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

/// A system to explore.
pub(crate) trait Machine: Sync + Send + 'static {
    /// The ends, and the observations made of them.
    type World;
    type Action: Copy + Debug + PartialEq + Hash + Send + Sync + 'static;

    fn fresh(&self) -> Self::World;

    /// The actions to try in this state. An action that changes no observation leads to no new state.
    fn actions(&self, world: &Self::World) -> Vec<Self::Action>;

    /// Takes a step. Returns the invariant that it has broken as an error.
    fn step(&self, world: &mut Self::World, action: Self::Action) -> Result<(), &'static str>;

    /// All words that decide about the next possible steps.
    fn seen(&self, world: &Self::World) -> Vec<u64>;

    /// Checks a world in which no action changes anything: an end that still waits is an error.
    fn rest(&self, world: &Self::World) -> Result<(), &'static str>;
}

#[derive(Clone, Debug)]
pub(crate) struct State<A> {
    path: Vec<A>,
    seen: Vec<u64>,
    /// The actions that lead to a new state.
    next: Vec<A>,
    broken: Option<&'static str>,
}

impl<A> PartialEq for State<A> {
    fn eq(&self, other: &Self) -> bool {
        (&self.seen, self.broken) == (&other.seen, other.broken)
    }
}

impl<A> Eq for State<A> {}

impl<A> Hash for State<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.seen, self.broken).hash(state);
    }
}

pub(crate) struct Explored<M>(pub(crate) M);

impl<M: Machine> Explored<M> {
    fn walk(&self, path: &[M::Action]) -> (M::World, Option<&'static str>) {
        let mut world = self.0.fresh();
        for action in path {
            if let Err(broken) = self.0.step(&mut world, *action) {
                return (world, Some(broken));
            }
        }
        (world, None)
    }

    fn state(&self, path: Vec<M::Action>) -> State<M::Action> {
        let (world, mut broken) = self.walk(&path);
        let seen = self.0.seen(&world);
        let mut next = Vec::new();
        if broken.is_none() {
            let leads = |action: &M::Action| {
                let (mut tried, _) = self.walk(&path);
                self.0.step(&mut tried, *action).is_err() || self.0.seen(&tried) != seen
            };
            next = self.0.actions(&world).into_iter().filter(leads).collect();
            if next.is_empty() {
                broken = self.0.rest(&world).err();
            }
        }
        State {
            path,
            seen,
            next,
            broken,
        }
    }
}

impl<M: Machine> Model for Explored<M> {
    type State = State<M::Action>;
    type Action = M::Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![self.state(Vec::new())]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        actions.extend(&state.next);
    }

    fn next_state(&self, state: &Self::State, action: Self::Action) -> Option<Self::State> {
        let mut path = state.path.clone();
        path.push(action);
        Some(self.state(path))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(
            "nothing is broken",
            |_, state: &State<M::Action>| state.broken.is_none(),
        )]
    }
}

/// Explores every state, up to the first fault. Returns the number of states, and the fault.
pub(crate) fn explore<M: Machine>(machine: M) -> (usize, Option<&'static str>) {
    let checker = Explored(machine).checker().threads(1).spawn_bfs().join();
    let (states, found) = (
        checker.unique_state_count(),
        checker.discovery("nothing is broken"),
    );
    let broken = found.as_ref().and_then(|path| path.last_state().broken);
    let way = found.map(|path| path.into_actions()).unwrap_or_default();
    println!("{states} states, {broken:?} {way:?}");
    (states, broken)
}

/// Asserts that the model has no fault, and returns its number of states.
pub(crate) fn holds<M: Machine>(machine: M) -> usize {
    let (states, broken) = explore(machine);
    assert_eq!(broken, None, "after {states} states");
    states
}

/// Asserts that a mutant's fault is found; the order of exploration decides which of `faults` comes first.
pub(crate) fn is_found<M: Machine>(machine: M, faults: &[&str]) {
    let (states, broken) = explore(machine);
    assert!(
        broken.is_some_and(|broken| faults.contains(&broken)),
        "{broken:?} after {states} states"
    );
}
