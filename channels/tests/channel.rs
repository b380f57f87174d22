//! Channels by themselves: blocking ends, between threads and between ends of one process over shared memory.
#![cfg(not(loom))]
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)] // a test may panic

use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use selvedge_channels::{
    ChannelError, ChannelOptions, End, Provider, Reader, SharedChannel, Tensor, Waiting, Wire, Writer,
};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Threads,
    Shared(Provider),
}

#[cfg(miri)] // Miri has no shared memory
const KINDS: [Kind; 1] = [Kind::Threads];
#[cfg(not(any(miri, feature = "named")))]
const KINDS: [Kind; 2] = [Kind::Threads, Kind::Shared(Provider::Memfd)];
#[cfg(all(not(miri), feature = "named"))]
const KINDS: [Kind; 3] = [
    Kind::Threads,
    Kind::Shared(Provider::Memfd),
    Kind::Shared(Provider::Named),
];

/// The time limit of a wait that has no other limit.
const LONG: Duration = Duration::from_secs(60);

fn make<T: Wire>(kind: Kind, options: &ChannelOptions, readers: usize) -> (Writer<T>, Vec<Reader<T>>) {
    let options = options.clone().readers(readers);
    match kind {
        Kind::Threads => options.threads().unwrap(),
        Kind::Shared(provider) => {
            let channel = options.provider(provider).shared::<T>().unwrap();
            let readers = (0..readers as u32).map(|index| channel.reader(index).unwrap());
            (channel.writer().unwrap(), readers.collect())
        }
    }
}

#[test]
fn chan_03_every_reader_sees_every_value_once_and_in_order() {
    let count = if cfg!(miri) { 40 } else { 20_000 };
    for kind in KINDS {
        for waiting in [Waiting::Park, Waiting::SpinThenPark(Duration::from_micros(20))] {
            let options = ChannelOptions::new().slots(3).waiting(waiting);
            let (mut writer, readers) = make::<u64>(kind, &options, 2);
            thread::scope(|scope| {
                for mut reader in readers {
                    scope.spawn(move || {
                        let got: Vec<u64> = reader.iter().map(Result::unwrap).collect();
                        assert!(got.into_iter().eq(0..count), "{kind:?}");
                    });
                }
                (0..count).for_each(|x| writer.send(x).unwrap());
                drop(writer);
            });
        }
    }
}

#[test]
fn chan_05_a_timeout_changes_nothing_and_nothing_is_lost() {
    for kind in KINDS {
        let (mut writer, mut readers) = make::<String>(kind, &ChannelOptions::new().slots(1), 1);
        let (reader, short) = (&mut readers[0], Duration::from_millis(2));
        assert!(matches!(
            reader.recv_timeout(short),
            Err(ChannelError::Timeout { .. })
        ));
        assert!(reader.try_recv().unwrap().is_none());
        writer.send("a".into()).unwrap();
        let refused = writer.send_timeout("b".into(), short).unwrap_err();
        assert_eq!(refused.value, "b", "{kind:?}");
        assert!(matches!(refused.error, ChannelError::Timeout { .. }));
        let refused = writer.try_send("b".into()).unwrap_err();
        assert!(matches!(refused.error, ChannelError::Full));
        assert_eq!(reader.recv().unwrap(), "a");
        writer.send(refused.value).unwrap();
        assert_eq!(reader.recv().unwrap(), "b");
        assert_eq!((writer.position(), reader.position()), (2, 2));
    }
}

#[test]
fn chan_04_a_timeout_of_zero_is_one_attempt_and_none_is_no_end() {
    for kind in KINDS {
        for waiting in [Waiting::Park, Waiting::auto(1)] {
            let options = ChannelOptions::new()
                .slots(1)
                .waiting(waiting)
                .timeout(Some(Duration::ZERO));
            let (mut writer, mut readers) = make::<u8>(kind, &options, 1);
            let late =
                |error: ChannelError| assert!(matches!(error, ChannelError::Timeout { .. }), "{error}");
            late(readers[0].recv().unwrap_err());
            late(readers[0].recv_timeout(Duration::ZERO).unwrap_err());
            // An operation that need not wait succeeds.
            writer.send(1).unwrap();
            late(writer.send(2).unwrap_err().error);
            late(writer.flush().unwrap_err());
            assert_eq!(readers[0].recv().unwrap(), 1);
            writer.send_timeout(2, Duration::ZERO).unwrap();
            assert_eq!(readers[0].recv_timeout(Duration::ZERO).unwrap(), 2);
            // The longest duration stands for no deadline at all.
            writer.send_timeout(3, Duration::MAX).unwrap();
            assert_eq!(readers[0].recv_timeout(Duration::MAX).unwrap(), 3);
        }
        let options = ChannelOptions::new().slots(1).timeout(None);
        let (mut writer, mut readers) = make::<u8>(kind, &options, 1);
        writer.send(1).unwrap();
        let waits = thread::spawn(move || writer.send(2).map_err(|refused| refused.error));
        assert_eq!(readers[0].recv().unwrap(), 1);
        assert_eq!(readers[0].recv().unwrap(), 2);
        waits.join().unwrap().unwrap();
    }
}

thread_local! {
    static SERIALISED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    static DECODED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// A value that counts its serialisations and decodings on this thread.
#[derive(Clone, Debug)]
struct Counted(Vec<u32>);

impl<'de> serde::Deserialize<'de> for Counted {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DECODED.set(DECODED.get() + 1);
        serde::Deserialize::deserialize(deserializer).map(Counted)
    }
}

impl serde::Serialize for Counted {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SERIALISED.set(SERIALISED.get() + 1);
        serializer.serialize_newtype_struct("Counted", &self.0)
    }
}

/// A value that cannot be encoded.
#[derive(Clone, Debug, serde::Deserialize)]
struct Refuses;

impl serde::Serialize for Refuses {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        SERIALISED.set(SERIALISED.get() + 1);
        Err(serde::ser::Error::custom("not this one"))
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn what_is_refused_at_once_is_not_tried_again_and_again() {
    for waiting in [Waiting::Park, Waiting::Spin, Waiting::auto(2)] {
        let channel = ChannelOptions::new()
            .waiting(waiting)
            .shared::<Refuses>()
            .unwrap();
        let mut writer = channel.writer().unwrap();
        let mut times = |send: fn(&mut Writer<Refuses>) -> ChannelError| {
            SERIALISED.set(0);
            let error = send(&mut writer);
            assert!(matches!(error, ChannelError::Encode(_)), "{error}");
            SERIALISED.get()
        };
        let once = times(|writer| writer.try_send(Refuses).unwrap_err().error);
        let sent = times(|writer| writer.send(Refuses).unwrap_err().error);
        // The fast path gives no reason for a refusal; the slow path, which gives one, tries once more.
        assert!(
            sent <= 2 * once,
            "{waiting:?}: {sent} times, an attempt takes {once}"
        );
    }
}

/// A send first claims a slot, then serialises, then makes room for the bytes: a wait in vain has no effect, and a send
/// has one wait and one deadline.
#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn chan_13_a_payload_is_serialised_and_grown_for_once_there_is_a_slot() {
    let options = ChannelOptions::new().slots(1).buffer_bytes(1000);
    let channel = options.shared::<Counted>().unwrap();
    let (mut writer, mut reader) = (channel.writer().unwrap(), channel.reader(0).unwrap());
    let large = || Counted(vec![u32::MAX; 10_000]);
    writer.send(Counted(vec![1])).unwrap();
    SERIALISED.set(0);
    let refused = writer
        .send_timeout(large(), Duration::from_millis(2))
        .unwrap_err();
    assert!(matches!(refused.error, ChannelError::Timeout { .. }));
    assert!(writer.try_send(large()).is_err());
    assert_eq!(SERIALISED.get(), 0, "nothing of it was done");
    assert_eq!(reader.recv().unwrap().0, [1]);
    writer.send(refused.value).unwrap();
    assert_eq!(SERIALISED.get(), 1);
    assert_eq!(reader.recv().unwrap().0.len(), 10_000);
}

#[test]
fn chan_08_a_new_channels_buffer_is_zero_and_as_large_as_asked_for() {
    for kind in KINDS {
        let options = ChannelOptions::new().slots(2).buffer_bytes(8192);
        let (mut writer, mut readers) = make::<Vec<u64>>(kind, &options, 1);
        for _ in 0..2 {
            // With its frame, this payload fills the buffer.
            let mut loan = writer.reserve((8192 - 64) / 8).unwrap();
            assert!(loan.iter().all(|word| *word == 0), "{kind:?}");
            loan.fill(u64::MAX);
            loan.publish().unwrap();
            assert_eq!(readers[0].recv().unwrap(), [u64::MAX; 1016]);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn a_timeout_names_who_was_waited_for() {
    let channel = ChannelOptions::new().shared::<u8>().unwrap();
    let mut reader = channel.reader(0).unwrap();
    let text = reader
        .recv_timeout(Duration::from_millis(1))
        .unwrap_err()
        .to_string();
    assert!(text.ends_with("nobody has the writer"), "{text}");
    let _writer = channel.writer().unwrap();
    let text = reader
        .recv_timeout(Duration::from_millis(1))
        .unwrap_err()
        .to_string();
    assert!(
        text.ends_with(&format!("the writer is process {}", std::process::id())),
        "{text}"
    );
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn chan_23_a_writer_that_waits_for_a_view_names_its_holder() {
    let options = ChannelOptions::new().slots(1).readers(2);
    let channel = options.shared::<u8>().unwrap();
    let mut writer = channel.writer().unwrap();
    let mut readers = [channel.reader(0).unwrap(), channel.reader(1).unwrap()];
    writer.send(1).unwrap();
    readers[0].skip().unwrap();
    let view = readers[1].view().unwrap();
    let refused = writer.send_timeout(2, Duration::from_millis(1)).unwrap_err();
    let (text, pid) = (refused.to_string(), std::process::id());
    let expected =
        format!("reader 0 is process {pid}, at message 1, reader 1 is process {pid}, at message 0");
    assert!(text.ends_with(&expected), "{text}");
    drop(view);
}

#[test]
fn chan_06_close_lets_readers_finish_and_then_tells_them() {
    for kind in KINDS {
        let (mut writer, mut readers) = make::<u8>(kind, &ChannelOptions::new(), 1);
        writer.send(1).unwrap();
        writer.close();
        writer.close();
        assert_eq!(readers[0].recv().unwrap(), 1);
        assert!(matches!(readers[0].recv(), Err(ChannelError::Closed)), "{kind:?}");
        assert!(readers[0].iter().next().is_none());
    }
}

#[test]
fn chan_06_a_write_after_close_fails_and_nothing_follows_the_end() {
    for kind in KINDS {
        let options = ChannelOptions::new().slots(4).timeout(LONG);
        let (mut writer, mut readers) = make::<Vec<u8>>(kind, &options, 2);
        writer.send(vec![1]).unwrap();
        writer.close();
        let closed =
            |error: ChannelError| assert!(matches!(error, ChannelError::Closed), "{kind:?}: {error}");
        let refused = writer.send(vec![2]).unwrap_err();
        assert_eq!(refused.value, [2]);
        closed(refused.error);
        closed(writer.try_send(vec![3]).unwrap_err().error);
        closed(writer.send_ref(&vec![4]).unwrap_err());
        closed(writer.reserve(1).map(drop).unwrap_err());
        let mut more = [vec![5], vec![6]].into_iter();
        closed(writer.send_all(&mut more).unwrap_err().error);
        assert_eq!(more.len(), 1);
        assert_eq!(writer.position(), 1);
        for reader in &mut readers {
            assert_eq!(reader.recv().unwrap(), [1]);
            closed(reader.recv().unwrap_err());
            closed(reader.try_recv().map(drop).unwrap_err());
        }
        // All of it was read; `flush` also ends where slots of earlier laps are free.
        writer.flush().unwrap();
        closed(writer.try_send(vec![7]).unwrap_err().error);
        closed(readers[0].recv().unwrap_err());
    }
}

#[test]
fn chan_06_a_parked_reader_wakes_when_the_writer_goes() {
    for kind in KINDS {
        let options = ChannelOptions::new().waiting(Waiting::Park).timeout(LONG);
        let (writer, mut readers) = make::<u8>(kind, &options, 1);
        let mut reader = readers.remove(0);
        let waits = thread::spawn(move || reader.recv());
        thread::yield_now();
        drop(writer);
        assert!(
            matches!(waits.join().unwrap(), Err(ChannelError::Closed)),
            "{kind:?}"
        );
    }
}

#[test]
fn chan_26_what_is_skipped_is_not_decoded_and_gives_its_slot_back() {
    for kind in KINDS {
        let (mut writer, mut readers) = make::<Counted>(kind, &ChannelOptions::new().slots(1), 1);
        writer.send(Counted(vec![0])).unwrap();
        DECODED.set(0);
        readers[0].skip().unwrap();
        for number in 1..4 {
            writer.try_send(Counted(vec![number])).unwrap();
            readers[0].skip().unwrap();
        }
        assert_eq!((readers[0].position(), DECODED.get()), (4, 0), "{kind:?}");
        writer.try_send(Counted(vec![4])).unwrap();
        assert_eq!(readers[0].recv().unwrap().0, [4]);
        let decoded = u32::from(matches!(kind, Kind::Shared(_)));
        assert_eq!(DECODED.get(), decoded, "it would have been counted: {kind:?}");
    }
}

#[test]
fn chan_23_a_view_keeps_its_slot_until_it_is_dropped() {
    for kind in KINDS {
        let (mut writer, mut readers) = make::<Vec<f32>>(kind, &ChannelOptions::new().slots(1), 1);
        writer.send(vec![1.0; 500]).unwrap();
        let view = readers[0].view().unwrap();
        let refused = writer.try_send(vec![2.0; 500]).unwrap_err();
        assert!(matches!(refused.error, ChannelError::Full), "{kind:?}");
        assert!(view.slice().unwrap().iter().all(|x| *x == 1.0));
        drop(view);
        writer.send(refused.value).unwrap();
        assert_eq!(readers[0].view().unwrap().get().unwrap()[499], 2.0);
        writer.send(vec![3.0]).unwrap();
        readers[0].skip().unwrap();
        assert!(readers[0].try_recv().unwrap().is_none());
    }
}

#[test]
fn views_of_text_and_tensors() {
    for kind in KINDS {
        let (mut writer, mut readers) = make::<String>(kind, &ChannelOptions::new(), 1);
        writer.send("grüß dich".into()).unwrap();
        assert_eq!(readers[0].view().unwrap().text().unwrap(), "grüß dich");
        let (mut writer, mut readers) = make::<Tensor>(kind, &ChannelOptions::new(), 1);
        let tensor = Tensor::from_slice(&[1_i32, 2, 3, 4, 5, 6], &[2, 3]).unwrap();
        writer.send(tensor.clone()).unwrap();
        let kept = {
            let view = readers[0].view().unwrap();
            view.get().unwrap().clone()
        };
        writer.send(Tensor::from_slice(&[9_i32], &[1]).unwrap()).unwrap();
        assert_eq!(kept, tensor, "a clone outlives the slot");
    }
}

#[test]
fn a_loan_is_sent_without_a_copy_and_only_by_publish() {
    for kind in KINDS {
        let (mut writer, mut readers) = make::<Vec<u32>>(kind, &ChannelOptions::new().slots(2), 1);
        for len in [0_usize, 1, 10, 1_000, 100_000, 5] {
            let len = if cfg!(miri) { len.min(100) } else { len };
            let mut dropped = writer.reserve(len).unwrap();
            dropped.fill(7);
            drop(dropped);
            let mut loan = writer.reserve(len).unwrap();
            assert_eq!(loan.len(), len);
            (0..len).for_each(|i| loan[i] = i as u32);
            loan.publish().unwrap();
            let view = readers[0].view().unwrap();
            assert!(
                view.slice().unwrap().iter().copied().eq(0..len as u32),
                "{kind:?} {len}"
            );
        }
        assert_eq!(writer.position(), 6, "what was dropped was not sent");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn chan_22_every_end_is_taken_once_and_by_its_own_type() {
    let channel = ChannelOptions::new().readers(2).shared::<u64>().unwrap();
    let writer = channel.writer().unwrap();
    let error = channel.writer().unwrap_err();
    let pid = std::process::id();
    assert!(
        matches!(error, ChannelError::Attached { end: End::Writer, pid: found } if found == pid),
        "{error}"
    );
    drop(channel.reader(1).unwrap());
    assert!(matches!(
        channel.reader(1),
        Err(ChannelError::Attached {
            end: End::Reader(1),
            pid: 0
        })
    ));
    let left = channel.reader(1).unwrap_err().to_string();
    assert!(left.contains("has been left"), "{left}");
    let none = channel.reader(2).unwrap_err();
    assert!(
        matches!(none, ChannelError::NoReader { index: 2, readers: 2 }),
        "{none}"
    );
    let other = SharedChannel::<i64>::open(channel.descriptor(), ChannelOptions::new());
    assert!(matches!(other, Err(ChannelError::WrongType { .. })));
    let same = SharedChannel::<u64>::open(channel.descriptor(), ChannelOptions::new()).unwrap();
    let reader = same.reader(0).unwrap();
    let text = channel.descriptor().to_string();
    drop((channel, same, writer, reader));
    let gone = SharedChannel::<u64>::open(&text.parse().unwrap(), ChannelOptions::new());
    assert!(gone.is_err(), "nobody keeps it: {gone:?}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn options_out_of_bounds_are_refused() {
    for options in [ChannelOptions::new().slots(0), ChannelOptions::new().readers(0)] {
        assert!(matches!(
            options.threads::<u8>(),
            Err(ChannelError::InvalidSpec { .. })
        ));
        assert!(options.shared::<u8>().is_err());
    }
    let small = ChannelOptions::new().buffer_bytes(999).shared::<u8>();
    assert!(matches!(small, Err(ChannelError::InvalidSpec { value: 999, .. })));
    let huge = ChannelOptions::new().slots(usize::MAX).readers(3).shared::<u8>();
    assert!(huge.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
    #[test]
    fn a_channel_is_a_bounded_queue(
        slots in 1_usize..5,
        steps in proptest::collection::vec((any::<bool>(), 0_usize..3000), 1..60),
    ) {
        for kind in KINDS {
            let options = ChannelOptions::new().slots(slots).buffer_bytes(1000);
            let (mut writer, mut readers) = make::<Vec<u8>>(kind, &options, 1);
            let mut queue = std::collections::VecDeque::new();
            for (send, len) in &steps {
                if *send {
                    let value = vec![*len as u8; *len];
                    match writer.try_send(value.clone()) {
                        Ok(()) => queue.push_back(value),
                        Err(refused) => {
                            prop_assert!(matches!(refused.error, ChannelError::Full));
                            prop_assert_eq!(queue.len(), slots);
                        }
                    }
                } else {
                    prop_assert_eq!(readers[0].try_recv().unwrap(), queue.pop_front());
                }
                prop_assert!(queue.len() <= slots);
            }
        }
    }
}

#[test]
fn many_at_a_time_are_the_same_messages() {
    for kind in KINDS {
        for waiting in [Waiting::Park, Waiting::SpinThenPark(Duration::from_micros(20))] {
            let options = ChannelOptions::new().slots(5).waiting(waiting);
            let count = if cfg!(miri) { 50 } else { 20_000_u32 };
            let (mut writer, mut readers) = make::<u32>(kind, &options, 1);
            let mut reader = readers.remove(0);
            let reads = thread::spawn(move || {
                let (mut got, mut most) = (Vec::new(), 0);
                loop {
                    match reader.recv_many(3, &mut got) {
                        Ok(taken) => most = most.max(taken),
                        Err(ChannelError::Closed) => return (got, most),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            writer.send_all(&mut (0..count)).unwrap();
            drop(writer);
            let (got, most) = reads.join().unwrap();
            assert!(got.into_iter().eq(0..count), "{kind:?}");
            assert!((1..=3).contains(&most));
        }
    }
}

/// A number whose decoding panics if it is 0.
#[derive(Clone, Debug, serde::Serialize)]
struct NeverZero(u32);

impl<'de> serde::Deserialize<'de> for NeverZero {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(from)?;
        assert_ne!(number, 0);
        Ok(NeverZero(number))
    }
}

fn panics<R>(work: impl FnOnce() -> R) {
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
}

#[test]
fn a_panic_in_the_middle_of_a_batch_loses_no_wake_up() {
    // As many waits as this show a lost wake-up: every one of them would have to be early to hide it.
    let count = if cfg!(miri) { 10 } else { 500_u32 };
    let options = ChannelOptions::new()
        .slots(1)
        .waiting(Waiting::Park)
        .timeout(LONG);
    for kind in KINDS {
        let (mut writer, mut readers) = make::<u32>(kind, &options, 1);
        panics(|| writer.send_all(&mut (0..2).map(|x| if x == 0 { x } else { panic!("a user's") })));
        let mut reader = readers.remove(0);
        let reads = thread::spawn(move || (0..=count).map(|_| reader.recv().unwrap()).max());
        for x in 1..=count {
            writer.flush().unwrap();
            writer.send(x).unwrap();
        }
        assert_eq!(reads.join().unwrap(), Some(count), "{kind:?}");
        // Between threads nothing is decoded.
        if matches!(kind, Kind::Shared(_)) {
            let (mut writer, mut readers) = make::<NeverZero>(kind, &options, 1);
            writer.send(NeverZero(0)).unwrap();
            let reader = &mut readers[0];
            panics(|| reader.recv_many(2, &mut Vec::new()));
            reader.skip().unwrap();
            let writes = thread::spawn(move || (1..=count).for_each(|x| writer.send(NeverZero(x)).unwrap()));
            (1..=count).for_each(|x| assert_eq!(reader.recv().unwrap().0, x));
            writes.join().unwrap();
        }
    }
}

#[test]
fn a_batch_that_does_not_fit_keeps_the_rest() {
    for kind in KINDS {
        let options = ChannelOptions::new().slots(2).timeout(Duration::from_millis(2));
        let (mut writer, mut readers) = make::<u8>(kind, &options, 1);
        let mut values = 0..5_u8;
        let refused = writer.send_all(&mut values).unwrap_err();
        assert_eq!((refused.value, values), (2, 3..5), "{kind:?}");
        let mut got = Vec::new();
        assert_eq!(readers[0].recv_many(10, &mut got).unwrap(), 2);
        assert_eq!(readers[0].recv_many(0, &mut got).unwrap(), 0);
        assert_eq!(got, [0, 1]);
    }
}

/// A minimal executor: a thread that parks.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = std::task::Waker::from(std::sync::Arc::new(Unpark(thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => return output,
            std::task::Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn ends_can_be_awaited() {
    let count = if cfg!(miri) { 30 } else { 3_000_u32 };
    for kind in KINDS {
        let (mut writer, mut readers) = make::<u32>(kind, &ChannelOptions::new().slots(2), 1);
        let mut reader = readers.remove(0);
        let reads = thread::spawn(move || {
            block_on(async {
                let mut got = Vec::new();
                loop {
                    match reader.recv_async().await {
                        Ok(value) => got.push(value),
                        Err(ChannelError::Closed) => return got,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        block_on(async {
            for value in 0..count {
                writer.send_async(value).await.unwrap();
            }
        });
        drop(writer);
        assert!(reads.join().unwrap().into_iter().eq(0..count), "{kind:?}");
    }
}

#[test]
fn a_waker_that_panics_stops_no_later_wait() {
    struct Bomb(std::sync::mpsc::Sender<()>);
    impl std::task::Wake for Bomb {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.send(()).unwrap();
            std::panic::resume_unwind(Box::new("a waker"));
        }
    }
    for kind in KINDS {
        let (mut writer, mut readers) = make::<u32>(kind, &ChannelOptions::new(), 1);
        let (woken, is_woken) = std::sync::mpsc::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let mut reader = readers.remove(0);
        let bomb = std::task::Waker::from(std::sync::Arc::new(Bomb(woken)));
        {
            let mut future = std::pin::pin!(reader.recv_async());
            let mut context = std::task::Context::from_waker(&bomb);
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        writer.send(1).unwrap();
        is_woken.recv_timeout(LONG).unwrap();
        thread::spawn(move || {
            let first = reader.recv().unwrap();
            {
                let mut future = std::pin::pin!(reader.recv_async());
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(future.as_mut().poll(&mut context).is_pending());
            }
            writer.send(2).unwrap();
            let second = reader.recv().unwrap();
            drop(reader);
            tell.send([first, second]).unwrap();
        });
        let got = told.recv_timeout(LONG).expect("it waits without end");
        assert_eq!(got, [1, 2], "{kind:?}");
    }
}

#[test]
fn a_future_that_is_dropped_leaves_the_end_as_it_was() {
    for kind in KINDS {
        let options = ChannelOptions::new().waiting(Waiting::Park);
        let (mut writer, mut readers) = make::<u32>(kind, &options, 1);
        let reader = &mut readers[0];
        for round in 0..50 {
            {
                let mut future = std::pin::pin!(reader.recv_async());
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(future.as_mut().poll(&mut context).is_pending());
            }
            // The same end blocks next: the helper thread of the dropped future must not take its wake-up.
            thread::scope(|scope| {
                let waits = scope.spawn(|| reader.recv());
                writer.send(round).unwrap();
                assert_eq!(waits.join().unwrap().unwrap(), round, "{kind:?}");
            });
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memfd")]
fn chan_25_a_child_that_dies_before_it_comes_is_heard_of() {
    let channel = ChannelOptions::new().shared::<u8>().unwrap();
    let mut reader = channel.reader(0).unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    channel.expect(End::Writer, child.id()).unwrap();
    channel.expect(End::Writer, child.id()).unwrap();
    let error = reader.recv().unwrap_err();
    assert!(
        matches!(error, ChannelError::Poisoned { culprit } if culprit.pid == child.id() && culprit.end == End::Writer),
        "{error}"
    );
    child.wait().unwrap();
    assert!(
        channel.expect(End::Reader(0), child.id()).is_err(),
        "it is somebody's"
    );
    let other = channel.writer().unwrap_err();
    assert!(
        matches!(other, ChannelError::Attached { .. }),
        "kept for the child: {other}"
    );
}

#[test]
fn a_tensor_is_built_where_it_is_read() {
    for kind in KINDS {
        let (mut writer, mut readers) = make::<Tensor>(kind, &ChannelOptions::new().slots(2), 1);
        for round in 0..5_u8 {
            // The third tensor does not fit the slot.
            let rows = if round == 2 { 3000 } else { 3 };
            let mut loan = writer.reserve::<f64>(&[rows, 2]).unwrap();
            assert_eq!(loan.len(), rows * 2);
            loan.fill(f64::from(round));
            let at = loan.as_ptr();
            loan.publish().unwrap();
            let view = readers[0].view().unwrap();
            let tensor = view.get().unwrap();
            assert_eq!(
                (tensor.shape(), tensor.bytes().as_ptr().addr() % 64),
                (&[rows, 2][..], 0),
                "{kind:?}"
            );
            assert!(
                tensor
                    .as_slice::<f64>()
                    .unwrap()
                    .iter()
                    .all(|element| *element == f64::from(round))
            );
            if let Kind::Threads = kind {
                assert_eq!(tensor.bytes().as_ptr().cast(), at, "moved, not copied");
            }
        }
        drop(writer.reserve::<u8>(&[4]).unwrap());
        assert!(
            readers[0].try_recv().unwrap().is_none(),
            "a loan that is dropped sends nothing"
        );
        let refused = writer.reserve::<u64>(&[usize::MAX, 2]);
        assert!(matches!(refused, Err(ChannelError::TooLarge { .. })), "{kind:?}");
    }
}

#[test]
fn chan_05_a_writer_that_waits_in_vain_says_for_whom() {
    for kind in KINDS {
        let options = ChannelOptions::new().slots(2).timeout(Duration::from_millis(20));
        let (mut writer, mut readers) = make::<u64>(kind, &options, 3);
        writer.send(0).unwrap();
        writer.send(1).unwrap();
        for index in [0, 2] {
            readers[index].recv().unwrap();
        }
        let view = readers[1].view().unwrap();
        let refused = writer.send(2).unwrap_err();
        let text = refused.error.to_string();
        assert_eq!(refused.value, 2, "{kind:?}");
        assert!(
            text.contains("reader 1") && text.contains("at message 0"),
            "{kind:?}: {text}"
        );
        if let Kind::Threads = kind {
            assert!(!text.contains("reader 0") && !text.contains("reader 2"), "{text}");
        }
        drop(view);
        writer.send(2).unwrap();
    }
}

#[test]
fn a_flush_waits_until_everything_has_been_read() {
    for kind in KINDS {
        let options = ChannelOptions::new().slots(4).timeout(Duration::from_secs(60));
        let (mut writer, mut readers) = make::<Vec<u8>>(kind, &options, 2);
        writer.flush().unwrap();
        writer.send(vec![1; 10]).unwrap();
        writer.send(vec![2; 100_000]).unwrap();
        let slow = readers.pop().unwrap();
        readers[0].recv().unwrap();
        let waited = thread::scope(|scope| {
            let flushing = scope.spawn(|| {
                writer.close();
                writer.flush()
            });
            readers[0].recv().unwrap();
            let mut slow = slow;
            assert_eq!(slow.recv().unwrap()[0], 1);
            assert_eq!(slow.recv().unwrap()[0], 2);
            let waited = flushing.join().unwrap();
            assert!(matches!(slow.recv(), Err(ChannelError::Closed)), "{kind:?}");
            waited
        });
        assert!(waited.is_ok(), "{kind:?}: {waited:?}");
        // The error names a reader that is behind; the writer does not wait for a reader that has gone.
        let (mut writer, readers) = make::<u64>(kind, &options.clone().timeout(Duration::from_millis(20)), 1);
        writer.send(1).unwrap();
        let late = writer.flush().unwrap_err().to_string();
        assert!(
            late.contains("reader 0") && late.contains("at message 0"),
            "{kind:?}: {late}"
        );
        drop(readers);
        writer.flush().unwrap();
    }
}
