//! Tests of the state of a link.

use selvedge_cluster::frame::{Frame, HEADER_BYTES, Parts};

use super::super::queue::CHUNK_BYTES_MAX;
use super::super::tests::{SERVICE, letter, narrow, peer};
use super::*;

/// A link with a socket and a small window.
fn linked(settings: LinkSettings) -> LinkState {
    let mut state = LinkState::new(peer(1, 1), peer(2, 1), settings);
    assert!(state.connect(Duration::ZERO));
    state
}

/// A letter that arrives under this sequence number.
fn arriving(sequence: u64) -> ArrivedFrame {
    let frame = Frame {
        service: SERVICE,
        class: Class::Ordered,
        sequence,
        acknowledged: 0,
        head: [1][..].into(),
        parts: Parts::new(),
    };
    ArrivedFrame::new(frame, 0)
}

/// The number that a frame acknowledges.
fn acknowledged(frame: &OutgoingFrame) -> u64 {
    let mut header = Vec::new();
    frame.rest(|part| header.extend_from_slice(part));
    u64::from_le_bytes(header[HEADER_BYTES - 8..HEADER_BYTES].try_into().unwrap())
}

#[test]
fn a_peer_that_reads_nothing_has_few_acknowledgements_waiting_and_gets_the_last_one_when_it_reads() {
    let (mut state, mut now) = (linked(narrow(8)), Duration::ZERO);
    for sequence in 1..=10_000 {
        now += Duration::from_millis(1);
        assert_eq!(state.arrived(now, arriving(sequence)).unwrap().len(), 1);
        if let Some(frames) = state.begin_write(now) {
            // The socket has no room.
            state.end_write(frames, || false);
        }
        state.fired(now);
        assert!(state.outbox.len() <= OUTBOX_FRAMES_MAX);
    }
    assert!(
        !state.arm(),
        "no timer fires again and again while the peer does not read"
    );
    state.unblock();
    let frames = state.begin_write(now).unwrap();
    assert!(acknowledged(frames.back().unwrap()) < 10_000);
    state.end_write(VecDeque::new(), || false);
    let last = state.begin_write(now).unwrap();
    assert_eq!(last.iter().map(acknowledged).collect::<Vec<_>>(), [10_000]);
}

#[test]
fn an_acknowledgement_is_sent_at_its_time_or_when_half_the_window_is_taken() {
    let (mut state, now) = (linked(narrow(8)), Duration::ZERO);
    for sequence in 1..=3 {
        state.arrived(now, arriving(sequence)).unwrap();
        assert!(
            state.begin_write(now).is_none(),
            "it may travel with another frame"
        );
    }
    assert!(state.arm());
    let due = state.armed().unwrap();
    state.fired(due);
    let sent = state.begin_write(due).unwrap();
    assert_eq!(sent.iter().map(acknowledged).collect::<Vec<_>>(), [3]);
    state.end_write(VecDeque::new(), || false);
    assert!(!state.arm(), "nothing is owed");
    let next = state.armed().unwrap();
    assert!(next > due, "the link is in use");
    state.fired(next);
    assert!(state.begin_write(next).is_none());
    assert_eq!(state.armed(), None, "and is so no more");
    assert!(!state.arm());
    for sequence in 4..=7 {
        assert!(state.begin_write(now).is_none());
        state.arrived(now, arriving(sequence)).unwrap();
    }
    let sent = state.begin_write(now).unwrap();
    assert_eq!(sent.iter().map(acknowledged).collect::<Vec<_>>(), [7]);
}

#[test]
fn long_and_short_letters_that_wait_take_no_room_from_each_other() {
    let (to, limit) = (peer(2, 1), 3 * CHUNK_BYTES_MAX);
    let settings = LinkSettings {
        backlog_bytes_max: limit,
        body_bytes_max: limit,
        ..narrow(8)
    };
    // No socket yet, so all letters wait.
    let mut state = LinkState::new(peer(1, 1), to, settings);
    let mut accept = |body| state.accept(Duration::ZERO, to, letter(1, vec![0; body]));
    assert_eq!(accept(10), Ok(1));
    assert_eq!(
        accept(limit),
        Ok(2),
        "the longest body has room beside short letters"
    );
    assert_eq!(
        accept(CHUNK_BYTES_MAX),
        Ok(3),
        "and short letters beside the longest body"
    );
    assert_eq!(accept(CHUNK_BYTES_MAX), Ok(4));
    // The body, and the number in the head.
    let (peer, bytes) = (to, limit + 8);
    assert_eq!(accept(limit), Err(PostError::Full { peer, bytes, limit }));
    assert!(matches!(accept(CHUNK_BYTES_MAX), Err(PostError::Full { .. })));
}

#[test]
fn room_that_was_told_of_before_the_write_had_ended_is_used() {
    let mut state = linked(narrow(8));
    state
        .accept(Duration::ZERO, peer(2, 1), letter(1, "body"))
        .unwrap();
    // The socket refuses the frames, and has room before the write ends: whoever was told of it has found no write that waits.
    let frames = state.begin_write(Duration::ZERO).unwrap();
    assert!(!state.is_blocked());
    assert!(state.end_write(frames, || true));
    assert!(!state.is_blocked() && state.has_more());
    let frames = state.begin_write(Duration::ZERO).unwrap();
    assert!(state.end_write(frames, || false) && state.is_blocked());
}

#[test]
fn what_a_thread_leaves_to_the_links_task_does_not_wait_for_room() {
    let mut state = linked(narrow(8));
    state
        .accept(Duration::ZERO, peer(2, 1), letter(1, "body"))
        .unwrap();
    let frames = state.begin_write(Duration::ZERO).unwrap();
    // The socket refuses them: there is an event when it has room.
    assert!(state.end_write(frames, || false));
    assert_eq!((state.is_blocked(), state.is_left()), (true, false));
    state.unblock();
    // The thread has written enough, and the socket is not full: no event comes.
    state.block();
    assert_eq!((state.is_blocked(), state.is_left()), (true, true));
    assert!(state.begin_write(Duration::ZERO).is_none(), "the task writes");
    state.unblock();
    assert_eq!((state.is_blocked(), state.is_left()), (false, false));
    assert!(state.begin_write(Duration::ZERO).is_some());
}

#[test]
fn an_error_of_a_connection_that_has_ended_does_not_end_the_link() {
    let mut state = linked(narrow(8));
    state.set_resumable();
    let refused = || LinkEnd::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
    assert!(!state.close(refused()), "the link's task ends the connection");
    assert_eq!(state.disconnect(Duration::ZERO, &refused()), Some(1));
    assert!(!state.close(refused()), "a thread is late to tell the same");
    assert!(state.is_broken() && state.closing().is_none());
    assert!(state.connect(Duration::ZERO), "the link goes on");
    assert!(!state.close(LinkEnd::Closed), "another reason ends it");
    assert!(!state.is_open());
}

/// Bytes whose drop is noted.
struct NotedBytes(std::sync::Arc<std::sync::atomic::AtomicBool>);

impl AsRef<[u8]> for NotedBytes {
    fn as_ref(&self) -> &[u8] {
        &[7; 100]
    }
}

impl Drop for NotedBytes {
    fn drop(&mut self) {
        // Relaxed: one thread writes and reads.
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn no_body_is_dropped_under_the_lock_of_its_link() {
    type Ends = fn(&mut LinkState);
    let ends: [(&str, Ends); 3] = [
        ("it is acknowledged", |state| {
            drop(state.begin_write(Duration::ZERO));
            let mut answer = arriving(1);
            answer.packet.acknowledged = 1;
            state.arrived(Duration::ZERO, answer).unwrap();
        }),
        ("its link ends while it is in the window", |state| {
            assert!(state.end(LinkEnd::Closed));
        }),
        ("its link ends and its connection has ended before", |state| {
            state.set_resumable();
            let frames = state.begin_write(Duration::ZERO).unwrap();
            assert!(state.disconnect(Duration::ZERO, &LinkEnd::Reset).is_some());
            assert!(!state.end_write(frames, || false));
            assert!(state.end(LinkEnd::Shutdown));
        }),
    ];
    for (when, end) in ends {
        let is_dropped = std::sync::Arc::default();
        let mut state = linked(narrow(8));
        let bytes = bytes::Bytes::from_owner(NotedBytes(std::sync::Arc::clone(&is_dropped)));
        let sent = state.accept(Duration::ZERO, peer(2, 1), letter(1, bytes));
        assert_eq!(sent, Ok(1));
        end(&mut state);
        // Relaxed: one thread writes and reads.
        let is_dropped = || is_dropped.load(std::sync::atomic::Ordering::Relaxed);
        assert!(!is_dropped(), "{when}");
        drop(state.take_spent());
        assert!(is_dropped(), "{when}");
    }
}
