//! Tests of the queue of letters.

use proptest::prelude::*;
use selvedge_cluster::frame::Service;

use super::*;

/// A letter whose head is its number, of a stream.
fn letter(number: u64, stream: u64, body: usize) -> Letter {
    Letter {
        service: Service(9),
        class: Class::Ordered,
        stream,
        head: vec![u8::try_from(number).unwrap()].into(),
        body: vec![0; body].into(),
    }
}

/// Takes everything. Returns the numbers in the order of their ends, 0 for a chunk before the last.
fn drained(queue: &mut LetterQueue) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(next) = queue.pop() {
        numbers.push(next.number);
    }
    assert_eq!((queue.short_bytes, queue.long_bytes), (0, 0));
    assert!(
        queue.behind.is_empty(),
        "a stream whose letters are sent takes no room"
    );
    numbers
}

#[test]
fn a_short_letter_waits_for_one_chunk_of_a_long_one_and_not_for_its_own_stream() {
    let mut queue = LetterQueue::default();
    queue.push(letter(1, 1, 5 * CHUNK_BYTES_MAX), 1);
    queue.push(letter(2, 2, 2 * CHUNK_BYTES_MAX), 2);
    queue.push(letter(3, 1, 10), 3);
    queue.push(letter(4, 3, 10), 4);
    assert_eq!(queue.pop().unwrap().number, 4);
    let chunk = queue.pop().unwrap();
    assert_eq!(chunk.number, 0);
    queue.put_back(chunk);
    queue.push(letter(5, 3, 10), 5);
    assert_eq!(
        queue.pop().unwrap().number,
        0,
        "what could not be sent goes first"
    );
    assert_eq!(drained(&mut queue), [5, 0, 0, 0, 1, 3, 0, 2]);
}

#[test]
fn short_letters_without_end_do_not_hold_up_a_long_one() {
    let mut queue = LetterQueue::default();
    queue.push(letter(1, 1, 3 * CHUNK_BYTES_MAX), 1);
    for number in 2..14 {
        queue.push(letter(number, 2, CHUNK_BYTES_MAX / 4), number);
    }
    let ends = [2, 3, 4, 5, 0, 6, 7, 8, 9, 0, 10, 11, 12, 13, 1];
    assert_eq!(drained(&mut queue), ends);
}

#[test]
fn queue_3_letters_behind_a_long_one_go_with_its_end_and_not_behind_those_of_other_streams() {
    let mut queue = LetterQueue::default();
    let long = 2 * CHUNK_BYTES_MAX;
    for (number, stream, body) in [
        (1, 1, long),
        (2, 1, 10),
        (3, 2, long),
        (4, 1, long),
        (5, 1, 10),
        (6, 2, 10),
    ] {
        queue.push(letter(number, stream, body), number);
    }
    assert_eq!(drained(&mut queue), [0, 1, 2, 0, 3, 6, 0, 4, 5]);
    queue.push(letter(7, 1, long), 7);
    queue.push(letter(8, 2, 10), 8);
    assert_eq!(
        drained(&mut queue),
        [8, 0, 7],
        "no stream stays behind what is sent"
    );
}

#[test]
fn what_is_not_sent_to_its_end_is_told() {
    let mut queue = LetterQueue::default();
    queue.push(letter(1, 1, 2 * CHUNK_BYTES_MAX), 1);
    queue.push(letter(2, 1, 10), 2);
    assert_eq!(queue.pop().unwrap().number, 0);
    assert_eq!(queue.clear(drop), [1, 2]);
    queue.push(letter(3, 1, 10), 3);
    let unsent = queue.pop().unwrap();
    queue.put_back(unsent);
    assert_eq!(queue.clear(drop), [3]);
    assert!(drained(&mut queue).is_empty());
}

/// The letters that wait, as the properties see them: number, stream and length of the body.
type UnsentLetters = Vec<(u64, u64, usize)>;

/// Whether a short letter waits that is behind no long one of its stream.
fn is_short_free(waiting: &UnsentLetters) -> bool {
    let is_long = |body: usize| body > CHUNK_BYTES_MAX;
    waiting.iter().enumerate().any(|(at, (_, stream, body))| {
        let mut before = waiting.iter().take(at);
        !is_long(*body) && !before.any(|(_, other, body)| other == stream && is_long(*body))
    })
}

proptest! {
    #[test]
    fn queue_1_queue_2_queue_3_streams_keep_their_order_bodies_are_whole_and_short_letters_go_between(
        letters in proptest::collection::vec((0_u64..3, 0_usize..40, 0_usize..6), 0..16),
    ) {
        let (mut queue, mut waiting) = (LetterQueue::default(), UnsentLetters::new());
        let (mut since_chunk, mut begun) = (0, (0, 0));
        let mut take = |queue: &mut LetterQueue, waiting: &mut UnsentLetters| {
            let Some(next) = queue.pop() else { return Ok(false) };
            let is_chunk = next.letter.class == Class::Chunk;
            if is_chunk {
                let is_turn = since_chunk >= CHUNK_BYTES_MAX || !is_short_free(waiting);
                prop_assert!(is_turn, "QUEUE-3: {:?}", waiting);
                since_chunk = 0;
                prop_assert!(begun.1 == 0 || begun.0 == next.letter.stream, "QUEUE-2");
                begun = (next.letter.stream, begun.1 + next.letter.body.len());
            } else {
                since_chunk += next.bytes;
            }
            if next.number > 0 {
                let at = waiting.iter().position(|(_, stream, _)| *stream == next.letter.stream);
                let (number, _, body) = waiting.remove(at.unwrap());
                prop_assert_eq!(number, next.number, "QUEUE-1");
                if is_chunk {
                    prop_assert_eq!(begun.1, body, "QUEUE-2");
                    begun.1 = 0;
                }
            }
            Ok(true)
        };
        for (number, (stream, tenths, taken)) in (1..).zip(letters) {
            let body = tenths * CHUNK_BYTES_MAX / 10;
            queue.push(letter(number, stream, body), number);
            waiting.push((number, stream, body));
            for _ in 0..taken {
                take(&mut queue, &mut waiting)?;
            }
        }
        while take(&mut queue, &mut waiting)? {
            prop_assert_eq!(queue.is_empty(), waiting.is_empty());
        }
        prop_assert!(waiting.is_empty());
        prop_assert_eq!((queue.short_bytes, queue.long_bytes, queue.behind.len()), (0, 0, 0));
    }
}
