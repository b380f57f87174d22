//! The table of calls against a plain interpreter, which keeps every call for ever and looks all of them through.

use proptest::prelude::*;
use selvedge_cluster::peer::{Incarnation, ProcessId};

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Ask(Peer),
    /// The letter of the call was sent under the number of the call times ten.
    Sent(u64),
    Answered(Peer, u64),
    Abandon(u64),
    /// The peer dies; calls with an even number were never handed to a link.
    Died(Peer),
}

fn peer() -> impl Strategy<Value = Peer> {
    (1_u32..3, 0_u32..2).prop_map(|(process, incarnation)| Peer {
        process: ProcessId::new(process).unwrap_or(ProcessId::HEAD),
        incarnation: Incarnation(incarnation),
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => peer().prop_map(Step::Ask),
        2 => (1_u64..12).prop_map(Step::Sent),
        3 => (peer(), 1_u64..12).prop_map(|(peer, call)| Step::Answered(peer, call)),
        1 => (1_u64..12).prop_map(Step::Abandon),
        1 => peer().prop_map(Step::Died),
    ]
}

/// A call, its number and whether its letter was sent; `None` once it has ended.
struct Plain(Vec<Option<(Peer, bool)>>);

impl Plain {
    fn end(&mut self, call: u64, of: impl Fn(Peer) -> bool) -> Option<Peer> {
        let place = self.0.get_mut(usize::try_from(call - 1).unwrap())?;
        let (peer, _) = place.filter(|(peer, _)| of(*peer))?;
        *place = None;
        Some(peer)
    }
}

fn fates() -> Vec<(u64, Outcome)> {
    let outcome = |call: u64| {
        if call.is_multiple_of(2) {
            Outcome::NotSent
        } else {
            Outcome::Unknown
        }
    };
    (1..12).map(|call| (call * 10, outcome(call))).collect()
}

proptest! {
    /// `CALLS-1`, `CALLS-2`, `CALLS-3`.
    #[test]
    fn each_asked_call_ends_once_as_an_interpreter_says(steps in proptest::collection::vec(step(), 0..60)) {
        let (mut table, mut plain) = (Asked::default(), Plain(Vec::new()));
        for step in steps {
            match step {
                Step::Ask(peer) => {
                    plain.0.push(Some((peer, false)));
                    let number = plain.0.len() as u64;
                    prop_assert_eq!(table.ask(peer, number), CallId(number));
                }
                Step::Sent(call) => {
                    table.sent(CallId(call), call * 10);
                    let place = plain.0.get_mut(usize::try_from(call - 1).unwrap());
                    if let Some(Some((_, sent))) = place {
                        *sent = true;
                    }
                }
                Step::Answered(from, call) => {
                    let ended = plain.end(call, |peer| peer == from);
                    prop_assert_eq!(table.answered(from, CallId(call)), ended.map(|_| call));
                }
                Step::Abandon(call) => {
                    let ended = plain.end(call, |_| true);
                    prop_assert_eq!(table.abandon(CallId(call)), ended.map(|peer| (peer, call)));
                }
                Step::Died(dead) => {
                    let mut lost = Vec::new();
                    for (number, place) in (1_u64..).zip(&mut plain.0) {
                        if let Some((_, sent)) = place.filter(|(peer, _)| *peer == dead) {
                            let never = sent && number.is_multiple_of(2);
                            lost.push((number, if never { Ran::Never } else { Ran::Unknown }));
                            *place = None;
                        }
                    }
                    prop_assert_eq!(table.died(dead, &fates()), lost);
                }
            }
            prop_assert_eq!(table.len(), plain.0.iter().flatten().count());
        }
        let left = (1..).zip(&plain.0).filter_map(|(number, place)| Some((CallId(number), place.as_ref()?.0, number)));
        prop_assert_eq!(table.take_all(), left.collect::<Vec<_>>());
    }

    /// `CALLS-4`.
    #[test]
    fn a_served_call_is_answered_unless_it_was_cancelled(
        steps in proptest::collection::vec((0_u8..4, peer(), 0_u64..4), 0..60),
    ) {
        let (mut table, mut plain) = (Served::default(), Vec::new());
        for (kind, from, call) in steps {
            let name = (from, CallId(call));
            let is_listed = plain.contains(&name);
            match kind {
                0 => {
                    prop_assert_eq!(table.begin(from, CallId(call), name), !is_listed);
                    if !is_listed {
                        plain.push(name);
                    }
                }
                1 => prop_assert_eq!(table.end(from, CallId(call)), is_listed),
                2 => prop_assert_eq!(table.cancel(from, CallId(call)), is_listed.then_some(name)),
                _ => {
                    let mut orphans: Vec<_> = plain.iter().copied().filter(|(peer, _)| *peer == from).collect();
                    orphans.sort_unstable();
                    prop_assert_eq!(table.died(from), orphans);
                    plain.retain(|(peer, _)| *peer != from);
                }
            }
            if kind == 1 || kind == 2 {
                plain.retain(|known| *known != name);
            }
            prop_assert_eq!(table.len(), plain.len());
        }
        prop_assert_eq!(table.take_all().len(), plain.len());
    }
}
