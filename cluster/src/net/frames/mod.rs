//! Streams of frames over links.
//!
//! A link becomes three: senders that any task may have, a reader, and a writer that a task of its own runs. They share how
//! the link has ended, the first cause of which counts (`NET-5`).

mod end;
mod reader;
mod sender;
mod writer;

use std::sync::Arc;

use tokio::sync::mpsc;

pub use reader::FrameReader;
pub use sender::{FrameSender, Refused, SendError};
pub use writer::FrameWriter;

use super::transport::Halves;
use crate::frame::FrameLimits;
use end::SharedEnd;

/// The limits of a stream of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSettings {
    /// The limits of each frame, for both directions.
    pub limits: FrameLimits,
    /// The bytes of the frames that wait to be written. A frame that is longer than this waits until it is alone.
    pub queue_bytes_max: u32,
}

impl Default for FrameSettings {
    /// The default limits of frames, and 4 MiB.
    fn default() -> Self {
        FrameSettings {
            limits: FrameLimits::default(),
            queue_bytes_max: 4 << 20,
        }
    }
}

/// The stream of frames over these halves; `beyond` was read of them already.
pub(super) fn over<P>(
    name: Arc<str>,
    halves: Halves,
    beyond: Vec<u8>,
    mut settings: FrameSettings,
) -> (FrameSender<P>, FrameReader, FrameWriter<P>) {
    settings.queue_bytes_max = settings.queue_bytes_max.max(1);
    let (queue, queued) = mpsc::unbounded_channel();
    let end = SharedEnd::new(name, settings.queue_bytes_max);
    (
        FrameSender::new(queue, end.clone(), settings),
        FrameReader::new(halves.reader, beyond, end.clone(), settings),
        FrameWriter::new(halves.writer, queued, end),
    )
}
