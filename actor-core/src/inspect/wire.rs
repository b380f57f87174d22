//! Questions and answers as bytes. The bytes of the other side are hostile until they are checked.

use std::io;
use std::time::Instant;

use super::table::InspectTable;
use super::topic::InspectTopic;
use crate::platform::inspect_socket::InspectStream;

/// The version of questions and answers. Raised whenever they change, also when a topic is added.
pub(super) const PROTOCOL: u32 = 1;
/// The version of selvedge, which people can compare.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The length of an answer that nobody sends or reads beyond. A hostile one of this length is decoded to 32 times as many bytes at most: a
/// byte of it can be a value of a row.
pub(super) const BODY_BYTES_MAX: usize = 8 << 20;

const MAGIC: [u8; 8] = *b"selvedge";
/// The length of a question, and of the head of an answer.
const HEAD_BYTES: usize = 24;
/// The bytes of an answer that are read at once. Memory is taken as bytes come.
const CHUNK_BYTES: usize = 64 << 10;

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InspectQuestion {
    pub(super) topic: InspectTopic,
    pub(super) rows_max: u64,
}

/// A question that gets no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAsked {
    /// Bytes of something else.
    Garbled,
    /// A question of another version.
    OtherVersion,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InspectReply {
    Table(InspectTable),
    /// The asker is another user.
    Stranger,
    /// The question is of another version than this one, which the text names.
    OtherVersion(String),
    /// The bytes are no answer, for this reason.
    Garbled(&'static str),
}

fn head(status: u32, third: u64) -> [u8; HEAD_BYTES] {
    let numbers = MAGIC
        .into_iter()
        .chain(PROTOCOL.to_le_bytes())
        .chain(status.to_le_bytes())
        .chain(third.to_le_bytes());
    let mut head = [0; HEAD_BYTES];
    head.iter_mut().zip(numbers).for_each(|(to, from)| *to = from);
    head
}

/// The magic number is right: the protocol, the second number and the third.
fn of_head(bytes: &[u8; HEAD_BYTES]) -> Option<(u32, u32, u64)> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (protocol, rest) = rest.split_first_chunk::<4>()?;
    let (second, rest) = rest.split_first_chunk::<4>()?;
    let third = rest.first_chunk::<8>()?;
    (*magic == MAGIC).then_some((
        u32::from_le_bytes(*protocol),
        u32::from_le_bytes(*second),
        u64::from_le_bytes(*third),
    ))
}

impl InspectQuestion {
    pub(super) fn send(self, stream: &InspectStream, deadline: Instant) -> io::Result<()> {
        stream.write_until(&head(self.topic.number(), self.rows_max), deadline)
    }

    pub(super) fn receive(
        stream: &InspectStream,
        deadline: Instant,
    ) -> io::Result<Result<InspectQuestion, NotAsked>> {
        let mut bytes = [0; HEAD_BYTES];
        stream.read_until(&mut bytes, deadline)?;
        Ok(InspectQuestion::of_bytes(&bytes))
    }

    fn of_bytes(bytes: &[u8; HEAD_BYTES]) -> Result<InspectQuestion, NotAsked> {
        let (protocol, topic, rows_max) = of_head(bytes).ok_or(NotAsked::Garbled)?;
        let topic = InspectTopic::of_number(topic).filter(|_| protocol == PROTOCOL);
        let topic = topic.ok_or(NotAsked::OtherVersion)?;
        Ok(InspectQuestion { topic, rows_max })
    }
}

impl InspectReply {
    pub(super) fn send(&self, stream: &InspectStream, deadline: Instant) -> io::Result<()> {
        let (status, body) = match self {
            InspectReply::Table(table) => (0, encoded(table)?),
            InspectReply::Stranger => (1, Vec::new()),
            InspectReply::OtherVersion(version) => (2, version.clone().into_bytes()),
            InspectReply::Garbled(_) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        stream.write_until(&head(status, body.len() as u64), deadline)?;
        stream.write_until(&body, deadline)
    }

    pub(super) fn receive(stream: &InspectStream, deadline: Instant) -> io::Result<InspectReply> {
        let mut bytes = [0; HEAD_BYTES];
        stream.read_until(&mut bytes, deadline)?;
        let Some((protocol, status, length)) = of_head(&bytes) else {
            return Ok(InspectReply::Garbled("it begins with something else"));
        };
        let Some(length) = usize::try_from(length).ok().filter(|it| *it <= BODY_BYTES_MAX) else {
            return Ok(InspectReply::Garbled("it is too long"));
        };
        let body = body(stream, length, deadline)?;
        Ok(InspectReply::of_body(protocol, status, body))
    }

    fn of_body(protocol: u32, status: u32, body: Vec<u8>) -> InspectReply {
        match status {
            // Refusals have one form in all versions.
            1 => InspectReply::Stranger,
            2 => {
                let version = String::from_utf8_lossy(&body);
                InspectReply::OtherVersion(version.chars().filter(|it| !it.is_control()).take(40).collect())
            }
            0 if protocol == PROTOCOL => match postcard::from_bytes::<InspectTable>(&body) {
                Ok(table) if table.is_whole() => InspectReply::Table(table),
                Ok(_) => InspectReply::Garbled("a row has not as many values as there are columns"),
                Err(_) => InspectReply::Garbled("its rows cannot be decoded"),
            },
            _ => InspectReply::Garbled("its kind is unknown"),
        }
    }
}

fn body(stream: &InspectStream, length: usize, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    while body.len() < length {
        let mut chunk = vec![0; CHUNK_BYTES.min(length - body.len())];
        stream.read_until(&mut chunk, deadline)?;
        body.append(&mut chunk);
    }
    Ok(body)
}

/// The bytes of a table, with fewer rows if they were too many bytes.
fn encoded(table: &InspectTable) -> io::Result<Vec<u8>> {
    let encode = |table: &InspectTable| postcard::to_stdvec(table).map_err(io::Error::other);
    let mut body = encode(table)?;
    let mut shorter = None;
    while body.len() > BODY_BYTES_MAX {
        let table = shorter.get_or_insert_with(|| table.clone());
        let kept = table.rows.len() / 2;
        table.left_out += (table.rows.len() - kept) as u64;
        table.rows.truncate(kept);
        body = encode(table)?;
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::inspect::table::InspectValue;

    #[test]
    fn a_question_of_another_version_or_topic_is_told_from_bytes_of_something_else() {
        let mut bytes = head(2, 7);
        let topic = InspectTopic::Calls;
        assert_eq!(
            InspectQuestion::of_bytes(&bytes),
            Ok(InspectQuestion { topic, rows_max: 7 })
        );
        assert_eq!(
            InspectQuestion::of_bytes(&head(99, 7)),
            Err(NotAsked::OtherVersion),
            "a later topic"
        );
        bytes[8] += 1;
        assert_eq!(InspectQuestion::of_bytes(&bytes), Err(NotAsked::OtherVersion));
        bytes[0] += 1;
        assert_eq!(InspectQuestion::of_bytes(&bytes), Err(NotAsked::Garbled));
    }

    #[test]
    fn a_table_that_is_too_long_loses_rows_and_says_how_many() {
        let text = InspectValue::Text("x".repeat(BODY_BYTES_MAX / 6));
        let table = InspectTable::of(&["text"], std::iter::repeat_n(vec![text], 10), 10, 0);
        let body = encoded(&table).unwrap();
        assert!(body.len() <= BODY_BYTES_MAX);
        let InspectReply::Table(read) = InspectReply::of_body(PROTOCOL, 0, body) else {
            panic!("no table");
        };
        assert_eq!((read.rows.len(), read.left_out), (5, 5));
    }

    proptest! {
        #[test]
        fn hostile_bytes_are_a_table_or_a_typed_answer(body: Vec<u8>, status in 0..4_u32, head: [u8; HEAD_BYTES]) {
            let _ = InspectQuestion::of_bytes(&head);
            if let InspectReply::Table(table) = InspectReply::of_body(PROTOCOL, status, body) {
                prop_assert!(table.is_whole());
            }
        }
    }
}
