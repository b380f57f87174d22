//! Copies of stored objects on hosts whose letters the test holds up, and whose deaths it chooses.
#![cfg(all(target_os = "linux", not(selvedge_portable)))]

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use selvedge_channels::{DType, Tensor};
use selvedge_cluster::frame::{Class, Service};
use selvedge_objects::transfer::{CopyAt, CopyFacts, CopyName, TransferMessage};

use super::network::{Network, TestProcess};
use crate::body::Body;
use crate::hub::post::Letter;
use crate::reference::{FetchError, Ref};
use crate::store::message::{STORES, StoreMessage, TRANSFERS};
use crate::testing;

/// Ten chunks, of which the last is short.
const BYTES: usize = (9 << 20) + 1000;

/// Bytes for which a letter is long, in the sums of what was sent.
const CHUNK: usize = 1 << 20;

fn tensor() -> Tensor {
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at / 1000) as u8).collect();
    Tensor::from_raw(DType::U8, &[BYTES], &bytes).unwrap()
}

fn is_right(value: &Tensor) -> bool {
    value.bytes() == tensor().bytes()
}

/// An owner and the agents of three other hosts.
fn hosts() -> (Network, Vec<TestProcess>) {
    let (network, processes) = Network::of(4);
    network.spread();
    (network, processes)
}

/// A reference of one process, passed to another one.
fn passed(processes: &[TestProcess], from: usize, to: usize, value: &Ref<Tensor>) -> Ref<Tensor> {
    let [from, to] = [&processes[from - 1], &processes[to - 1]];
    let handles = [Arc::clone(value.handle())];
    let parcels = from.runtime.remote().references.pass(&handles, to.peer).unwrap();
    let handles = to.runtime.remote().references.take_over(from.peer, parcels);
    let value = Ref::of(handles.unwrap().remove(0));
    wait_until(processes, || {
        value.confirmed(Duration::ZERO).is_ok_and(|is_listed| is_listed)
    });
    value
}

/// Waits until something is so. The network has no timers, so what is due is done here.
#[track_caller]
fn wait_until(processes: &[TestProcess], what: impl Fn() -> bool) {
    testing::wait_until("what is due", || {
        processes
            .iter()
            .for_each(|it| it.runtime.remote().references.tick());
        what()
    });
}

/// The hosts that have a copy, as the owner says of its only object.
fn holders(owner: &TestProcess) -> Vec<u32> {
    let listed = owner.runtime.objects().listed;
    let agents = listed.iter().flat_map(|object| &object.agents);
    agents.map(|agent| agent.process.number()).collect()
}

/// The bytes of chunks that one process has sent to another one.
fn chunks(network: &Network, from: u32, to: u32) -> usize {
    let sent = network.sent().into_iter();
    sent.filter(|it| (it.0, it.1) == (from, to)).map(|it| it.2).sum()
}

/// Waits until nothing is left in the stores of these, nor of what the owner lists.
#[track_caller]
fn wait_until_empty(processes: &[TestProcess], of: &[u32]) {
    wait_until(processes, || {
        of.iter().all(|number| {
            let report = processes[*number as usize - 1].runtime.objects();
            report.objects.is_empty() && report.listed.is_empty() && report.used_bytes == 0
        })
    });
}

#[test]
fn rstore_13_a_source_that_dies_is_replaced_from_the_chunk_that_was_reached() {
    let (network, processes) = hosts();
    let there = processes[1].runtime.put(tensor()).unwrap();
    assert_eq!(there.owner(), processes[0].peer);
    let third = passed(&processes, 2, 3, &there);
    assert!(is_right(&third.fetch().unwrap()));
    wait_until(&processes, || holders(&processes[0]) == [2, 3]);
    let fourth = passed(&processes, 2, 4, &there);
    // The sources and three chunks of process 2 come, and the four that it sends then do not.
    network.hold_after(4, TRANSFERS, 4);
    thread::scope(|scope| {
        let fetched = scope.spawn(|| fourth.fetch());
        network.wait_until_held(2, 4, 4);
        network.kill(2);
        network.release(4);
        assert!(is_right(&fetched.join().unwrap().unwrap()));
    });
    assert!(chunks(&network, 2, 4) >= 7 * CHUNK);
    let rest = chunks(&network, 3, 4);
    assert!(
        (BYTES - 3 * CHUNK..BYTES - 3 * CHUNK + 1000).contains(&rest),
        "{rest} bytes of {BYTES}"
    );
    wait_until(&processes, || holders(&processes[0]) == [3, 4]);
    drop((third, fourth));
    wait_until_empty(&processes, &[1, 3, 4]);
}

#[test]
fn an_object_whose_sources_are_all_gone_is_lost_and_its_owner_is_told() {
    let (network, processes) = hosts();
    let there = processes[1].runtime.put(tensor()).unwrap();
    let fourth = passed(&processes, 2, 4, &there);
    network.hold_after(4, TRANSFERS, 2);
    thread::scope(|scope| {
        let fetched = scope.spawn(|| fourth.fetch());
        network.wait_until_held(2, 4, 4);
        network.kill(2);
        network.release(4);
        let error = fetched.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("it was put"), "{error}");
    });
    wait_until(&processes, || processes[3].runtime.objects().used_bytes == 0);
    assert_eq!(processes[3].runtime.objects().objects, []);
}

/// ray#63694: whoever waits for a pull must not wait for ever when the owner dies.
#[test]
fn the_death_of_the_owner_during_a_pull_ends_every_wait_and_leaves_nothing_half_filled() {
    let (network, processes) = hosts();
    let put = processes[0].runtime.put(tensor()).unwrap();
    let fourth = passed(&processes, 1, 4, &put);
    network.hold_after(4, TRANSFERS, 3);
    thread::scope(|scope| {
        let fetches = [0; 3].map(|_| scope.spawn(|| fourth.fetch()));
        network.wait_until_held(1, 4, 4);
        network.kill(1);
        network.release(4);
        for fetch in fetches {
            let error = fetch.join().unwrap().unwrap_err();
            assert!(matches!(error, FetchError::OwnerLost { .. }), "{error}");
        }
    });
    wait_until(&processes, || processes[3].runtime.objects().used_bytes == 0);
    assert_eq!(processes[3].runtime.objects().objects, []);
}

/// O12: `free` while another host pulls.
#[test]
fn an_object_that_is_freed_while_another_host_pulls_it_leaves_nothing() {
    let (network, processes) = hosts();
    let there = processes[1].runtime.put(tensor()).unwrap();
    let fourth = passed(&processes, 2, 4, &there);
    network.hold_after(4, TRANSFERS, 3);
    let mut fetch = pin!(Some((&fourth).into_future()));
    let polled = fetch
        .as_mut()
        .as_pin_mut()
        .unwrap()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    network.wait_until_held(2, 4, 4);
    fetch.set(None);
    there.release();
    fourth.release();
    // The word that it is freed is behind four chunks.
    wait_until(&processes, || network.held(1, 4) > 0);
    network.release(4);
    wait_until_empty(&processes, &[1, 2, 3, 4]);
    assert!(chunks(&network, 2, 4) < BYTES);
    assert_eq!(network.cut(), []);
}

#[test]
fn rstore_12_whoever_wants_an_object_that_is_on_its_way_joins_its_pull() {
    let (network, processes) = hosts();
    let put = processes[0].runtime.put(tensor()).unwrap();
    // References with names of their own ask for the same object.
    let first = passed(&processes, 1, 4, &put);
    let second = passed(&processes, 1, 4, &put);
    network.hold_after(4, TRANSFERS, 2);
    thread::scope(|scope| {
        let fetches = [&first, &second].map(|it| scope.spawn(|| it.fetch()));
        network.wait_until_held(1, 4, 4);
        network.release(4);
        fetches
            .into_iter()
            .for_each(|fetch| assert!(is_right(&fetch.join().unwrap().unwrap())));
    });
    let crossed = chunks(&network, 1, 4);
    assert!((BYTES..BYTES + 1000).contains(&crossed), "{crossed} bytes");
}

fn letter(message: &TransferMessage, body: Vec<u8>) -> Letter {
    Letter::new(
        TRANSFERS,
        Class::Ordered,
        message,
        Body::from(bytes::Bytes::from(body)),
    )
}

/// ray#65660: a notice about a copy that comes late, from a process that has died since.
#[test]
fn a_late_notice_of_an_earlier_life_lists_no_copy() {
    let (network, processes) = hosts();
    let put = processes[0].runtime.put(tensor()).unwrap();
    let second = passed(&processes, 1, 2, &put);
    assert!(is_right(&second.fetch().unwrap()));
    wait_until(&processes, || holders(&processes[0]) == [1, 2]);
    let (maker, number, dead) = (processes[0].peer, 0, processes[1].peer);
    let name = CopyName { maker, number };
    network.kill(2);
    wait_until(&processes, || holders(&processes[0]) == [1]);
    network.forge(
        dead,
        1,
        letter(&TransferMessage::Copied { name, attempt: 9 }, Vec::new()),
    );
    let third = passed(&processes, 1, 3, &put);
    assert!(is_right(&third.fetch().unwrap()));
    wait_until(&processes, || holders(&processes[0]) == [1, 3]);
    assert!(is_right(&put.fetch().unwrap()));
}

#[test]
fn letters_about_copies_that_no_lawful_process_sends_do_no_harm() {
    let (network, processes) = hosts();
    let put = processes[0].runtime.put(tensor()).unwrap();
    let second = passed(&processes, 1, 2, &put);
    assert!(is_right(&second.fetch().unwrap()));
    let (owner, liar) = (processes[0].peer, processes[2].peer);
    let (maker, number, attempt) = (owner, 0, 1);
    let name = CopyName { maker, number };
    let facts = CopyFacts {
        bytes: u64::MAX,
        checksum: 0,
    };
    let sources = vec![CopyAt { agent: liar, attempt }];
    let harmless = [
        TransferMessage::Sources {
            name,
            attempt,
            facts,
            sources,
        },
        TransferMessage::Chunk {
            name,
            attempt,
            offset: u64::MAX,
        },
        TransferMessage::Unread { name, attempt },
        TransferMessage::Forget { name },
        TransferMessage::Claim { name },
    ];
    for message in harmless {
        network.forge(liar, 2, letter(&message, vec![1; 100]));
    }
    let refused = [
        letter(
            &TransferMessage::Get {
                name,
                attempt,
                offset: 0,
                bytes: u64::MAX,
            },
            Vec::new(),
        ),
        letter(
            &TransferMessage::Get {
                name,
                attempt,
                offset: u64::MAX,
                bytes: 1,
            },
            Vec::new(),
        ),
        letter(
            &TransferMessage::Get {
                name,
                attempt,
                offset: BYTES as u64,
                bytes: 1 << 20,
            },
            Vec::new(),
        ),
        garbage(TRANSFERS),
        garbage(STORES),
    ];
    let count = refused.len();
    for letter in refused {
        network.forge(liar, 2, letter);
    }
    wait_until(&processes, || network.cut().len() == count);
    assert!(network.cut().iter().all(|cut| *cut == (2, 3)));
    // A liar that says to have a copy is asked, and its bytes are refused.
    network.forge(
        liar,
        1,
        letter(&TransferMessage::Copied { name, attempt: 5 }, Vec::new()),
    );
    let fourth = passed(&processes, 1, 4, &put);
    assert!(is_right(&fourth.fetch().unwrap()));
    assert!(is_right(&second.fetch().unwrap()));
}

fn garbage(service: Service) -> Letter {
    Letter {
        head: vec![0xff; 20].into(),
        ..Letter::new(service, Class::Ordered, &(), Body::EMPTY)
    }
}

#[test]
fn a_process_is_on_one_host_and_seals_only_what_it_has_borrowed() {
    let (network, processes) = hosts();
    let liar = processes[2].peer.process.first_life();
    let find = |host: &str| {
        let message = StoreMessage::FindAgent {
            host: host.to_owned(),
        };
        Letter::new(STORES, Class::Ordered, &message, Body::EMPTY)
    };
    network.forge(liar, 1, find("x"));
    network.forge(liar, 1, find("y"));
    wait_until(&processes, || network.cut() == [(1, 3)]);
    // Only the process that made the runtime knows agents.
    network.forge(liar, 2, find("x"));
    wait_until(&processes, || network.cut() == [(1, 3), (2, 3)]);
}

#[test]
fn a_poll_of_a_fetch_that_waits_for_a_pull_is_pending_until_the_object_is_there() {
    let (network, processes) = hosts();
    let put = processes[0].runtime.put(tensor()).unwrap();
    let fourth = passed(&processes, 1, 4, &put);
    network.hold_after(4, TRANSFERS, 1);
    let mut fetch = pin!((&fourth).into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert!(fetch.as_mut().poll(&mut context).is_pending());
    network.wait_until_held(1, 4, 4);
    assert!(fetch.as_mut().poll(&mut context).is_pending());
    network.release(4);
    let value = testing::wait_for("the object", || match fetch.as_mut().poll(&mut context) {
        Poll::Ready(value) => Some(value.unwrap()),
        Poll::Pending => None,
    });
    assert!(is_right(&value));
}
