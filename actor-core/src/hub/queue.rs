//! The letters to one peer that no session has yet, in the order in which they are sent. Plain data.
//!
//! Letters go in the order in which they were accepted, but a long one goes in chunks, and short ones go between these. So a
//! long body holds up a short letter for about one chunk, and takes its place in the order with its last chunk.
//!
//! - `QUEUE-1`: letters of one stream, such as a call and its cancellation, never overtake each other.
//! - `QUEUE-2`: long letters go one after the other, so a peer puts one body together at a time.
//! - `QUEUE-3`: a chunk goes before a short letter only if that is behind a long one of its own stream, or if a chunk's bytes of
//!   short letters have gone since the last chunk.

use std::collections::VecDeque;

use selvedge_cluster::frame::{CHUNK_HEAD_BYTES, Class, Service, chunk_head};
use selvedge_cluster::id_map::IdMap;

use super::post::Letter;
use super::settings::letter_bytes;

/// The length of the longest chunk of a body in bytes. A letter with a longer body travels in chunks.
pub(super) const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The letters that no session has yet.
#[derive(Debug, Default)]
pub(super) struct LetterQueue {
    /// The letters in the order in which they were accepted.
    accepted: VecDeque<Queued>,
    /// Long letters, one of a stream at most.
    long: VecDeque<Queued>,
    /// Whether a part of the first long letter is sent.
    is_begun: bool,
    /// The streams of which a long letter is still to be sent, each with the letters behind the first.
    behind: IdMap<LetterStream, VecDeque<Queued>>,
    /// Letters that were behind a long one which is sent. They go before what was accepted after them.
    released: VecDeque<Queued>,
    /// The bytes of short letters since the last chunk.
    since_chunk: usize,
    /// A letter that was removed and could not be sent: seldom one, so it has memory of its own.
    put_back: Option<Box<NextLetter>>,
    /// The bytes that wait: of short letters, and of the bodies of long ones.
    short_bytes: usize,
    long_bytes: usize,
}

/// The service of a letter, and the letter's stream in it.
type LetterStream = (Service, u64);

#[derive(Debug)]
struct Queued {
    letter: Letter,
    number: u64,
}

/// A letter that fits into a frame: a short one, or a chunk of a long one.
#[derive(Debug)]
pub(super) struct NextLetter {
    pub(super) letter: Letter,
    /// The number of the letter, of which this is all or the end; 0 for a chunk with others behind it, and for a loose letter.
    pub(super) number: u64,
    pub(super) bytes: usize,
}

impl LetterQueue {
    /// Adds a letter under its number.
    pub(super) fn push(&mut self, letter: Letter, number: u64) {
        *self.bytes_beside(&letter) += weight(&letter);
        self.accepted.push_back(Queued { letter, number });
    }

    /// The bytes that a letter would add to the queue, and those that wait already and share its limit: short letters and
    /// long ones have one each, so that neither take the room of the other.
    pub(super) fn load(&mut self, letter: &Letter) -> (usize, usize) {
        (weight(letter), *self.bytes_beside(letter))
    }

    fn bytes_beside(&mut self, letter: &Letter) -> &mut usize {
        match is_long(letter) {
            true => &mut self.long_bytes,
            false => &mut self.short_bytes,
        }
    }

    /// Whether no letter waits. Those behind a long one of their stream do so while that one waits.
    pub(super) fn is_empty(&self) -> bool {
        self.put_back.is_none()
            && [&self.accepted, &self.long, &self.released]
                .iter()
                .all(|it| it.is_empty())
    }

    /// Removes the letter of the next frame.
    pub(super) fn pop(&mut self) -> Option<NextLetter> {
        let next = match self.put_back.take() {
            Some(put_back) => *put_back,
            None => self.short().or_else(|| self.chunk())?,
        };
        let bytes = self.bytes_beside(&next.letter);
        *bytes = bytes.saturating_sub(weight(&next.letter));
        Some(next)
    }

    /// Takes back the letter that was removed last, because it could not be sent.
    pub(super) fn put_back(&mut self, next: NextLetter) {
        *self.bytes_beside(&next.letter) += weight(&next.letter);
        self.put_back = Some(Box::new(next));
    }

    /// Removes everything, and gives the letters to `spent`. Returns the numbers of the ordered ones that were not sent to their end.
    pub(super) fn clear(&mut self, mut spent: impl FnMut(Letter)) -> Vec<u64> {
        let LetterQueue {
            accepted,
            long,
            behind,
            released,
            put_back,
            ..
        } = std::mem::take(self);
        let behind = behind.into_values().flatten();
        let queued = released.into_iter().chain(long).chain(behind).chain(accepted);
        let put_back = put_back.map(|next| (next.letter, next.number));
        let queued = queued.map(|queued| (queued.letter, queued.number));
        let mut numbers = Vec::new();
        for (letter, number) in put_back.into_iter().chain(queued) {
            spent(letter);
            if number > 0 {
                numbers.push(number);
            }
        }
        numbers
    }

    /// The next short letter, unless it is a chunk's turn.
    fn short(&mut self) -> Option<NextLetter> {
        while self.long.is_empty() || self.since_chunk < CHUNK_BYTES_MAX {
            let short = match self.released.pop_front() {
                Some(released) if is_long(&released.letter) => {
                    self.long.push_back(released);
                    None
                }
                Some(released) => Some(released),
                None => {
                    let accepted = self.accepted.pop_front()?;
                    self.sort(accepted)
                }
            };
            if let Some(queued) = short {
                self.since_chunk += letter_bytes(&queued.letter);
                return Some(NextLetter::of(queued.letter, queued.number));
            }
        }
        None
    }

    /// Puts a letter behind the long one of its stream, or among the long ones. Returns a letter that is short and behind none.
    fn sort(&mut self, queued: Queued) -> Option<Queued> {
        let letter = &queued.letter;
        if letter.class != Class::Ordered {
            return Some(queued);
        }
        let stream = stream(letter);
        if let Some(behind) = self.behind.get_mut(&stream) {
            behind.push_back(queued);
            return None;
        }
        if !is_long(letter) {
            return Some(queued);
        }
        self.behind.insert(stream, VecDeque::new());
        self.long.push_back(queued);
        None
    }

    /// The first long letter of a stream is sent. Releases the letters behind it, up to the next long one.
    fn release(&mut self, stream: LetterStream) {
        let Some(behind) = self.behind.get_mut(&stream) else {
            return;
        };
        while let Some(queued) = behind.pop_front() {
            let is_long = is_long(&queued.letter);
            self.released.push_back(queued);
            if is_long {
                return;
            }
        }
        self.behind.remove(&stream);
    }

    /// The next chunk.
    fn chunk(&mut self) -> Option<NextLetter> {
        self.since_chunk = 0;
        let letter = &mut self.long.front_mut()?.letter;
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
        if !self.is_begun {
            self.release(stream(&chunk));
        }
        Some(NextLetter::of(chunk, number))
    }
}

fn stream(letter: &Letter) -> LetterStream {
    (letter.service, letter.stream)
}

/// Whether a letter goes in chunks, or is one.
pub(super) fn is_long(letter: &Letter) -> bool {
    match letter.class {
        Class::Ordered => letter.body.len() > CHUNK_BYTES_MAX,
        Class::Chunk => true,
        Class::Loose | Class::Acknowledgement => false,
    }
}

/// The bytes of a letter as they count in the queue.
fn weight(letter: &Letter) -> usize {
    match letter.class {
        // The length of the body, which the first chunk's head begins with, counts for nothing.
        Class::Chunk => letter.head.len().saturating_sub(CHUNK_HEAD_BYTES) + letter.body.len(),
        _ if is_long(letter) => letter.head.len() + letter.body.len(),
        _ => letter_bytes(letter),
    }
}

impl NextLetter {
    pub(super) fn of(letter: Letter, number: u64) -> Self {
        NextLetter {
            bytes: letter_bytes(&letter),
            letter,
            number,
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod queue_tests;
