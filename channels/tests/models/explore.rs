//! The exploration of a [`Machine`]: turns ends with single steps into a stateright model.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

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

/// What a way of actions leads to. Two states are one if an observer sees no difference.
#[derive(Clone, Debug)]
pub(crate) struct State<A> {
    path: Vec<A>,
    seen: Vec<u64>,
    /// The invariant that the last step has broken.
    broken: Option<&'static str>,
    /// Found when the state is looked at. Of the many ways to a state, only the first is looked at.
    next: OnceLock<Next<A>>,
}

/// The actions that lead to a new state, each with that state, or what is wrong if there is none.
#[derive(Clone, Debug)]
struct Next<A> {
    states: Vec<(A, State<A>)>,
    stuck: Option<&'static str>,
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
    /// The world after actions of which only the last may break an invariant, and the state that it is in.
    fn walk(&self, path: Vec<M::Action>) -> (M::World, State<M::Action>) {
        let mut world = self.0.fresh();
        let steps = path.iter().map(|action| self.0.step(&mut world, *action));
        let broken = steps.filter_map(Result::err).next();
        let seen = self.0.seen(&world);
        let next = OnceLock::new();
        let state = State {
            path,
            seen,
            broken,
            next,
        };
        (world, state)
    }

    fn next<'s>(&self, state: &'s State<M::Action>) -> &'s Next<M::Action> {
        state.next.get_or_init(|| {
            if state.broken.is_some() {
                return Next {
                    states: Vec::new(),
                    stuck: None,
                };
            }
            let (world, _) = self.walk(state.path.clone());
            let after = |action| (action, self.walk([&state.path[..], &[action]].concat()).1);
            let states = self.0.actions(&world).into_iter().map(after);
            let states: Vec<_> = states.filter(|(_, after)| after != state).collect();
            let stuck = states.is_empty().then(|| self.0.rest(&world).err()).flatten();
            Next { states, stuck }
        })
    }

    fn broken(&self, state: &State<M::Action>) -> Option<&'static str> {
        state.broken.or_else(|| self.next(state).stuck)
    }
}

impl<M: Machine> Model for Explored<M> {
    type State = State<M::Action>;
    type Action = M::Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![self.walk(Vec::new()).1]
    }

    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        actions.extend(self.next(state).states.iter().map(|(action, _)| *action));
    }

    fn next_state(&self, state: &Self::State, action: Self::Action) -> Option<Self::State> {
        let mut states = self.next(state).states.iter();
        states
            .find(|(taken, _)| *taken == action)
            .map(|(_, after)| after.clone())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(
            "nothing is broken",
            |explored: &Self, state: &State<M::Action>| explored.broken(state).is_none(),
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
    let broken = found
        .as_ref()
        .and_then(|path| checker.model().broken(path.last_state()));
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
