//! The limits and times of links.

use std::time::Duration;

use selvedge_cluster::frame::{CHUNK_HEAD_BYTES, Class, FrameLimits, HEADER_BYTES};
use selvedge_cluster::session::SessionSettings;

use super::post::{Letter, PostError};

/// The limits and times of the links of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    pub(crate) session: SessionSettings,
    /// The bytes of letters that may wait for one peer behind the window.
    pub(crate) backlog_bytes_max: usize,
    /// The bytes of the longest body.
    pub(crate) body_bytes_max: usize,
}

impl Default for LinkSettings {
    /// The window of [`SessionSettings::default`], 1 GiB behind it, and bodies of 1 GiB. Nothing is sent again by a timer, because a pair of
    /// Unix sockets loses nothing: what it does not deliver, it reports by its end.
    fn default() -> Self {
        LinkSettings {
            session: SessionSettings {
                resend_first: Duration::MAX,
                resend_max: Duration::MAX,
                ..SessionSettings::default()
            },
            backlog_bytes_max: 1 << 30,
            body_bytes_max: 1 << 30,
        }
    }
}

impl LinkSettings {
    /// The limits of a frame: one letter or chunk, which must fit into the window.
    pub(super) fn frame(&self) -> FrameLimits {
        FrameLimits {
            parts_max: 1,
            body_bytes_max: self.letter_bytes_max() as u64,
            ..FrameLimits::default()
        }
    }

    /// The bytes that a frame may have, with its header.
    pub(super) fn letter_bytes_max(&self) -> usize {
        self.session.bytes_max
    }

    /// Holds a letter against the limits.
    ///
    /// # Errors
    /// [`PostError::TooLarge`].
    pub(super) fn check(&self, letter: &Letter) -> Result<(), PostError> {
        let head_limit = FrameLimits::default().head_bytes_max as usize - CHUNK_HEAD_BYTES;
        let whole = match letter.class {
            // It travels in one frame.
            Class::Loose | Class::Acknowledgement => (letter_bytes(letter), self.letter_bytes_max()),
            Class::Ordered | Class::Chunk => (letter.body.len(), self.body_bytes_max),
        };
        let mut lengths = [(letter.head.len(), head_limit), whole].into_iter();
        match lengths.find(|(bytes, limit)| bytes > limit) {
            Some((bytes, limit)) => Err(PostError::TooLarge { bytes, limit }),
            None => Ok(()),
        }
    }
}

/// The bytes of a letter's frame, its table of parts aside.
pub(super) fn letter_bytes(letter: &Letter) -> usize {
    HEADER_BYTES + letter.head.len() + letter.body.len()
}
