//! Groups over several hosts, all of whose ranks one thread drives, in an order that proptest chooses.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use selvedge_channels::Tensor;

use super::brought::{Brought, BroughtError, decode, encode};
use super::{HostExchange, HostPlaces, HostsRank};
use crate::communicator::{Communicator, Contribution};
use crate::error::CommError;
use crate::operation::{Collective, ReduceOp};
use crate::parts::Part;
use crate::rendezvous::Group;

/// The shares on their way: by receiver and sender.
type Wires = Arc<Mutex<Vec<Vec<VecDeque<Vec<u8>>>>>>;

struct Wired {
    host: usize,
    wires: Wires,
    bytes: Arc<Mutex<usize>>,
}

impl HostExchange for Wired {
    fn post(&mut self, share: Vec<u8>) -> Result<(), CommError> {
        let mut wires = self.wires.lock().unwrap();
        for (to, wire) in wires.iter_mut().enumerate().filter(|(to, _)| *to != self.host) {
            let _ = to;
            *self.bytes.lock().unwrap() += share.len();
            wire[self.host].push_back(share.clone());
            assert!(wire[self.host].len() <= 2, "HOSTS-1");
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<Vec<Vec<u8>>>, CommError> {
        let mut wires = self.wires.lock().unwrap();
        let own = &mut wires[self.host];
        let others = (0..own.len()).filter(|other| *other != self.host);
        if others.clone().any(|other| own[other].is_empty()) {
            return Ok(None);
        }
        Ok(Some(
            others.map(|other| own[other].pop_front().unwrap()).collect(),
        ))
    }
}

/// The ranks of a group on these hosts, and the bytes that have crossed.
fn ranks(hosts: &[usize]) -> (Vec<HostsRank>, Arc<Mutex<usize>>) {
    let places = HostPlaces::of(hosts);
    let count = places.hosts();
    let wires = Arc::new(Mutex::new(vec![vec![VecDeque::new(); count]; count]));
    let bytes = Arc::new(Mutex::new(0));
    let groups: Vec<Group> = (0..count)
        .map(|host| Group::in_process(places.ranks_on(host).len()).unwrap())
        .collect();
    let rank = |rank: usize| {
        let host = places.host_of(rank);
        let local = places.ranks_on(host).iter().position(|it| *it == rank).unwrap();
        let exchange = (local == 0).then(|| {
            Box::new(Wired {
                host,
                wires: Arc::clone(&wires),
                bytes: Arc::clone(&bytes),
            }) as Box<dyn HostExchange>
        });
        HostsRank::new(rank, places.clone(), groups[host].rank(local).unwrap(), exchange).unwrap()
    };
    ((0..hosts.len()).map(rank).collect(), bytes)
}

type RankOutcome = Result<Vec<Tensor>, CommError>;

/// Runs an operation; `order` says which rank is polled next. A rank with no tensors has failed.
fn run<C: Communicator>(
    ranks: &mut [C],
    operation: Collective,
    tensors: &[Option<Tensor>],
    order: &[usize],
) -> Vec<RankOutcome> {
    for (number, rank) in ranks.iter_mut().enumerate() {
        let plan = rank.plan(operation).unwrap();
        let parts: Vec<Part<'_>> = tensors[number].iter().map(Part::from).collect();
        let contribution = match &tensors[number] {
            Some(_) => Contribution::Parts(&parts),
            None => Contribution::Failure(b"the report"),
        };
        rank.launch(plan, contribution).unwrap();
    }
    let mut outcomes: Vec<Option<RankOutcome>> = ranks.iter().map(|_| None).collect();
    let count = ranks.len();
    let rest = (0..1000).map(|at| at % count);
    for number in order.iter().map(|at| at % count).chain(rest) {
        if outcomes[number].is_none() {
            outcomes[number] = ranks[number].poll().transpose();
        }
    }
    outcomes.into_iter().map(Option::unwrap).collect()
}

fn operations(ranks: usize) -> impl Strategy<Value = Collective> {
    let root = 0..ranks;
    let op = prop_oneof![
        Just(ReduceOp::Sum),
        Just(ReduceOp::Max),
        Just(ReduceOp::Product),
        Just(ReduceOp::Average)
    ];
    (root, op, 0..9).prop_map(|(root, op, kind)| match kind {
        0 => Collective::AllReduce(op),
        1 => Collective::ReduceScatter(op),
        2 => Collective::Reduce { op, root },
        3 => Collective::AllGather,
        4 => Collective::Gather { root },
        5 => Collective::Broadcast { root },
        6 => Collective::Scatter { root },
        7 => Collective::AllToAll,
        _ => Collective::Barrier,
    })
}

fn same(one: &RankOutcome, other: &RankOutcome) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one == other,
        (Err(CommError::PeerFailed { report, .. }), Err(CommError::PeerFailed { report: other, .. })) => {
            report == other
        }
        (Err(CommError::Refused { .. }), Err(error)) => !matches!(error, CommError::PeerFailed { .. }),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whole numbers do not round, so results are those of one host, whatever the operation and the order.
    #[test]
    fn comm_23_ranks_of_several_hosts_get_the_results_of_one_host(
        hosts in proptest::collection::vec(0_usize..3, 2..7),
        seeds in proptest::collection::vec((0_u32..1000, 0_usize..12), 1..5),
        kinds in proptest::collection::vec(operations(2), 1..5),
        order in proptest::collection::vec(0_usize..64, 0..80),
    ) {
        let (mut far, _) = ranks(&hosts);
        let group = Group::in_process(hosts.len()).unwrap();
        let mut near: Vec<_> = (0..hosts.len()).map(|rank| group.rank(rank).unwrap()).collect();
        for (operation, (seed, odd)) in kinds.iter().zip(&seeds) {
            let tensor = |rank: usize| {
                // Of some operations, one rank fails, or brings another shape.
                let rows = hosts.len() + usize::from(*odd == rank + 6);
                let values: Vec<i64> = (0..rows * 3).map(|at| i64::from(*seed) + (at * (rank + 1)) as i64).collect();
                (*odd != rank).then(|| Tensor::from_slice(&values, &[rows, 3]).unwrap())
            };
            let tensors: Vec<_> = (0..hosts.len()).map(tensor).collect();
            let found = run(&mut far, *operation, &tensors, &order);
            let expected = run(&mut near, *operation, &tensors, &[]);
            for (rank, (found, expected)) in found.iter().zip(&expected).enumerate() {
                prop_assert!(same(found, expected), "{operation:?}, rank {rank} of {hosts:?}: {found:?} in place of {expected:?}");
            }
        }
    }

    #[test]
    fn shares_of_any_bytes_are_items_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes, 1);
        let tensor = Tensor::from_slice(&[1_u32, 2, 3], &[3]).unwrap();
        let items = [Brought::Tensors(vec![tensor]), Brought::Error(BroughtError::Refused("no".into()))];
        let mut share = encode(&items);
        prop_assert!(decode(&share, 2).is_ok());
        prop_assert!(decode(&share, 1).is_err() && decode(&share, 3).is_err());
        for (at, byte) in bytes.iter().enumerate() {
            let place = at % share.len();
            share[place] = *byte;
            let _ = decode(&share, 2);
        }
    }
}

#[test]
fn comm_23_floats_are_equal_on_all_ranks_bit_for_bit_and_a_host_sends_one_tensor_to_each_other() {
    let hosts = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2];
    let (mut group, bytes) = ranks(&hosts);
    let tensor = |rank: usize| {
        let values: Vec<f32> = (0..10_000).map(|at| 1.0 / (at + rank + 1) as f32).collect();
        Some(Tensor::from_slice(&values, &[10_000]).unwrap())
    };
    let tensors: Vec<_> = (0..hosts.len()).map(tensor).collect();
    let sum = Collective::AllReduce(ReduceOp::Sum);
    let found = run(&mut group, sum, &tensors, &[]);
    let first = found[0].as_ref().unwrap();
    assert!(found.iter().all(|outcome| outcome.as_ref().unwrap() == first));
    let exact: f32 = (0..hosts.len()).map(|rank| 1.0 / (rank + 1) as f32).sum();
    assert!((first[0].as_slice::<f32>().unwrap()[0] - exact).abs() < 1e-5);
    let crossed = *bytes.lock().unwrap();
    let payload = 3 * 2 * 40_000;
    assert!((payload..payload + 1000).contains(&crossed), "{crossed} bytes");
}
