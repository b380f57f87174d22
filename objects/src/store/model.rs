//! Random histories of a store, beside a model that knows the bytes of every extent.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};

use super::*;

const CAPACITY: u64 = 32;

#[derive(Clone, Debug)]
enum Step {
    Reserve {
        by: u8,
        leaves: u64,
    },
    Seal(Index),
    Abort(Index),
    Open {
        by: u8,
        which: Index,
    },
    Read {
        by: u8,
        which: Index,
    },
    Close(Index),
    Free(Index),
    Remakeable(Index),
    /// The disk, or the system, has done something: well, badly, or with its notice repeated.
    Notice {
        which: Index,
        is_bad: bool,
        is_repeated: bool,
    },
    Dead(u8),
    Ended(Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<Index>;
    let step = prop_oneof![
        4 => (0_u8..3, 1_u64..12).prop_map(|(by, leaves)| Step::Reserve { by, leaves }),
        4 => index().prop_map(Step::Seal),
        1 => index().prop_map(Step::Abort),
        4 => (0_u8..3, index()).prop_map(|(by, which)| Step::Open { by, which }),
        2 => (0_u8..3, index()).prop_map(|(by, which)| Step::Read { by, which }),
        3 => index().prop_map(Step::Close),
        2 => index().prop_map(Step::Free),
        1 => index().prop_map(Step::Remakeable),
        5 => (index(), prop::bool::weighted(0.1), any::<bool>())
            .prop_map(|(which, is_bad, is_repeated)| Step::Notice { which, is_bad, is_repeated }),
        1 => (0_u8..3).prop_map(Step::Dead),
        2 => index().prop_map(Step::Ended),
    ];
    prop::collection::vec(step, 0..200)
}

/// What memory or the file holds, leaf by leaf: the object that was written there.
type Bytes = BTreeMap<u64, StoreId>;

fn leaves_in(extent: Extent) -> std::ops::Range<u64> {
    let first = extent.offset / LEAF_BYTES;
    first..first + extent.len_bytes / LEAF_BYTES
}

fn write(bytes: &mut Bytes, extent: Extent, object: StoreId) {
    bytes.extend(leaves_in(extent).map(|leaf| (leaf, object)));
}

fn holds(bytes: &Bytes, extent: Extent, object: StoreId) -> bool {
    leaves_in(extent).all(|leaf| bytes.get(&leaf) == Some(&object))
}

struct StoreWorld {
    store: Store,
    memory: Bytes,
    file: Bytes,
    /// The leaves that have pages.
    pages: BTreeSet<u64>,
    unsealed: BTreeMap<StoreId, (Peer, Extent)>,
    sealed: BTreeSet<StoreId>,
    /// Those that their owner can make again.
    remakeable: BTreeSet<StoreId>,
    grants: BTreeMap<(Peer, StoreId, u64), Extent>,
    /// Open questions: the process, and the object that it wants to read.
    questions: BTreeMap<u64, (Peer, Option<StoreId>)>,
    /// What the disk and the system have to do, in order.
    work: Vec<StoreAction>,
    lives: [u32; 3],
    /// Those that count as dead and still run.
    dying: BTreeSet<Peer>,
    numbers: u64,
}

impl StoreWorld {
    fn new() -> Self {
        StoreWorld {
            store: Store::new(StoreSettings {
                capacity_bytes: CAPACITY * LEAF_BYTES,
                warm_bytes: 8 * LEAF_BYTES,
            }),
            memory: Bytes::new(),
            file: Bytes::new(),
            pages: BTreeSet::new(),
            unsealed: BTreeMap::new(),
            sealed: BTreeSet::new(),
            remakeable: BTreeSet::new(),
            grants: BTreeMap::new(),
            questions: BTreeMap::new(),
            work: Vec::new(),
            lives: [1; 3],
            dying: BTreeSet::new(),
            numbers: 0,
        }
    }

    fn peer(&self, number: u8) -> Peer {
        Peer {
            process: ProcessId::new(u32::from(number) + 1).unwrap(),
            incarnation: Incarnation(self.lives[usize::from(number)]),
        }
    }

    fn ask(&mut self, by: Peer, object: Option<StoreId>) -> u64 {
        self.numbers += 1;
        self.questions.insert(self.numbers, (by, object));
        self.numbers
    }

    fn event(&mut self, event: StoreEvent) {
        for action in self.store.step(event) {
            self.perform(action);
        }
        self.check();
    }

    fn perform(&mut self, action: StoreAction) {
        match action {
            StoreAction::Lend {
                request,
                object,
                extent,
                bare,
            } => {
                let (by, _) = self.questions.remove(&request).expect("asked once");
                self.reserve(extent, bare);
                // STORE-1: what is lent is nobody else's.
                let mut taken = self
                    .unsealed
                    .values()
                    .map(|(_, it)| *it)
                    .chain(self.grants.values().copied());
                assert!(taken.all(|other| leaves_in(other).all(|leaf| !leaves_in(extent).contains(&leaf))));
                write(&mut self.memory, extent, object);
                self.unsealed.insert(object, (by, extent));
            }
            StoreAction::Refuse { request, error } => {
                let (_, object) = self.questions.remove(&request).expect("asked once");
                if error == StoreError::Dropped {
                    assert!(self.remakeable.contains(&object.unwrap()));
                }
                if let StoreError::Full(full) = error {
                    // STORE-5: all that is left is in use.
                    assert!(object.is_none() || self.sealed.contains(&object.unwrap()));
                    assert!(self.store.idle.is_empty() && self.filling().is_empty() && full.need_bytes > 0);
                }
            }
            StoreAction::Grant {
                request,
                object,
                grant,
                extent,
                ..
            } => {
                let (by, wanted) = self.questions.remove(&request).expect("asked once");
                assert_eq!(wanted, Some(object));
                // STORE-2: the bytes are the object's.
                assert!(holds(&self.memory, extent, object));
                self.grants.insert((by, object, grant), extent);
            }
            work => {
                if let StoreAction::ReadBack { request, object, .. } = work {
                    let (_, wanted) = self.questions.remove(&request).expect("asked once");
                    assert_eq!(wanted, Some(object));
                }
                self.work.push(work);
            }
        }
    }

    /// STORE-3: a page is there before anybody writes to it.
    fn reserve(&mut self, extent: Extent, bare: Vec<Extent>) {
        self.pages.extend(bare.into_iter().flat_map(leaves_in));
        assert!(leaves_in(extent).all(|leaf| self.pages.contains(&leaf)));
    }

    /// The disk or the system does one thing. Work of the file is done in order, the return of pages at any time.
    fn work(&mut self, which: Index, is_bad: bool, is_repeated: bool) {
        if self.work.is_empty() {
            return;
        }
        let at = which.index(self.work.len());
        let is_punch = |action: &StoreAction| matches!(action, StoreAction::Punch(_));
        let at = if is_punch(&self.work[at]) {
            at
        } else {
            self.work.iter().position(|it| !is_punch(it)).unwrap()
        };
        let bad = || StoreError::Restore {
            why: "bad".to_owned(),
        };
        let done = match self.work.remove(at) {
            StoreAction::Spill {
                object,
                attempt,
                from,
                to,
                ..
            } => {
                if !is_bad {
                    assert!(holds(&self.memory, from, object));
                    write(&mut self.file, to, object);
                }
                let result = if is_bad { Err(bad()) } else { Ok(()) };
                StoreEvent::Spilled {
                    object,
                    attempt,
                    result,
                }
            }
            StoreAction::Restore {
                object,
                attempt,
                from,
                to,
                bare,
                ..
            } => {
                assert!(holds(&self.file, from, object));
                self.reserve(to, bare);
                write(&mut self.memory, to, object);
                let result = if is_bad { Err(bad()) } else { Ok(()) };
                StoreEvent::Restored {
                    object,
                    attempt,
                    result,
                }
            }
            StoreAction::ReadBack { object, from, .. } => {
                // STORE-2: the bytes are the object's.
                assert!(holds(&self.file, from, object));
                return;
            }
            StoreAction::Punch(extent) => {
                leaves_in(extent).for_each(|leaf| {
                    self.pages.remove(&leaf);
                    self.memory.remove(&leaf);
                });
                return self.event(StoreEvent::Punched(extent));
            }
            StoreAction::Discard(extent) => {
                leaves_in(extent).for_each(|leaf| {
                    self.file.remove(&leaf);
                });
                return;
            }
            _ => unreachable!("answered at once"),
        };
        self.event(done.clone());
        if is_repeated {
            self.event(done);
        }
    }

    /// STORE-4: no view loses its bytes, whatever happens. STORE-6: nobody waits for a process that counts as dead.
    fn check(&self) {
        let is_awaited = !self.work.is_empty() || !self.filling().is_empty();
        assert!(is_awaited || self.questions.is_empty(), "{:?}", self.questions);
        for ((_, object, _), extent) in &self.grants {
            assert!(holds(&self.memory, *extent, *object));
        }
    }

    fn step(&mut self, step: Step) {
        fn nth<K: Copy>(which: Index, mut from: impl ExactSizeIterator<Item = K>) -> Option<K> {
            if from.len() == 0 {
                None
            } else {
                from.nth(which.index(from.len()))
            }
        }
        match step {
            Step::Reserve { by, leaves } => {
                let by = self.peer(by);
                let request = self.ask(by, None);
                let bytes = leaves * LEAF_BYTES - 1;
                self.event(StoreEvent::Reserve { request, by, bytes });
            }
            Step::Seal(which) => {
                let Some(object) = nth(which, self.filling().into_iter()) else {
                    return;
                };
                let (by, _) = self.unsealed.remove(&object).unwrap();
                self.sealed.insert(object);
                self.event(StoreEvent::Seal { by, object });
            }
            Step::Abort(which) => {
                let Some(object) = nth(which, self.filling().into_iter()) else {
                    return;
                };
                let (by, _) = self.unsealed.remove(&object).unwrap();
                self.event(StoreEvent::Abort { by, object });
            }
            Step::Open { by, which } => {
                let Some(object) = nth(which, self.sealed.iter().copied()) else {
                    return;
                };
                let by = self.peer(by);
                let request = self.ask(by, Some(object));
                self.event(StoreEvent::Open { request, by, object });
            }
            Step::Read { by, which } => {
                let Some(object) = nth(which, self.sealed.iter().copied()) else {
                    return;
                };
                let by = self.peer(by);
                let request = self.ask(by, Some(object));
                let (offset, bytes) = (0, 1);
                self.event(StoreEvent::Read {
                    request,
                    by,
                    object,
                    offset,
                    bytes,
                });
                // STORE-6: whoever reads a part waits for no memory.
                assert!(!self.questions.contains_key(&request));
            }
            Step::Close(which) => {
                let living = self.grants.keys().filter(|(by, ..)| !self.dying.contains(by));
                let Some(pin) = nth(which, living.copied().collect::<Vec<_>>().into_iter()) else {
                    return;
                };
                self.grants.remove(&pin);
                let (by, object, grant) = pin;
                self.event(StoreEvent::Close { by, object, grant });
            }
            Step::Free(which) => {
                let Some(object) = nth(which, self.sealed.iter().copied()) else {
                    return;
                };
                self.sealed.remove(&object);
                self.event(StoreEvent::Free { object });
            }
            Step::Remakeable(which) => {
                let Some(object) = nth(which, self.sealed.iter().copied()) else {
                    return;
                };
                self.remakeable.insert(object);
                let is_remakeable = true;
                self.event(StoreEvent::Remakeable {
                    object,
                    is_remakeable,
                });
            }
            Step::Notice {
                which,
                is_bad,
                is_repeated,
            } => self.work(which, is_bad, is_repeated),
            Step::Dead(number) => {
                let dead = self.peer(number);
                self.lives[usize::from(number)] += 1;
                self.dying.insert(dead);
                self.event(StoreEvent::Dead(dead));
                // STORE-6: nobody waits for it any more.
                assert!(self.questions.values().all(|(by, _)| *by != dead));
            }
            Step::Ended(which) => {
                let Some(ended) = nth(which, self.dying.iter().copied().collect::<Vec<_>>().into_iter())
                else {
                    return;
                };
                self.dying.remove(&ended);
                self.unsealed.retain(|_, (by, _)| *by != ended);
                self.grants.retain(|(by, ..), _| *by != ended);
                self.event(StoreEvent::Ended(ended));
            }
        }
    }

    /// The objects that living processes fill.
    fn filling(&self) -> Vec<StoreId> {
        let living = self
            .unsealed
            .iter()
            .filter(|(_, (by, _))| !self.dying.contains(by));
        living.map(|(object, _)| *object).collect()
    }

    /// Lets all work be done, gives everything back, and looks what is left.
    fn end(mut self, first: Index) {
        while !(self.work.is_empty() && self.unsealed.is_empty() && self.dying.is_empty()) {
            self.work(first, false, false);
            self.step(Step::Abort(first));
            self.step(Step::Ended(first));
        }
        // STORE-6: who asks is answered.
        assert!(self.questions.is_empty(), "{:?}", self.questions);
        for number in 0..3 {
            self.step(Step::Dead(number));
            self.step(Step::Ended(first));
        }
        while !self.sealed.is_empty() {
            self.step(Step::Free(first));
        }
        while !self.work.is_empty() {
            self.work(first, false, false);
        }
        // STORE-7: nothing is left.
        let report = self.store.report();
        assert_eq!(
            (report.used_bytes, report.spilled_bytes, report.objects.len()),
            (0, 0, 0)
        );
        let pages = self.pages.len() as u64 * LEAF_BYTES;
        assert_eq!(pages, report.backed_bytes, "pages that the store does not know");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn rstore_02_no_view_loses_its_bytes_and_nothing_is_left(steps in steps(), last in any::<Index>()) {
        let mut world = StoreWorld::new();
        steps.into_iter().for_each(|step| world.step(step));
        world.end(last);
    }
}

fn peer(number: u32) -> Peer {
    ProcessId::new(number).unwrap().first_life()
}

/// A sealed object of so many leaves.
fn put(store: &mut Store, leaves: u64) -> (StoreId, Vec<StoreAction>) {
    let bytes = leaves * LEAF_BYTES;
    let mut actions = store.step(StoreEvent::Reserve {
        request: 0,
        by: peer(1),
        bytes,
    });
    let lent = actions
        .iter()
        .position(|it| matches!(it, StoreAction::Lend { .. }));
    let Some(StoreAction::Lend { object, .. }) = lent.map(|at| actions.remove(at)) else {
        panic!("{actions:?}")
    };
    store.step(StoreEvent::Seal { by: peer(1), object });
    (object, actions)
}

#[test]
fn rstore_10_the_least_recently_used_object_goes_first_and_a_pinned_one_never() {
    let mut store = Store::new(StoreSettings::with_capacity(4 * LEAF_BYTES));
    let objects: Vec<StoreId> = (0..4).map(|_| put(&mut store, 1).0).collect();
    // The first one is used again, and a view of the second one is kept.
    for (object, closes) in [(objects[0], true), (objects[1], false)] {
        let granted = store.step(StoreEvent::Open {
            request: 1,
            by: peer(2),
            object,
        });
        let [StoreAction::Grant { grant, .. }] = granted[..] else {
            panic!("{granted:?}")
        };
        if closes {
            store.step(StoreEvent::Close {
                by: peer(2),
                object,
                grant,
            });
        }
    }
    let mut gone = Vec::new();
    for _ in 0..3 {
        let asked = store.step(StoreEvent::Reserve {
            request: 2,
            by: peer(1),
            bytes: 1,
        });
        let [StoreAction::Spill { object, attempt, .. }] = asked[..] else {
            panic!("{asked:?}")
        };
        gone.push(object);
        let spilled = StoreEvent::Spilled {
            object,
            attempt,
            result: Ok(()),
        };
        assert!(matches!(store.step(spilled)[..], [StoreAction::Lend { .. }]));
    }
    assert_eq!(gone, [objects[2], objects[3], objects[0]]);
}

#[test]
fn rstore_10_who_finds_no_room_waits_for_what_is_being_filled_and_is_refused_when_all_is_in_use() {
    let mut store = Store::new(StoreSettings::with_capacity(2 * LEAF_BYTES));
    let ask = |store: &mut Store, request| {
        let (by, bytes) = (peer(1), LEAF_BYTES);
        store.step(StoreEvent::Reserve { request, by, bytes })
    };
    let (object, _) = put(&mut store, 1);
    let (by, request) = (peer(2), 1);
    assert!(matches!(
        store.step(StoreEvent::Open { request, by, object })[..],
        [StoreAction::Grant { .. }]
    ));
    let lent = ask(&mut store, 2);
    let [StoreAction::Lend { object, .. }] = lent[..] else {
        panic!("{lent:?}")
    };
    assert_eq!(ask(&mut store, 3), []);
    // Sealed and opened in one go, as far as the one who waits can tell.
    let (by, request) = (peer(1), 4);
    let sealed = store.step(StoreEvent::Seal { by, object });
    let [StoreAction::Spill { attempt, .. }] = sealed[..] else {
        panic!("{sealed:?}")
    };
    assert!(matches!(
        store.step(StoreEvent::Open { request, by, object })[..],
        [StoreAction::Grant { .. }]
    ));
    let result = Ok(());
    let refused = store.step(StoreEvent::Spilled {
        object,
        attempt,
        result,
    });
    let [
        StoreAction::Refuse {
            request: 3,
            error: StoreError::Full(full),
        },
    ] = &refused[..]
    else {
        panic!("{refused:?}")
    };
    let holders: Vec<_> = full
        .holders
        .iter()
        .map(|it| (it.process, it.pinned_bytes, it.unsealed_bytes))
        .collect();
    assert_eq!(holders, [(peer(1), LEAF_BYTES, 0), (peer(2), LEAF_BYTES, 0)]);
}

#[test]
fn nobody_waits_for_memory_that_a_process_fills_which_counts_as_dead() {
    let mut store = Store::new(StoreSettings::with_capacity(LEAF_BYTES));
    let bytes = LEAF_BYTES;
    for (request, by) in [(1, peer(1)), (2, peer(2))] {
        store.step(StoreEvent::Reserve { request, by, bytes });
    }
    let told = store.step(StoreEvent::Dead(peer(1)));
    let [
        StoreAction::Refuse {
            request: 2,
            error: StoreError::Full(full),
        },
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    let [holder] = full.holders[..] else {
        panic!("{full:?}")
    };
    assert_eq!((holder.process, holder.unsealed_bytes), (peer(1), bytes));
    assert_eq!(store.report().used_bytes, bytes, "it may still write");
}

#[test]
fn a_process_that_counts_as_dead_keeps_its_memory_until_it_has_ended() {
    for ends_first in [false, true] {
        let mut store = Store::new(StoreSettings::with_capacity(4 * LEAF_BYTES));
        let (object, _) = put(&mut store, 1);
        let (by, request, bytes) = (peer(2), 1, LEAF_BYTES);
        store.step(StoreEvent::Open { request, by, object });
        store.step(StoreEvent::Reserve { request, by, bytes });
        store.step(StoreEvent::Free { object });
        let (first, second) = match ends_first {
            true => (StoreEvent::Ended(by), StoreEvent::Dead(by)),
            false => (StoreEvent::Dead(by), StoreEvent::Ended(by)),
        };
        store.step(first);
        assert_eq!(store.report().used_bytes, 2 * LEAF_BYTES);
        store.step(second);
        assert_eq!(store.report().objects.len(), 0);
    }
}

#[test]
fn a_spill_that_fails_is_told_to_who_waits_and_the_object_stays() {
    let mut store = Store::new(StoreSettings::with_capacity(LEAF_BYTES));
    let (object, _) = put(&mut store, 1);
    let asked = store.step(StoreEvent::Reserve {
        request: 7,
        by: peer(1),
        bytes: 1,
    });
    let [StoreAction::Spill { attempt, .. }] = asked[..] else {
        panic!("{asked:?}")
    };
    let error = StoreError::Spill {
        folder: "/full".to_owned(),
        why: "no space".to_owned(),
    };
    let told = store.step(StoreEvent::Spilled {
        object,
        attempt,
        result: Err(error.clone()),
    });
    assert!(
        told.contains(&StoreAction::Refuse { request: 7, error }),
        "{told:?}"
    );
    let granted = store.step(StoreEvent::Open {
        request: 8,
        by: peer(2),
        object,
    });
    assert!(matches!(granted[..], [StoreAction::Grant { .. }]));
    // A late notice of the failed attempt, which says that the file has it.
    assert_eq!(
        store.step(StoreEvent::Spilled {
            object,
            attempt,
            result: Ok(())
        }),
        []
    );
    assert_eq!(store.report().spilled_bytes, 0);
}

#[test]
fn a_spill_that_fails_refuses_nobody_if_its_object_was_freed_meanwhile() {
    let mut store = Store::new(StoreSettings::with_capacity(LEAF_BYTES));
    let (object, _) = put(&mut store, 1);
    let (request, by, bytes) = (7, peer(1), 1);
    let asked = store.step(StoreEvent::Reserve { request, by, bytes });
    let [StoreAction::Spill { attempt, .. }] = asked[..] else {
        panic!("{asked:?}")
    };
    store.step(StoreEvent::Free { object });
    let result = Err(StoreError::Spill {
        folder: "/full".to_owned(),
        why: "no space".to_owned(),
    });
    let told = store.step(StoreEvent::Spilled {
        object,
        attempt,
        result,
    });
    let is_lent = |it: &StoreAction| matches!(it, StoreAction::Lend { request: 7, .. });
    assert!(told.iter().any(is_lent), "{told:?}");
    assert!(
        !told.iter().any(|it| matches!(it, StoreAction::Refuse { .. })),
        "{told:?}"
    );
}

#[test]
fn a_part_of_a_spilled_object_is_read_although_others_fill_all_of_the_memory() {
    let mut store = Store::new(StoreSettings::with_capacity(LEAF_BYTES));
    let (object, _) = put(&mut store, 1);
    let (request, by, bytes) = (1, peer(1), LEAF_BYTES);
    let asked = store.step(StoreEvent::Reserve { request, by, bytes });
    let [StoreAction::Spill { attempt, to, .. }] = asked[..] else {
        panic!("{asked:?}")
    };
    let result = Ok(());
    let lent = store.step(StoreEvent::Spilled {
        object,
        attempt,
        result,
    });
    let [StoreAction::Lend { object: filled, .. }] = lent[..] else {
        panic!("{lent:?}")
    };
    // Another one waits for the object itself.
    let (request, by) = (2, peer(2));
    assert_eq!(store.step(StoreEvent::Open { request, by, object }), []);
    let (request, offset, bytes, from) = (3, 7, 9, to);
    let part = StoreEvent::Read {
        request,
        by,
        object,
        offset,
        bytes,
    };
    let read = StoreAction::ReadBack {
        request,
        object,
        from,
        offset,
        bytes,
    };
    assert_eq!(store.step(part.clone()), std::slice::from_ref(&read));
    // On its way back to memory it is in the file as well.
    let by = peer(1);
    let told = store.step(StoreEvent::Abort { by, object: filled });
    assert!(matches!(told[..], [StoreAction::Restore { .. }]), "{told:?}");
    assert_eq!(store.step(part), [read]);
}

#[test]
fn rstore_10_an_object_that_can_be_made_again_is_dropped_if_the_file_does_not_take_it() {
    for is_opened in [false, true] {
        let mut store = Store::new(StoreSettings::with_capacity(LEAF_BYTES));
        let (object, _) = put(&mut store, 1);
        let is_remakeable = true;
        store.step(StoreEvent::Remakeable {
            object,
            is_remakeable,
        });
        let (by, bytes) = (peer(1), 1);
        let asked = store.step(StoreEvent::Reserve {
            request: 7,
            by,
            bytes,
        });
        let [StoreAction::Spill { attempt, .. }] = asked[..] else {
            panic!("{asked:?}")
        };
        if is_opened {
            let (by, request) = (peer(2), 8);
            store.step(StoreEvent::Open { request, by, object });
        }
        let error = StoreError::Spill {
            folder: "/full".to_owned(),
            why: "no space".to_owned(),
        };
        let result = Err(error.clone());
        let told = store.step(StoreEvent::Spilled {
            object,
            attempt,
            result,
        });
        // A view of it is not taken away.
        let refused = StoreAction::Refuse { request: 7, error };
        assert_eq!(told.contains(&refused), is_opened, "{told:?}");
        let is_lent = told
            .iter()
            .any(|it| matches!(it, StoreAction::Lend { request: 7, .. }));
        assert_eq!(is_lent, !is_opened);
        let (by, request) = (peer(2), 9);
        let opened = store.step(StoreEvent::Open { request, by, object });
        match is_opened {
            true => assert!(matches!(opened[..], [StoreAction::Grant { .. }])),
            false => {
                let error = StoreError::Dropped;
                assert_eq!(opened, [StoreAction::Refuse { request, error }]);
                store.step(StoreEvent::Free { object });
                assert_eq!(store.report().objects.len(), 1, "the one that is being filled");
            }
        }
    }
}

#[test]
fn an_object_larger_than_the_store_is_refused_at_once() {
    let capacity_bytes = 7 * LEAF_BYTES;
    let mut store = Store::new(StoreSettings::with_capacity(capacity_bytes));
    let bytes = capacity_bytes + 1;
    let asked = store.step(StoreEvent::Reserve {
        request: 1,
        by: peer(1),
        bytes,
    });
    let error = StoreError::TooLarge {
        bytes,
        capacity_bytes,
    };
    assert_eq!(asked, [StoreAction::Refuse { request: 1, error }]);
}

#[test]
fn free_memory_stays_warm_up_to_a_limit_and_the_rest_goes_back_to_the_system() {
    let mut store = Store::new(StoreSettings {
        capacity_bytes: 16 * LEAF_BYTES,
        warm_bytes: 4 * LEAF_BYTES,
    });
    let objects: Vec<StoreId> = (0..4).map(|_| put(&mut store, 4).0).collect();
    let mut punched = Vec::new();
    for object in objects {
        punched.extend(store.step(StoreEvent::Free { object }));
    }
    assert_eq!(punched.len(), 3, "{punched:?}");
    for action in punched {
        let StoreAction::Punch(extent) = action else {
            panic!("{action:?}")
        };
        store.step(StoreEvent::Punched(extent));
    }
    let report = store.report();
    assert_eq!((report.used_bytes, report.backed_bytes), (0, 4 * LEAF_BYTES));
    // The next object finds the memory that is still warm.
    let lent = store.step(StoreEvent::Reserve {
        request: 0,
        by: peer(1),
        bytes: 4 * LEAF_BYTES,
    });
    assert!(
        matches!(&lent[..], [StoreAction::Lend { bare, .. }] if bare.is_empty()),
        "{lent:?}"
    );
}
