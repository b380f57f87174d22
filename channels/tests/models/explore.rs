//! From ends that can be stepped to a model.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};

use stateright::{Checker, Model, Property};

/// What is explored.
pub(crate) trait Machine: Sync + Send + 'static {
    /// The ends, and what has been seen of them.
    type World;
    type Action: Copy + Debug + PartialEq + Hash + Send + Sync + 'static;

    fn fresh(&self) -> Self::World;

    /// What may be tried in any state; what changes nothing leads nowhere.
    fn actions(&self, world: &Self::World) -> Vec<Self::Action>;

    /// Takes a step; says which invariant it has broken.
    fn step(&self, world: &mut Self::World, action: Self::Action) -> Result<(), &'static str>;

    /// All that decides about what can happen next.
    fn seen(&self, world: &Self::World) -> Vec<u64>;

    /// Of a world in which nothing can move any more: who still waits.
    fn rest(&self, world: &Self::World) -> Result<(), &'static str>;
}

#[derive(Clone, Debug)]
pub(crate) struct State<A> {
    path: Vec<A>,
    seen: Vec<u64>,
    /// Those that lead somewhere.
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

/// Explores every state, up to the first fault: how many there are, and the fault.
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

/// How many states there are of what must hold.
pub(crate) fn holds<M: Machine>(machine: M) -> usize {
    let (states, broken) = explore(machine);
    assert_eq!(broken, None, "after {states} states");
    states
}

/// That a mutant's fault is found; which of them comes first depends on the order of exploration.
pub(crate) fn is_found<M: Machine>(machine: M, faults: &[&str]) {
    let (states, broken) = explore(machine);
    assert!(
        broken.is_some_and(|broken| faults.contains(&broken)),
        "{broken:?} after {states} states"
    );
}
