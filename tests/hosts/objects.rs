//! The object stores of several hosts: a value crosses once for each host, and the processes of a host share it.

use std::sync::Mutex;

use rustix::process::Signal;
use selvedge::prelude::*;
use selvedge::{FetchError, Lost};

use crate::census::{self, Census, is_alive, settled, wait_until};
use crate::deaths::{kill_9, signal};
use crate::{Elsewhere, alone, beside_others, local};

const BYTES: usize = 64 << 20;

/// The pages of a value, each of which has bytes of its own.
const PAGE: usize = 4096;

fn page(seed: u8, number: usize) -> [u8; PAGE] {
    [seed.wrapping_add((number % 251) as u8); PAGE]
}

fn tensor(seed: u8, bytes: usize) -> Tensor {
    let mut value = Vec::with_capacity(bytes);
    (0..bytes / PAGE).for_each(|number| value.extend(page(seed, number)));
    Tensor::from_raw(selvedge::DType::U8, &[bytes], &value).unwrap()
}

fn is_right(value: &Tensor, seed: u8) -> bool {
    let mut pages = value.bytes().chunks(PAGE).enumerate();
    pages.all(|(number, bytes)| *bytes == page(seed, number))
}

/// The inode of the mapping in which this address lies, and its rights.
fn mapping_of(address: usize) -> Option<(u64, String)> {
    let line = census::mapping_of(address);
    let mut fields = line.split_whitespace().skip(1);
    let rights = fields.next()?.to_owned();
    Some((fields.nth(2)?.parse().ok()?, rights))
}

/// What this process has fetched and keeps.
static KEPT: Mutex<Vec<std::sync::Arc<Tensor>>> = Mutex::new(Vec::new());

/// Fetches, keeps the value, and says in which memory it lies; 0 for the process's own.
#[remote]
fn fetched(value: Ref<Tensor>, seed: u8) -> Result<(u64, bool)> {
    let value = value.fetch()?;
    let place = mapping_of(value.bytes().as_ptr() as usize);
    let is_right = is_right(&value, seed);
    KEPT.lock().unwrap().push(value);
    let shared = place.filter(|(_, rights)| rights == "r--s");
    Ok((shared.map_or(0, |(inode, _)| inode), is_right))
}

/// What is kept is as it was.
#[remote]
fn kept_is(seed: u8) -> bool {
    KEPT.lock().unwrap().iter().all(|value| is_right(value, seed))
}

#[remote]
fn puts(seed: u8, bytes: usize) -> Result<Ref<Tensor>> {
    Ok(Runtime::current()?.put(tensor(seed, bytes))?)
}

#[remote]
fn made(seed: u8, bytes: usize) -> Tensor {
    tensor(seed, bytes)
}

#[remote(pure)]
fn made_purely(seed: u8, bytes: usize) -> Tensor {
    tensor(seed, bytes)
}

/// Its value is an alias.
#[remote]
fn same(value: Ref<Tensor>) -> Ref<Tensor> {
    value
}

/// A value that is made when the gate has its own.
#[remote]
fn made_behind(gate: u8, bytes: usize) -> Tensor {
    tensor(gate, bytes)
}

/// The messages about copies that this process has sent to another one.
#[remote]
fn asked_of(process: u32) -> Result<u64> {
    let traffic = Runtime::current()?.traffic().into_iter();
    let of_copies = traffic.filter(|it| it.service == "transfers" && it.process == process);
    Ok(of_copies.map(|it| it.counts.frames_sent).sum())
}

/// The bytes of copies that this process has sent to others, and has got from them.
fn copied(runtime: &Runtime) -> (u64, u64) {
    let of_copies = runtime
        .traffic()
        .into_iter()
        .filter(|it| it.service == "transfers");
    of_copies.fold((0, 0), |(sent, received), it| {
        (sent + it.counts.bytes_sent, received + it.counts.bytes_received)
    })
}

/// The agents of the hosts that have a copy of the only object that others know.
fn holders(runtime: &Runtime) -> Vec<u32> {
    let listed = runtime.objects().listed;
    let agents = listed.iter().flat_map(|object| &object.agents);
    agents.map(|agent| agent.process.number()).collect()
}

#[test]
fn rstore_04_rstore_12_an_object_that_three_processes_of_a_host_fetch_crosses_once_and_lies_in_one_memory() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "b", "b"])).unwrap();
    let put = runtime.put(tensor(7, BYTES)).unwrap();
    let calls: Vec<_> = far
        .iter()
        .map(|it| runtime.call(fetched::remote(&put, 7).on(it)))
        .collect();
    let places: Vec<_> = calls.into_iter().map(|call| call.wait().unwrap()).collect();
    assert!(places[0].0 != 0 && places[0].1, "{places:?}");
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    let (sent, _) = copied(&runtime);
    assert!(
        (BYTES as u64..BYTES as u64 + 65_536).contains(&sent),
        "{sent} bytes of {BYTES} crossed"
    );
    // RSTORE-11: both hosts are listed.
    let both = wait_until(&2, || holders(&runtime).len());
    assert_eq!(both, 2, "{:?}", runtime.objects().listed);
    drop(put);
    assert!(wait_until(&true, || runtime.objects().objects.is_empty()
        && runtime.objects().listed.is_empty()));
    for worker in &far {
        assert!(
            runtime.call(kept_is::remote(7).on(worker)).wait().unwrap(),
            "views outlive the references"
        );
    }
}

#[test]
fn rstore_11_what_is_put_on_another_host_stays_there_and_every_host_that_fetches_it_is_listed() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "b", "c"])).unwrap();
    let near = runtime.worker("near").unwrap();
    let there = runtime.call(puts::remote(9, 1 << 20).on(&far[1])).wait().unwrap();
    assert_eq!(
        there.owner().process,
        runtime
            .call(puts::remote(1, PAGE).on(&near))
            .wait()
            .unwrap()
            .owner()
            .process
    );
    let (_, received) = copied(&runtime);
    assert!(received < 65_536, "{received} bytes have come");
    // Within its host it is read where it lies, on another one after it has crossed, and by the owner too.
    let places: Vec<_> = far
        .iter()
        .map(|it| runtime.call(fetched::remote(&there, 9).on(it)).wait().unwrap())
        .collect();
    assert!(
        places.iter().all(|(inode, is_right)| *inode != 0 && *is_right),
        "{places:?}"
    );
    assert_eq!(places[0].0, places[1].0);
    assert_ne!(places[0].0, places[2].0);
    assert!(is_right(&there.fetch().unwrap(), 9));
    assert!(
        runtime
            .call(fetched::remote(&there, 9).on(&near))
            .wait()
            .unwrap()
            .1
    );
    assert_eq!(wait_until(&3, || holders(&runtime).len()), 3);
}

#[test]
fn the_large_value_of_a_pure_call_stays_on_the_host_of_its_worker() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "b"])).unwrap();
    let value = runtime.submit(made_purely::remote(5, 4 << 20));
    value.ready().unwrap();
    let (_, received) = copied(&runtime);
    assert!(received < 65_536, "{received} bytes have come");
    assert_eq!(wait_until(&1, || holders(&runtime).len()), 1);
    let (inode, is_right_there) = runtime
        .call(fetched::remote(&value, 5).on(&far[1]))
        .wait()
        .unwrap();
    assert!(inode != 0 && is_right_there);
    assert!(is_right(&value.fetch().unwrap(), 5));
}

#[test]
fn rft_02_the_value_of_a_pure_call_that_lay_on_a_killed_host_only_is_made_again() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let b = runtime.add(Elsewhere(&["b"])).unwrap().remove(0);
    let value = runtime.submit(made_purely::remote(5, 4 << 20));
    value.ready().unwrap();
    let only_there = vec![b.process().number()];
    assert_eq!(wait_until(&only_there, || holders(&runtime)), only_there);
    let c = runtime.add(Elsewhere(&["c"])).unwrap().remove(0);
    kill_9(b.pid().unwrap());
    let attempts = || runtime.calls()[0].attempts;
    assert_eq!(
        wait_until(&2, attempts),
        2,
        "it is made again before somebody asks"
    );
    assert!(is_right(&value.fetch().unwrap(), 5));
    let (inode, is_right) = runtime.call(fetched::remote(&value, 5).on(&c)).wait().unwrap();
    assert!(inode != 0 && is_right);
    assert_eq!(attempts(), 2);
}

#[test]
fn rft_02_a_fetch_that_waits_in_the_middle_of_a_pull_gets_the_value_that_is_made_again() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let b = runtime.add(Elsewhere(&["b"])).unwrap().remove(0);
    let value = runtime.submit(made_purely::remote(6, 8 << 20));
    value.ready().unwrap();
    let c = runtime.add(Elsewhere(&["c"])).unwrap().remove(0);
    // The other host has a link to the source.
    let before = runtime.call(puts::remote(6, 1 << 20).on(&b)).wait().unwrap();
    assert!(runtime.call(fetched::remote(&before, 6).on(&c)).wait().unwrap().1);
    let number = b.process().number();
    let asked = || runtime.call(asked_of::remote(number).on(&c)).wait().unwrap();
    let asked_before = asked();
    // The pulls have begun and get no further.
    signal(b.pid().unwrap(), Signal::STOP);
    let far = runtime.call(fetched::remote(&value, 6).on(&c));
    assert!(wait_until(&true, || asked() > asked_before));
    std::thread::scope(|scope| {
        let near = scope.spawn(|| is_right(&value.fetch().unwrap(), 6));
        kill_9(b.pid().unwrap());
        assert!(far.wait().unwrap().1);
        assert!(near.join().unwrap());
    });
    assert_eq!(runtime.calls()[0].attempts, 2);
}

#[test]
fn the_large_value_of_a_call_that_cannot_run_again_comes_to_the_owner_and_outlives_its_host() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b"])).unwrap().remove(0);
    let values = [
        runtime.submit(made::remote(1, 4 << 20)),
        runtime.submit(made_purely::remote(2, 4 << 20).on(&far)),
        runtime.submit(made_purely::remote(3, 4 << 20).retries(0)),
    ];
    values.iter().for_each(|value| value.ready().unwrap());
    assert!(holders(&runtime).is_empty(), "{:?}", runtime.objects());
    assert_eq!(
        runtime.objects().objects.len(),
        3,
        "they lie in the owner's store"
    );
    kill_9(far.pid().unwrap());
    assert!(wait_until(&true, || runtime.workers().is_empty()));
    for (value, seed) in values.iter().zip(1..) {
        assert!(is_right(&value.fetch().unwrap(), seed));
    }
}

#[test]
fn when_an_agent_is_killed_views_stay_and_another_process_is_the_agent() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "b", "b"])).unwrap();
    let put = runtime.put(tensor(3, 4 << 20)).unwrap();
    // The first one that asks is the agent.
    for worker in &far {
        assert!(
            runtime
                .call(fetched::remote(&put, 3).on(worker))
                .wait()
                .unwrap()
                .1
        );
    }
    let agent = far[0].process();
    assert!(wait_until(&true, || holders(&runtime).contains(&agent.number())));
    kill_9(far[0].pid().unwrap());
    assert!(wait_until(&true, || !holders(&runtime).contains(&agent.number())));
    for worker in &far[1..] {
        assert!(runtime.call(kept_is::remote(3).on(worker)).wait().unwrap());
    }
    // A new agent has a store of its own.
    let other = runtime.put(tensor(4, 4 << 20)).unwrap();
    let places: Vec<_> = far[1..]
        .iter()
        .map(|it| runtime.call(fetched::remote(&other, 4).on(it)).wait().unwrap())
        .collect();
    assert!(places[0].0 != 0 && places[0] == places[1], "{places:?}");
}

/// Says that it begins, and puts a value then.
#[remote]
fn begins_and_puts(begun: RemoteChannel<u32>, seed: u8) -> Result<Ref<Tensor>> {
    begun.put(1)?;
    Ok(Runtime::current()?.put(tensor(seed, 4 << 20))?)
}

#[test]
fn a_value_that_is_put_while_the_agent_dies_is_put_all_the_same() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "b", "b"])).unwrap();
    let put = runtime.put(tensor(3, 4 << 20)).unwrap();
    runtime.call(fetched::remote(&put, 3).on(&far[0])).wait().unwrap();
    let agent = far[0].process().number();
    assert!(wait_until(&true, || holders(&runtime).contains(&agent)));
    runtime.call(fetched::remote(&put, 3).on(&far[1])).wait().unwrap();
    // A stopped agent gives no answer.
    signal(far[0].pid().unwrap(), Signal::STOP);
    let begun = runtime.channel::<u32>(1).unwrap();
    let other = runtime.call(begins_and_puts::remote(&begun, 4).on(&far[1]));
    begun.take().unwrap();
    kill_9(far[0].pid().unwrap());
    let other = other.wait().unwrap();
    assert!(is_right(&other.fetch().unwrap(), 4));
    let there = runtime.call(fetched::remote(&other, 4).on(&far[2])).wait();
    assert!(there.unwrap().1);
}

#[test]
fn a_value_whose_last_copy_dies_with_its_host_is_lost_with_a_typed_error() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "c"])).unwrap();
    let there = runtime.call(puts::remote(9, 1 << 20).on(&far[0])).wait().unwrap();
    kill_9(far[0].pid().unwrap());
    assert!(wait_until(&true, || holders(&runtime).is_empty()));
    let error: FetchError = there.fetch().unwrap_err();
    let lost: Option<&Lost> = error.downcast_ref();
    assert!(matches!(lost, Some(Lost::Put { .. })), "{error}");
    let error = runtime
        .call(fetched::remote(&there, 9).on(&far[1]))
        .wait()
        .unwrap_err();
    assert!(error.to_string().contains("no host has a copy"), "{error}");
}

#[test]
fn rstore_13_a_source_that_is_killed_is_replaced_by_another_host() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "c", "d"])).unwrap();
    let [b, c, d] = [0, 1, 2].map(|at| &far[at]);
    let there = runtime.call(puts::remote(6, 8 << 20).on(b)).wait().unwrap();
    assert!(runtime.call(fetched::remote(&there, 6).on(c)).wait().unwrap().1);
    assert_eq!(wait_until(&2, || holders(&runtime).len()), 2);
    // Hosts begin with different sources, by their agents' numbers.
    let source = [b, c][d.process().number() as usize % 2];
    // The third host has a link to it.
    let before = runtime.call(puts::remote(6, 1 << 20).on(source)).wait().unwrap();
    assert!(runtime.call(fetched::remote(&before, 6).on(d)).wait().unwrap().1);
    let number = source.process().number();
    let asked = || runtime.call(asked_of::remote(number).on(d)).wait().unwrap();
    let asked_before = asked();
    // The source sends nothing, and is killed when it was asked.
    signal(source.pid().unwrap(), Signal::STOP);
    let fetch = runtime.call(fetched::remote(&there, 6).on(d));
    assert!(wait_until(&true, || asked() > asked_before));
    kill_9(source.pid().unwrap());
    let (inode, is_right) = fetch.wait().unwrap();
    assert!(inode != 0 && is_right);
    assert!(is_right_here(&there));
}

fn is_right_here(there: &Ref<Tensor>) -> bool {
    is_right(&there.fetch().unwrap(), 6)
}

#[test]
fn rstore_05_rstore_07_a_fetch_on_another_host_waits_for_the_value_by_one_question() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "c"])).unwrap();
    let gate = runtime.unset::<u8>();
    let value = runtime.submit(made_behind::remote(&gate, 1 << 20).on(&far[0]));
    let fetch = runtime.call(fetched::remote(&value, 8).on(&far[1]));
    let questions = || {
        let traffic = runtime.traffic().into_iter();
        let fetches = traffic.filter(|it| it.service == "fetches" && it.process == far[1].process().number());
        fetches.map(|it| it.counts.frames_received).sum::<u64>()
    };
    assert_eq!(wait_until(&1, questions), 1);
    gate.set(8).unwrap();
    let (inode, is_right) = fetch.wait().unwrap();
    assert!(inode != 0 && is_right);
    assert_eq!(questions(), 1, "nobody asks again and again");
}

#[test]
fn nothing_is_left_of_the_stores_of_other_hosts() {
    let _alone = alone();
    let before = settled(Census::take);
    let pids: Vec<u32> = {
        let runtime = Runtime::new();
        let far = runtime.add(Elsewhere(&["b", "b", "c"])).unwrap();
        let put = runtime.put(tensor(7, 2 << 20)).unwrap();
        let there = runtime.call(puts::remote(9, 2 << 20).on(&far[1])).wait().unwrap();
        for worker in &far {
            assert!(
                runtime
                    .call(fetched::remote(&put, 7).on(worker))
                    .wait()
                    .unwrap()
                    .1
            );
            assert!(
                runtime
                    .call(fetched::remote(&there, 9).on(worker))
                    .wait()
                    .unwrap()
                    .1
            );
        }
        kill_9(far[0].pid().unwrap());
        assert!(is_right(&put.fetch().unwrap(), 7));
        far.iter().map(|it| it.pid().unwrap()).collect()
    };
    assert!(wait_until(&true, || !pids.iter().any(|pid| is_alive(*pid))));
    assert_eq!(wait_until(&before, Census::take), before);
}

#[test]
fn alias_13_alias_14_alias_15_an_alias_is_the_object_itself_in_every_store_and_crosses_no_second_time() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let near = runtime.worker("near").unwrap();
    let far = runtime.add(Elsewhere(&["b"])).unwrap();
    let value = runtime.put(tensor(2, 2 << 20)).unwrap();
    let alias = runtime.submit(same::remote(&value).on(&near));
    let places = [&alias, &value].map(|it| runtime.call(fetched::remote(it, 2).on(&far[0])).wait().unwrap());
    assert!(places[0].0 != 0 && places[0] == places[1], "{places:?}");
    let (sent, _) = copied(&runtime);
    assert!(
        (2 << 20..(2 << 20) + 65_536).contains(&sent),
        "{sent} bytes have crossed"
    );
}

#[test]
fn a_dialled_worker_of_the_drivers_host_reads_its_store_and_the_end_of_its_process_ends_its_pins() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let worker = runtime.add(local(1)).unwrap().remove(0);
    let put = runtime.put(tensor(1, 1 << 20)).unwrap();
    let place = runtime.call(fetched::remote(&put, 1).on(&worker)).wait().unwrap();
    let own = put.fetch().unwrap();
    let (inode, _) = mapping_of(own.bytes().as_ptr() as usize).unwrap();
    assert_eq!(place, (inode, true));
    let there = runtime.call(puts::remote(2, 1 << 20).on(&worker)).wait().unwrap();
    assert!(is_right(&there.fetch().unwrap(), 2));
    assert_eq!(runtime.objects().objects.len(), 2);
    drop((put, own, there));
    // The worker has a view of the first.
    assert_eq!(wait_until(&1, || runtime.objects().objects.len()), 1);
    kill_9(worker.pid().unwrap());
    assert_eq!(wait_until(&0, || runtime.objects().objects.len()), 0);
}

#[test]
fn a_process_whose_agent_is_killed_during_a_pull_gets_the_value_by_another_way() {
    let _beside = beside_others();
    let runtime = Runtime::new();
    let far = runtime.add(Elsewhere(&["b", "b", "c"])).unwrap();
    let [agent, other, source] = [0, 1, 2].map(|at| &far[at]);
    // The first that asks is the agent, and has a link to the source then.
    let before = runtime.call(puts::remote(2, 1 << 20).on(source)).wait().unwrap();
    for worker in [agent, other] {
        assert!(
            runtime
                .call(fetched::remote(&before, 2).on(worker))
                .wait()
                .unwrap()
                .1
        );
    }
    let there = runtime.call(puts::remote(2, 8 << 20).on(source)).wait().unwrap();
    let number = source.process().number();
    let asked = || runtime.call(asked_of::remote(number).on(agent)).wait().unwrap();
    let asked_before = asked();
    // The pull has begun and gets no further.
    signal(source.pid().unwrap(), Signal::STOP);
    let fetch = runtime.call(fetched::remote(&there, 2).on(other));
    assert!(wait_until(&true, || asked() > asked_before));
    kill_9(agent.pid().unwrap());
    signal(source.pid().unwrap(), Signal::CONT);
    assert!(fetch.wait().unwrap().1);
    assert!(runtime.call(kept_is::remote(2).on(other)).wait().unwrap());
}
