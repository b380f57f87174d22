//! Tests of the state of a link.

use super::super::queue::CHUNK_BYTES_MAX;
use super::super::tests::{letter, narrow, peer};
use super::*;

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
    let mut accept = |body| state.accept(to, letter(1, vec![0; body]));
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
    let (peer, bytes) = (to, limit);
    assert_eq!(accept(limit), Err(PostError::Full { peer, bytes, limit }));
    assert!(matches!(accept(CHUNK_BYTES_MAX), Err(PostError::Full { .. })));
}
