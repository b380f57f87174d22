//! Promises about frames.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc
)] // tests that other crates run

use tokio::join;

use super::streams::{run, sample, stream};
use crate::frame::{Class, Frame, Service};
use crate::net::frames::{FrameReader, FrameSender, FrameSettings, FrameWriter, over};
use crate::net::transport::{Halves, Transport};

/// The frame of a sender, by number.
pub(super) fn frame(sender: u16, number: u64, head: Vec<u8>, parts: Vec<Vec<u8>>) -> Frame {
    Frame {
        service: Service(sender),
        class: Class::Ordered,
        sequence: number,
        acknowledged: 0,
        head: head.into(),
        parts: parts.into(),
    }
}

fn frames(halves: Halves, queue_bytes_max: u32) -> (FrameSender<Vec<u8>>, FrameReader, FrameWriter<Vec<u8>>) {
    let settings = FrameSettings {
        queue_bytes_max,
        ..FrameSettings::default()
    };
    over("the contract's link".into(), halves, Vec::new(), settings)
}

/// Frames of no bytes, of many parts and of megabytes arrive as they were sent, and then the end.
pub fn frames_of_any_length_arrive_whole<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    let many = (0..4096).map(|part| sample(part % 3, 6)).collect();
    let sent = [
        frame(1, 1, Vec::new(), Vec::new()),
        frame(1, 2, sample(1, 7), Vec::new()),
        frame(1, 3, Vec::new(), vec![Vec::new()]),
        frame(
            1,
            4,
            sample(100_000, 8),
            vec![sample(65_535, 9), Vec::new(), sample(65_537, 10)],
        ),
        frame(1, 5, sample(9, 11), vec![sample(16 << 20, 12), sample(1, 13)]),
        frame(1, 6, Vec::new(), many),
    ];
    run(async {
        let (near, far) = stream(&transport).await;
        let (sender, _reader, writer) = frames(near, 1 << 20);
        let (_sender, mut reader, _writer) = frames(far, 1 << 20);
        let send = async {
            for frame in &sent {
                sender.send(frame.clone()).await.unwrap();
            }
            drop(sender);
        };
        let read = async {
            for frame in &sent {
                let read = reader.next().await.unwrap();
                assert!(read.as_ref() == Some(frame), "frame {} differs", frame.sequence);
            }
            assert_eq!(reader.next().await.unwrap(), None, "the end of the direction");
        };
        let ((), written, ()) = join!(send, writer.run(), read);
        written.unwrap();
    });
}

/// Each frame of several senders arrives as one piece, and the frames of each sender in order.
pub fn frames_of_concurrent_senders_do_not_mix<T: Transport>(make: &impl Fn() -> T) {
    const SENDERS: u16 = 8;
    const FRAMES: u64 = 200;
    let transport = make();
    run(async {
        let (near, far) = stream(&transport).await;
        // The queue has room for few frames, so senders wait.
        let (sender, _reader, writer) = frames(near, 20_000);
        let (_sender, mut reader, _writer) = frames(far, 20_000);
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..SENDERS {
            let sender = sender.clone();
            tasks.spawn(async move {
                for sequence in 0..FRAMES {
                    let part = vec![number as u8; (sequence as usize * 97 + usize::from(number)) % 9000];
                    let frame = frame(number, sequence, sequence.to_le_bytes().to_vec(), vec![part]);
                    sender.send(frame).await.unwrap();
                }
            });
        }
        drop(sender);
        tasks.spawn(async { writer.run().await.unwrap() });
        let mut next = [0; SENDERS as usize];
        while let Some(read) = reader.next().await.unwrap() {
            let number = usize::from(read.service.0);
            assert_eq!(read.sequence, next[number], "the order of sender {number}");
            next[number] += 1;
            assert_eq!(read.head[..], read.sequence.to_le_bytes());
            assert_eq!(read.parts[0].len(), (read.sequence as usize * 97 + number) % 9000);
            assert!(read.parts[0].iter().all(|byte| usize::from(*byte) == number));
        }
        assert_eq!(next, [FRAMES; SENDERS as usize]);
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
}
