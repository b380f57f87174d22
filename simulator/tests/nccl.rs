//! Tests of NCCL: calls that complete, calls that hang, reports, and aborts.
#![allow(unsafe_code, clippy::unwrap_used, clippy::indexing_slicing)] // calls the driver
#![allow(clippy::undocumented_unsafe_blocks, clippy::multiple_unsafe_ops_per_block)] // as a C program would

mod simulated;

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};

use simulated::calls::{alloc, context, copy, fill, read};
use simulated::nccl::{Communicator, IN_PROGRESS, INVALID_ARGUMENT, NCCL, REMOTE, SUCCESS, UniqueId, ranks};
use simulated::peer::{Peer, is_second};
use simulated::{Run, SIMULATOR, descriptors, returns_to, threads};

const FLOATS: usize = 16;

/// A rank with a stream and memory: all elements of `from` are `value`, those of `to` are 0.
struct Rank {
    communicator: Communicator,
    stream: Arc<CudaStream>,
    from: u64,
    to: u64,
}

fn rank(context: &Arc<CudaContext>, communicator: Communicator, value: f32) -> Rank {
    let stream = context.new_stream().unwrap();
    let (from, to) = (alloc(FLOATS * 4 * 4), alloc(FLOATS * 4 * 4));
    fill(&stream, from, FLOATS as u64 * 4, value);
    fill(&stream, to, FLOATS as u64 * 4, 0.0);
    Rank {
        communicator,
        stream,
        from,
        to,
    }
}

fn world(context: &Arc<CudaContext>, count: usize) -> Vec<Rank> {
    let numbered = ranks(count).into_iter().zip(1_u8..);
    numbered
        .map(|(one, number)| rank(context, one, f32::from(number)))
        .collect()
}

impl Rank {
    fn send(&self, to: usize) {
        assert_eq!(
            self.communicator.send(self.from, FLOATS, to, &self.stream),
            IN_PROGRESS
        );
        assert_eq!(self.communicator.condition(), SUCCESS);
    }

    fn receive(&self, from: usize) {
        assert_eq!(
            self.communicator.receive(self.to, FLOATS, from, &self.stream),
            IN_PROGRESS
        );
        assert_eq!(self.communicator.condition(), SUCCESS);
    }
}

#[test]
fn collectives_give_every_rank_its_part() {
    let run = Run::new("collectives_give_every_rank_its_part").with("SELVEDGE_SIM_SEED", 7);
    let Some(ran) = run.outside() else {
        assert_eq!(NCCL.version(), 22809);
        let context = context();
        let world = world(&context, 3);
        let each = |what: &dyn Fn(&Rank) -> u32, expected: &dyn Fn(usize) -> Vec<f32>| {
            for one in &world {
                assert_eq!(what(one), IN_PROGRESS);
                assert_eq!(one.communicator.condition(), SUCCESS);
            }
            assert_eq!(SIMULATOR.settle(), 1);
            for (index, one) in world.iter().enumerate() {
                let expected = expected(index);
                one.stream.synchronize().unwrap();
                assert_eq!(read::<64>(one.to)[..expected.len()], expected);
                fill(&one.stream, one.to, FLOATS as u64 * 4, 0.0);
            }
        };
        let (all, part) = (vec![6.0; FLOATS], [1.0, 2.0, 3.0]);
        each(
            &|one| {
                one.communicator
                    .reduces("ncclAllReduce", one.from, one.to, FLOATS, &one.stream)
            },
            &|_| all.clone(),
        );
        each(
            &|one| {
                one.communicator
                    .reduces("ncclReduceScatter", one.from, one.to, FLOATS, &one.stream)
            },
            &|_| all.clone(),
        );
        each(
            &|one| one.communicator.gather(one.from, one.to, FLOATS, &one.stream),
            &|_| part.iter().flat_map(|value| [*value; FLOATS]).collect(),
        );
        each(
            &|one| {
                one.communicator
                    .broadcast(one.from, one.to, FLOATS, 2, &one.stream)
            },
            &|_| vec![3.0; FLOATS],
        );
        each(
            &|one| one.communicator.reduce(one.from, one.to, FLOATS, 1, &one.stream),
            &|index| vec![if index == 1 { 6.0 } else { 0.0 }; FLOATS],
        );
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn projections_of_one_order_pass() {
    let Some(_) = Run::new("projections_of_one_order_pass")
        .with("SELVEDGE_SIM_SEED", 8)
        .outside()
    else {
        let context = context();
        let world = world(&context, 2);
        world[0].send(1);
        world[0].receive(1);
        assert_eq!(
            SIMULATOR.settle(),
            0,
            "nobody receives yet, and nothing is buffered"
        );
        world[1].receive(0);
        world[1].send(0);
        assert_eq!(SIMULATOR.settle(), 1);
        context.synchronize().unwrap();
        assert_eq!((read::<1>(world[0].to), read::<1>(world[1].to)), ([2.0], [1.0]));
        return;
    };
}

#[test]
fn crossed_sends_hang_and_an_abort_frees_them() {
    let Some(_) = Run::new("crossed_sends_hang_and_an_abort_frees_them").outside() else {
        let context = context();
        let world = world(&context, 2);
        for (index, one) in world.iter().enumerate() {
            one.send(1 - index);
            one.receive(1 - index);
        }
        assert_eq!(SIMULATOR.settle(), 0);
        assert!(SIMULATOR.stuck());
        assert_eq!(world[0].communicator.abort(), SUCCESS);
        world[0].stream.synchronize().unwrap();
        assert_eq!(SIMULATOR.settle(), 0, "the other rank must abort too");
        assert_eq!(world[1].communicator.abort(), SUCCESS);
        assert_eq!(SIMULATOR.settle(), 1);
        context.synchronize().unwrap();
        assert_eq!(read::<1>(world[0].to), [0.0]);
        return;
    };
}

#[test]
fn a_hang_is_told_every_time() {
    let Some(_) = Run::new("a_hang_is_told_every_time").outside() else {
        let context = context();
        let (at, streams) = (
            alloc(64),
            [context.new_stream().unwrap(), context.new_stream().unwrap()],
        );
        for _ in 0..300 {
            let world = ranks(2);
            for (index, one) in world.iter().enumerate() {
                assert_eq!(one.send(at, 4, 1 - index, &streams[index]), IN_PROGRESS);
            }
            assert_eq!(SIMULATOR.settle(), 0);
            world.iter().for_each(|one| assert_eq!(one.abort(), SUCCESS));
            assert_eq!(SIMULATOR.settle(), 1);
        }
        return;
    };
}

/// One stream computes the data that another sends, with or without an event between them; another stream uses the
/// received data, likewise.
fn send_what_is_computed(ordered: bool) {
    let context = context();
    let world = world(&context, 2);
    let compute = context.new_stream().unwrap();
    context.synchronize().unwrap();
    fill(&compute, world[0].from, FLOATS as u64, 5.0);
    if ordered {
        world[0].stream.join(&compute).unwrap();
    }
    world[0].send(1);
    world[1].receive(0);
    let (used, results) = (context.new_stream().unwrap(), alloc(FLOATS * 4));
    if ordered {
        used.join(&world[1].stream).unwrap();
    }
    copy(&used, results, world[1].to, FLOATS * 4);
    context.synchronize().unwrap();
    assert_eq!(SIMULATOR.violations(), if ordered { 0 } else { 2 });
}

#[test]
fn what_is_sent_and_received_in_order_is_no_race() {
    let test = "what_is_sent_and_received_in_order_is_no_race";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 11).outside() else {
        return send_what_is_computed(true);
    };
    assert_eq!(ran.report, "");
}

#[test]
fn what_is_sent_before_it_is_computed_is_a_race() {
    let test = "what_is_sent_before_it_is_computed_is_a_race";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 12).outside() else {
        return send_what_is_computed(false);
    };
    assert!(
        ran.report.contains("ncclSend") && ran.report.contains("ncclRecv"),
        "{}",
        ran.report
    );
}

#[test]
fn grouped_calls_progress_independently() {
    let test = "grouped_calls_progress_independently";
    let Some(_) = Run::new(test).with("SELVEDGE_SIM_SEED", 9).outside() else {
        let context = context();
        let world = world(&context, 2);
        for (index, one) in world.iter().enumerate() {
            let code = NCCL.group(|| {
                assert_eq!(
                    one.communicator.send(one.from, FLOATS, 1 - index, &one.stream),
                    SUCCESS
                );
                assert_eq!(
                    one.communicator.receive(one.to, FLOATS, 1 - index, &one.stream),
                    SUCCESS
                );
            });
            assert_eq!(code, IN_PROGRESS);
        }
        assert_eq!(SIMULATOR.settle(), 1);
        context.synchronize().unwrap();
        assert_eq!((read::<1>(world[0].to), read::<1>(world[1].to)), ([2.0], [1.0]));
        return;
    };
}

#[test]
fn one_communicator_is_one_chain_whatever_the_streams() {
    let Some(_) = Run::new("one_communicator_is_one_chain_whatever_the_streams").outside() else {
        let context = context();
        let world = world(&context, 2);
        let other = context.new_stream().unwrap();
        // The receive is on another stream, but the send comes first on both ranks, so they are stuck all the same.
        for (index, one) in world.iter().enumerate() {
            one.send(1 - index);
            let code = one.communicator.receive(one.to, FLOATS, 1 - index, &other);
            assert_eq!(code, IN_PROGRESS);
            assert_eq!(one.communicator.condition(), SUCCESS);
        }
        assert_eq!(SIMULATOR.settle(), 0);
        world
            .iter()
            .for_each(|one| assert_eq!(one.communicator.abort(), SUCCESS));
        assert_eq!(SIMULATOR.settle(), 1);
        return;
    };
}

#[test]
fn counts_that_differ_are_told_and_hang() {
    let Some(ran) = Run::new("counts_that_differ_are_told_and_hang").outside() else {
        let context = context();
        let world = world(&context, 2);
        world[0].send(1);
        let less = world[1]
            .communicator
            .receive(world[1].to, FLOATS - 1, 0, &world[1].stream);
        assert_eq!(less, IN_PROGRESS);
        assert_eq!(SIMULATOR.settle(), 0);
        assert_eq!(SIMULATOR.violations(), 2);
        world
            .iter()
            .for_each(|one| assert_eq!(one.communicator.abort(), SUCCESS));
        assert_eq!(SIMULATOR.settle(), 1);
        return;
    };
    assert_eq!(ran.report.matches("\"mismatch\"").count(), 2, "{}", ran.report);
}

#[test]
fn a_call_before_the_last_is_asked_for_is_refused() {
    let Some(_) = Run::new("a_call_before_the_last_is_asked_for_is_refused").outside() else {
        let context = context();
        let id = NCCL.unique_id();
        let first = NCCL.join(2, id, 0);
        assert_eq!(first.condition(), IN_PROGRESS);
        let one = rank(&context, first, 1.0);
        assert_eq!(first.send(one.from, FLOATS, 1, &one.stream), INVALID_ARGUMENT);
        let second = NCCL.join(2, id, 1);
        assert_eq!((first.condition(), second.condition()), (SUCCESS, SUCCESS));
        assert_eq!(first.send(one.from, FLOATS, 1, &one.stream), IN_PROGRESS);
        assert_eq!(first.send(one.from, FLOATS, 1, &one.stream), INVALID_ARGUMENT);
        assert_eq!(first.condition(), SUCCESS);
        assert_eq!(first.send(0x10, FLOATS, 1, &one.stream), INVALID_ARGUMENT);
        assert_eq!(second.receive(one.to, FLOATS, 0, &one.stream), IN_PROGRESS);
        for communicator in [first, second] {
            assert_eq!(communicator.abort(), SUCCESS);
        }
        return;
    };
}

#[test]
fn a_communicator_leaves_nothing() {
    let Some(_) = Run::new("a_communicator_leaves_nothing").outside() else {
        let context = context();
        let stream = context.new_stream().unwrap();
        fill(&stream, alloc(64), 16, 0.0);
        stream.synchronize().unwrap();
        let before = (threads(), descriptors());
        for _ in 0..5 {
            let world = ranks(2);
            for one in &world {
                let at = alloc(64);
                assert_eq!(
                    one.reduces("ncclAllReduce", at, at, 4, &context.new_stream().unwrap()),
                    IN_PROGRESS
                );
                assert_eq!(one.condition(), SUCCESS);
                assert_eq!(one.finalize(), IN_PROGRESS);
            }
            assert_eq!(SIMULATOR.settle(), 1);
            for one in &world {
                assert_eq!(one.condition(), SUCCESS);
                assert_eq!(one.destroy(), SUCCESS);
            }
        }
        context.new_stream().unwrap(); // joins the threads of streams that have ended
        returns_to(threads, before.0);
        assert_eq!(descriptors() - before.1, 10, "the buffers, which nobody freed");
        return;
    };
}

#[test]
fn ranks_may_be_threads_that_block() {
    let test = "ranks_may_be_threads_that_block";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 14).outside() else {
        const COUNT: usize = 3;
        let context = context();
        let before = threads();
        let id = NCCL.unique_id();
        std::thread::scope(|scope| {
            for index in 0..COUNT {
                let context = &context;
                scope.spawn(move || {
                    context.bind_to_thread().unwrap();
                    let one = rank(context, NCCL.join_blocking(COUNT, id, index), 1.0);
                    for _ in 0..50 {
                        let call = |from, to| {
                            one.communicator
                                .reduces("ncclAllReduce", from, to, FLOATS, &one.stream)
                        };
                        assert_eq!((call(one.from, one.to), call(one.to, one.to)), (SUCCESS, SUCCESS));
                    }
                    assert_eq!(one.communicator.finalize(), SUCCESS);
                    one.stream.synchronize().unwrap();
                    assert_eq!(read::<2>(one.to), [9.0; 2]);
                    assert_eq!(one.communicator.destroy(), SUCCESS);
                });
            }
        });
        assert_eq!(SIMULATOR.violations(), 0);
        context.new_stream().unwrap();
        returns_to(threads, before + 1); // one more thread: that of the default stream
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn a_group_over_two_streams_joins_them() {
    let test = "a_group_over_two_streams_joins_them";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 15).outside() else {
        let context = context();
        let world = world(&context, 2);
        let others = [context.new_stream().unwrap(), context.new_stream().unwrap()];
        for (index, one) in world.iter().enumerate() {
            others[index].join(&one.stream).unwrap();
            let code = NCCL.group(|| {
                one.communicator.send(one.from, FLOATS, 1 - index, &one.stream);
                one.communicator
                    .receive(one.to, FLOATS, 1 - index, &others[index]);
            });
            assert_eq!((code, one.communicator.condition()), (IN_PROGRESS, SUCCESS));
            // Each of the two streams is ordered after the whole group.
            copy(&one.stream, one.from, one.to, FLOATS * 4);
            others[index].join(&one.stream).unwrap();
            copy(&others[index], one.to, one.from, FLOATS * 4);
        }
        assert_eq!(SIMULATOR.settle(), 1);
        assert_eq!(SIMULATOR.violations(), 0);
        return;
    };
    assert_eq!(ran.report, "");
}

/// Starts a second process and joins one rank in each of the two.
fn two_processes(test: &str) -> (Arc<CudaContext>, Peer, Rank, usize) {
    let context = context();
    let mut peer = Peer::new(test);
    let index = usize::from(is_second());
    let id = if is_second() {
        UniqueId(peer.receive())
    } else {
        NCCL.unique_id()
    };
    if !is_second() {
        peer.send(&id.0);
    }
    let communicator = NCCL.join(2, id, index);
    peer.meet();
    assert_eq!(communicator.condition(), SUCCESS);
    let rank = rank(&context, communicator, if is_second() { 2.0 } else { 1.0 });
    (context, peer, rank, index)
}

#[test]
fn ranks_may_be_processes() {
    let test = "ranks_may_be_processes";
    let Some(ran) = Run::new(test).with("SELVEDGE_SIM_SEED", 10).outside() else {
        let (context, peer, one, index) = two_processes(test);
        for _ in 0..20 {
            let code = NCCL.group(|| {
                one.communicator.send(one.from, FLOATS, 1 - index, &one.stream);
                one.communicator.receive(one.to, FLOATS, 1 - index, &one.stream);
            });
            assert_eq!((code, one.communicator.condition()), (IN_PROGRESS, SUCCESS));
            let code = one
                .communicator
                .reduces("ncclAllReduce", one.from, one.to, FLOATS, &one.stream);
            assert_eq!((code, one.communicator.condition()), (IN_PROGRESS, SUCCESS));
        }
        context.synchronize().unwrap();
        assert_eq!(read::<2>(one.to), [3.0; 2]);
        assert_eq!(SIMULATOR.violations(), 0);
        assert_eq!(one.communicator.destroy(), SUCCESS);
        peer.join();
        return;
    };
    assert_eq!(ran.report, "");
}

#[test]
fn a_killed_rank_is_a_remote_error() {
    let test = "a_killed_rank_is_a_remote_error";
    let Some(_) = Run::new(test).outside() else {
        let (context, mut peer, one, index) = two_processes(test);
        if is_second() {
            let _ = peer.receive::<1>(); // until this process is killed
            return;
        }
        one.receive(1 - index);
        assert_eq!(SIMULATOR.settle(), 2);
        peer.kill();
        assert_eq!(one.communicator.condition(), REMOTE);
        let refused = one.communicator.receive(one.to, FLOATS, 1 - index, &one.stream);
        assert_eq!(refused, REMOTE);
        assert_eq!(SIMULATOR.settle(), 2);
        assert_eq!(one.communicator.abort(), SUCCESS);
        assert_eq!(SIMULATOR.settle(), 1);
        context.synchronize().unwrap();
        return;
    };
}
