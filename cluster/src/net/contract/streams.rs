//! Promises about streams of bytes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)] // tests that other crates run

use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::net::transport::{Acceptor, Halves, PeerInfo, ReadHalf, Transport, WriteHalf};
use crate::peer::ProcessId;

/// A time limit that is long enough for any machine that works.
const LONG: Duration = Duration::from_secs(60);

/// Runs a promise, which fails if it does not end.
pub(super) fn run(promise: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let ended = runtime.block_on(async { timeout(LONG, promise).await });
    assert!(ended.is_ok(), "a wait has not ended within {LONG:?}");
}

/// The place of a listener in this process.
pub(super) fn place(acceptor: &dyn Acceptor) -> PeerInfo {
    PeerInfo {
        process: ProcessId::HEAD,
        connect_at: acceptor.connect_at().to_owned(),
    }
}

/// The two ends of a new stream, that of the dialer first.
pub(super) async fn connected(transport: &impl Transport, acceptor: &mut dyn Acceptor) -> (Halves, Halves) {
    let to = place(acceptor);
    let accept = async {
        let accepted = poll_fn(|cx| acceptor.poll_accept(cx)).await.unwrap();
        accepted.halves.await.unwrap()
    };
    let (near, far) = join!(transport.connect(&to), accept);
    (near.unwrap(), far)
}

/// The two ends of a stream whose listener is gone already.
pub(super) async fn stream(transport: &impl Transport) -> (Halves, Halves) {
    let mut acceptor = transport.listen().await.unwrap();
    connected(transport, &mut *acceptor).await
}

/// Bytes of which no stretch looks like another.
pub(super) fn sample(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        // SplitMix64.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 27).to_le_bytes()
    });
    words.flatten().take(bytes).collect()
}

/// Writes the bytes in pieces of many lengths, and ends the direction.
pub(super) async fn write(mut writer: WriteHalf, bytes: &[u8]) {
    let mut rest = bytes;
    for length in [1, 7, 4096, 65_537, 300_000].into_iter().cycle() {
        let (piece, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
        writer.write_all(piece).await.unwrap();
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    writer.shutdown().await.unwrap();
}

/// Reads to the end.
async fn read(mut reader: ReadHalf) -> Vec<u8> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// All bytes of each direction arrive, each once, in the order in which they were written.
pub fn bytes_arrive_completely_and_in_order<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    run(async {
        let bytes = sample(3 << 20, 1);
        let (near, far) = stream(&transport).await;
        let ((), read_there) = join!(write(near.writer, &bytes), read(far.reader));
        assert!(read_there == bytes, "what the listener has read differs");
        let ((), read_here) = join!(write(far.writer, &bytes), read(near.reader));
        assert!(read_here == bytes, "what the dialer has read differs");
    });
}

/// The two directions do not wait for each other.
pub fn both_directions_carry_bytes_at_once<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    run(async {
        let (there, here) = (sample(3 << 20, 2), sample(3 << 20, 3));
        let (near, far) = stream(&transport).await;
        let ((), (), read_there, read_here) = join!(
            write(near.writer, &there),
            write(far.writer, &here),
            read(far.reader),
            read(near.reader),
        );
        assert!(read_there == there && read_here == here, "what was read differs");
    });
}

/// Bytes that are flushed arrive, although no more follow.
pub fn a_byte_arrives_with_nothing_behind_it<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    run(async {
        let (mut near, mut far) = stream(&transport).await;
        for number in 0..100 {
            for (from, to) in [
                (&mut near.writer, &mut far.reader),
                (&mut far.writer, &mut near.reader),
            ] {
                from.write_u8(number).await.unwrap();
                from.flush().await.unwrap();
                assert_eq!(to.read_u8().await.unwrap(), number);
            }
        }
    });
}

/// A shutdown of a write half, or its drop, ends that direction alone.
pub fn the_end_of_one_direction_leaves_the_other<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    run(async {
        let bytes = sample(1 << 20, 4);
        for (is_shut_down, is_dropped) in [(true, false), (true, true), (false, true)] {
            let (mut near, far) = stream(&transport).await;
            if is_shut_down {
                near.writer.shutdown().await.unwrap();
            }
            let kept = (!is_dropped).then_some(near.writer);
            assert!(read(far.reader).await.is_empty());
            let ((), read_here) = join!(write(far.writer, &bytes), read(near.reader));
            assert!(read_here == bytes, "the other direction has lost bytes");
            drop(kept);
        }
    });
}

/// The death of a process ends the reads from it and the writes to it.
pub fn a_death_ends_every_wait_of_the_peer<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    run(async {
        let (near, mut far) = stream(&transport).await;
        let bytes = sample(64 << 10, 5);
        // Nobody reads, so the writer waits when the stream is full.
        let writes = async { while far.writer.write_all(&bytes).await.is_ok() {} };
        let reads = async { far.reader.read(&mut [0]).await.unwrap_or(0) };
        let death = async {
            tokio::task::yield_now().await;
            drop(near);
        };
        let ((), read, ()) = join!(writes, reads, death);
        assert_eq!(read, 0, "a dead process has written");
    });
}

/// A listener that was dropped refuses whoever connects.
pub fn a_listener_that_is_gone_is_an_error<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    run(async {
        let acceptor = transport.listen().await.unwrap();
        let to = place(&*acceptor);
        drop(acceptor);
        assert!(transport.connect(&to).await.is_err());
    });
}
