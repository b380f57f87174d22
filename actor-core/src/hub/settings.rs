//! The limits and times of links.

use std::time::Duration;

use selvedge_cluster::frame::{FrameLimits, HEADER_BYTES};
use selvedge_cluster::session::SessionSettings;

use super::post::Letter;

/// The limits and times of the links of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkSettings {
    pub(crate) session: SessionSettings,
    /// The bytes of letters that may wait for one peer behind the window.
    pub(crate) backlog_bytes_max: usize,
}

impl Default for LinkSettings {
    /// The window of [`SessionSettings::default`], and 1 GiB behind it. Nothing is sent again by a timer, because a pair of
    /// Unix sockets loses nothing: what it does not deliver, it reports by its end.
    fn default() -> Self {
        LinkSettings {
            session: SessionSettings {
                resend_first: Duration::MAX,
                resend_max: Duration::MAX,
                ..SessionSettings::default()
            },
            backlog_bytes_max: 1 << 30,
        }
    }
}

impl LinkSettings {
    /// The limits of a frame: one letter, which must fit into the window.
    pub(super) fn frame(&self) -> FrameLimits {
        FrameLimits {
            parts_max: 1,
            body_bytes_max: self.letter_bytes_max() as u64,
            ..FrameLimits::default()
        }
    }

    /// The bytes that a letter may have, with the header of its frame.
    pub(super) fn letter_bytes_max(&self) -> usize {
        self.session.bytes_max
    }

    /// The bytes that a head may have.
    pub(super) fn head_bytes_max(&self) -> usize {
        FrameLimits::default().head_bytes_max as usize
    }
}

/// The bytes of a letter's frame, its table of parts aside.
pub(super) fn letter_bytes(letter: &Letter) -> usize {
    HEADER_BYTES + letter.head.len() + letter.body.len()
}
