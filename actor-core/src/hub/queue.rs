//! The letters to one peer that no session has yet, in the order in which they are sent. Plain data.
//!
//! Letters go in the order in which they were accepted, but a long one goes in chunks, and short ones go between these. So a
//! long body holds up a short letter for about one chunk, and takes its place in the order with its last chunk. Letters of one
//! stream, such as a call and its cancellation, never overtake each other (`QUEUE-1`). Long letters go one after the other,
//! so a peer puts one body together at a time (`QUEUE-2`).

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_cluster::frame::{Class, chunk_head};

use super::post::Letter;
use super::settings::letter_bytes;

/// The length of the longest chunk of a body in bytes. A letter with a longer body travels in chunks.
pub(super) const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The letters that no session has yet.
#[derive(Debug, Default)]
pub(super) struct LetterQueue {
    /// The letters in the order in which they were accepted.
    accepted: VecDeque<Queued>,
    /// Long letters, and those that must not overtake them.
    long: VecDeque<Queued>,
    /// Whether a part of the first long letter is sent.
    is_begun: bool,
    /// The bytes of short letters since the last chunk.
    short_bytes: usize,
    /// The next frame's letter, until it is taken.
    next: Option<NextLetter>,
    bytes: usize,
}

#[derive(Debug)]
struct Queued {
    letter: Letter,
    number: u64,
}

/// A letter that fits into a frame: a short one, or a chunk of a long one.
#[derive(Clone, Debug)]
pub(super) struct NextLetter {
    pub(super) letter: Arc<Letter>,
    /// The number of the letter, of which this is all or the end; 0 for a chunk with others behind it, and for a loose letter.
    pub(super) number: u64,
    pub(super) bytes: usize,
}

impl LetterQueue {
    /// Adds a letter under its number.
    pub(super) fn push(&mut self, letter: Letter, number: u64) {
        self.bytes += letter_bytes(&letter);
        self.accepted.push_back(Queued { letter, number });
    }

    /// The bytes of the letters.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The letter of the next frame.
    pub(super) fn next(&mut self) -> Option<&NextLetter> {
        if self.next.is_none() {
            self.next = self.short().or_else(|| self.chunk());
        }
        self.next.as_ref()
    }

    /// Removes the letter of the next frame, which was sent.
    pub(super) fn take(&mut self) {
        if let Some(next) = self.next.take() {
            self.bytes = self.bytes.saturating_sub(next.bytes);
        }
        if self.accepted.is_empty() && self.long.is_empty() {
            self.bytes = 0;
        }
    }

    /// Removes everything. Returns the numbers of the ordered letters that were not sent to their end.
    pub(super) fn clear(&mut self) -> Vec<u64> {
        let next = self.next.take().map(|next| next.number);
        let queued = self.long.drain(..).chain(self.accepted.drain(..));
        let numbers = next.into_iter().chain(queued.map(|queued| queued.number));
        let numbers = numbers.filter(|number| *number > 0).collect();
        self.bytes = 0;
        numbers
    }

    /// The next short letter, unless it is a chunk's turn.
    fn short(&mut self) -> Option<NextLetter> {
        while self.long.is_empty() || self.short_bytes < CHUNK_BYTES_MAX {
            let queued = self.accepted.pop_front()?;
            let is_long = is_long(&queued.letter);
            if is_long || self.is_behind_long(&queued.letter) {
                self.long.push_back(queued);
                continue;
            }
            let bytes = letter_bytes(&queued.letter);
            self.short_bytes += bytes;
            return Some(NextLetter::whole(queued));
        }
        None
    }

    /// The next chunk, or a letter that has come to the front behind the long ones.
    fn chunk(&mut self) -> Option<NextLetter> {
        self.short_bytes = 0;
        let first = self.long.front_mut()?;
        if !self.is_begun && !is_long(&first.letter) {
            return self.long.pop_front().map(NextLetter::whole);
        }
        let letter = &mut first.letter;
        let head = match self.is_begun {
            true => Vec::new(),
            false => chunk_head(letter.body.len(), &letter.head),
        };
        let chunk = Letter {
            class: Class::Chunk,
            head: head.into(),
            body: letter.body.split_to(CHUNK_BYTES_MAX),
            ..*letter
        };
        self.is_begun = !letter.body.is_empty();
        let number = match self.is_begun {
            true => 0,
            false => self.long.pop_front()?.number,
        };
        Some(NextLetter::of(chunk, number))
    }

    fn is_behind_long(&self, letter: &Letter) -> bool {
        let stream = |letter: &Letter| (letter.service, letter.stream);
        letter.class == Class::Ordered
            && self
                .long
                .iter()
                .any(|queued| stream(&queued.letter) == stream(letter))
    }
}

fn is_long(letter: &Letter) -> bool {
    letter.class == Class::Ordered && letter.body.len() > CHUNK_BYTES_MAX
}

impl NextLetter {
    fn whole(queued: Queued) -> Self {
        Self::of(queued.letter, queued.number)
    }

    fn of(letter: Letter, number: u64) -> Self {
        NextLetter {
            bytes: letter_bytes(&letter),
            letter: Arc::new(letter),
            number,
        }
    }
}

#[cfg(test)]
mod tests {
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
        while let Some(next) = queue.next() {
            numbers.push(next.number);
            queue.take();
        }
        assert_eq!(queue.bytes(), 0);
        numbers
    }

    #[test]
    fn a_short_letter_waits_for_one_chunk_of_a_long_one_and_not_for_its_own_stream() {
        let mut queue = LetterQueue::default();
        queue.push(letter(1, 1, 5 * CHUNK_BYTES_MAX), 1);
        queue.push(letter(2, 2, 2 * CHUNK_BYTES_MAX), 2);
        queue.push(letter(3, 1, 10), 3);
        queue.push(letter(4, 3, 10), 4);
        assert_eq!(queue.next().unwrap().number, 4);
        queue.take();
        assert_eq!(queue.next().unwrap().number, 0);
        queue.push(letter(5, 3, 10), 5);
        assert_eq!(queue.next().unwrap().number, 0, "its frame is chosen already");
        queue.take();
        assert_eq!(queue.next().unwrap().number, 5);
        assert_eq!(drained(&mut queue), [5, 0, 0, 0, 1, 0, 2, 3]);
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
    fn what_is_not_sent_to_its_end_is_told() {
        let mut queue = LetterQueue::default();
        queue.push(letter(1, 1, 2 * CHUNK_BYTES_MAX), 1);
        queue.push(letter(2, 1, 10), 2);
        assert_eq!(queue.next().unwrap().number, 0);
        queue.take();
        assert_eq!(queue.clear(), [1, 2]);
        queue.push(letter(3, 1, 10), 3);
        assert_eq!(queue.next().unwrap().number, 3);
        assert_eq!(queue.clear(), [3]);
        assert_eq!((queue.bytes(), queue.next().is_none()), (0, true));
    }

    proptest! {
        #[test]
        fn queue_1_queue_2_streams_keep_their_order_and_bodies_are_whole(
            letters in proptest::collection::vec((0_u64..3, 0_usize..40, any::<bool>()), 0..12),
        ) {
            let (mut queue, mut ends, mut chunks) = (LetterQueue::default(), Vec::new(), 0);
            let of = |number: usize| {
                let (stream, tenths, _) = letters[number - 1];
                (stream, tenths * CHUNK_BYTES_MAX / 10)
            };
            for (number, (.., is_taken)) in (1..).zip(&letters) {
                let (stream, body) = of(number);
                queue.push(letter(number as u64, stream, body), number as u64);
                let mut left = usize::from(*is_taken);
                while left > 0 && let Some(next) = queue.next() {
                    (ends, left) = ([ends, vec![next.clone()]].concat(), left - 1);
                    queue.take();
                }
            }
            while let Some(next) = queue.next() {
                ends.push(next.clone());
                queue.take();
            }
            let mut order = Vec::new();
            for NextLetter { letter, number, .. } in ends {
                if letter.class == Class::Chunk {
                    chunks += letter.body.len();
                    if number > 0 {
                        prop_assert_eq!(chunks, of(number as usize).1, "QUEUE-2");
                        chunks = 0;
                    }
                }
                order.extend((number > 0).then_some(number as usize));
            }
            prop_assert_eq!(order.len(), letters.len());
            for stream in 0..3 {
                let of_stream: Vec<usize> = order.iter().copied().filter(|number| of(*number).0 == stream).collect();
                prop_assert!(of_stream.is_sorted(), "QUEUE-1: {:?}", of_stream);
            }
        }
    }
}
