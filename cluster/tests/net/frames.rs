//! Frames over links.

use std::future::Future;
use std::task::{Context, Poll, Waker};

use selvedge_cluster::frame::{Frame, FrameError};
use selvedge_cluster::handshake::Role;
use selvedge_cluster::net::{
    FrameReader, FrameSender, FrameSettings, FrameWriter, Halves, LinkCause, LinkError, Refused, SendError,
    answer, bridge, introduce,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;

use crate::support::{bytes, frame, identity, run, welcome};

type Frames = (FrameSender<Vec<u8>>, FrameReader, FrameWriter<Vec<u8>>);

/// Frames over a link in memory that holds so many bytes, and the bare stream at the other end.
async fn frames(room: usize, queue_bytes_max: u32) -> (Frames, Halves) {
    let (near, far) = bridge(room);
    let (head, worker) = (identity(Role::Head), identity(Role::Worker));
    let admitted = async {
        let arrival = answer(far, "the worker", &head).await.unwrap();
        arrival.welcome(&welcome()).await.unwrap()
    };
    let (far, near) = join!(admitted, introduce(near, "the head", &worker));
    let settings = FrameSettings {
        queue_bytes_max,
        ..FrameSettings::default()
    };
    (near.unwrap().frames(settings), far.halves)
}

/// Polls a future once, and drops it.
fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
    let future = std::pin::pin!(future);
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn error(refused: Refused<Vec<u8>>) -> LinkError {
    match refused.why {
        SendError::Ended(error) => *error,
        other => panic!("{other}"),
    }
}

/// NET-4.
#[test]
fn jtran_02_whole_frames_are_read_although_waits_are_given_up() {
    run(async {
        let ((_sender, mut reader, _writer), mut far) = frames(7, 100).await;
        let sent: Vec<Frame> = (0..20)
            .map(|number| frame(number, vec![number as u8; 200_000 >> number]))
            .collect();
        let all: Vec<u8> = sent.iter().flat_map(bytes).collect();
        let mut rest = &all[..];
        let (mut read, mut given_up) = (Vec::new(), 0);
        while read.len() < sent.len() {
            let written = poll_once(far.writer.write(rest)).map(Result::unwrap);
            if let Poll::Ready(written) = written {
                rest = &rest[written..];
            }
            match poll_once(reader.next()) {
                Poll::Ready(frame) => read.push(frame.unwrap().unwrap()),
                Poll::Pending => given_up += 1,
            }
            // The runtime lets a task read so much at a time.
            tokio::task::yield_now().await;
        }
        assert!(read == sent, "frames differ");
        assert!(given_up > 10_000, "{given_up} waits were given up");
    });
}

/// NET-3.
#[test]
fn jtran_03_a_send_that_is_given_up_leaves_no_part_of_a_frame() {
    run(async {
        let ((sender, _reader, writer), mut far) = frames(7, 1000).await;
        let mut queued = Vec::new();
        for number in 0..100 {
            let frame = frame(number, vec![number as u8; 300]);
            if poll_once(sender.send(frame.clone())).is_ready() {
                queued.push(frame);
            }
        }
        assert_eq!(queued.len(), 2, "room for two");
        let last = frame(100, vec![9; 5000]);
        let send = async {
            sender.send(last.clone()).await.unwrap();
            drop(sender);
        };
        let mut read = Vec::new();
        let (_, written, _) = join!(send, writer.run(), far.reader.read_to_end(&mut read));
        written.unwrap();
        queued.push(last);
        assert!(
            read == queued.iter().flat_map(bytes).collect::<Vec<_>>(),
            "the bytes of these frames, and no others"
        );
    });
}

/// NET-2.
#[test]
fn a_full_queue_gives_the_frame_back_until_there_is_room() {
    run(async {
        let ((sender, _reader, writer), mut far) = frames(7, 1000).await;
        // A frame that is longer than the queue has it alone.
        let long = frame(1, vec![1; 3000]);
        sender.try_send(long.clone()).unwrap();
        let short = frame(2, vec![2; 10]);
        let refused = sender.try_send(short.clone()).unwrap_err();
        assert_eq!(
            refused.why,
            SendError::Full {
                queued: 1000,
                limit: 1000
            }
        );
        assert_eq!(refused.frame, short);
        let mut writer = std::pin::pin!(writer.run());
        let mut read = vec![0; bytes(&long).len()];
        tokio::select! {
            biased;
            ended = &mut writer => panic!("{ended:?}"),
            read = far.reader.read_exact(&mut read) => drop(read.unwrap()),
        }
        assert!(poll_once(&mut writer).is_pending());
        sender.try_send(refused.frame).unwrap();
        drop(sender);
        read.clear();
        let (written, _) = join!(writer, far.reader.read_to_end(&mut read));
        written.unwrap();
        assert_eq!(read, bytes(&short));
    });
}

#[test]
fn a_frame_above_a_limit_is_given_back() {
    run(async {
        let ((sender, _reader, _writer), _far) = frames(7, 1000).await;
        let long = Frame {
            head: vec![0; 2 << 20].into(),
            ..frame(1, vec![])
        };
        let refused = sender.send(long.clone()).await.unwrap_err();
        assert!(matches!(
            refused.why,
            SendError::Frame(FrameError::HeadTooLong { .. })
        ));
        assert_eq!(refused.frame, long);
    });
}

/// NET-5: nobody waits for a peer that is gone.
#[test]
fn every_wait_ends_when_the_peer_dies() {
    run(async {
        let ((sender, mut reader, writer), far) = frames(7, 1000).await;
        sender.try_send(frame(1, vec![0; 2000])).unwrap();
        let death = async {
            tokio::task::yield_now().await;
            drop(far);
        };
        let (sent, written, read, ()) = join!(
            sender.send(frame(2, vec![0; 2000])),
            writer.run(),
            reader.next(),
            death
        );
        let lost = error(sent.unwrap_err());
        assert!(
            matches!(lost.cause, LinkCause::Lost { .. }) && &*lost.link == "the head",
            "{lost}"
        );
        assert_eq!(written.unwrap_err(), lost);
        // The end of the peer's direction was seen, or that of the link.
        assert!(matches!(read, Ok(None) | Err(_)), "{read:?}");
        assert_eq!(error(sender.try_send(frame(3, vec![])).unwrap_err()), lost);
    });
}

#[test]
fn every_wait_ends_when_the_link_is_closed_on_this_side() {
    run(async {
        let ((sender, mut reader, writer), mut far) = frames(7, 1000).await;
        sender.try_send(frame(1, vec![0; 2000])).unwrap();
        let close = async {
            tokio::task::yield_now().await;
            sender.close();
        };
        let (sent, written, read, ()) = join!(
            sender.send(frame(2, vec![0; 2000])),
            writer.run(),
            reader.next(),
            close
        );
        let causes = [error(sent.unwrap_err()), written.unwrap_err(), read.unwrap_err()];
        assert!(
            causes.iter().all(|error| error.cause == LinkCause::Closed),
            "{causes:?}"
        );
        drop(reader);
        let mut rest = Vec::new();
        far.reader.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() < 2000, "the frame was cut");
        assert!(far.writer.write_all(&[0; 8]).await.is_err());
    });
}

/// A writer that is not run yet holds nobody up.
#[test]
fn a_send_ends_with_the_link_although_nobody_writes() {
    run(async {
        let ((sender, _reader, _writer), _far) = frames(7, 1000).await;
        sender.try_send(frame(1, vec![0; 2000])).unwrap();
        let close = async {
            tokio::task::yield_now().await;
            sender.close();
        };
        let (sent, ()) = join!(sender.send(frame(2, vec![])), close);
        assert_eq!(error(sent.unwrap_err()).cause, LinkCause::Closed);
        assert_eq!(
            error(sender.try_send(frame(3, vec![])).unwrap_err()).cause,
            LinkCause::Closed
        );
    });
}

#[test]
fn a_writer_that_is_dropped_closes_the_link() {
    run(async {
        let ((sender, mut reader, writer), _far) = frames(7, 1000).await;
        let (read, ()) = join!(reader.next(), async { drop(writer) });
        assert_eq!(read.unwrap_err().cause, LinkCause::Closed);
        assert_eq!(
            error(sender.send(frame(1, vec![])).await.unwrap_err()).cause,
            LinkCause::Closed
        );
    });
}

#[test]
fn the_end_of_the_peers_direction_is_told_behind_its_last_frame() {
    run(async {
        let ((sender, mut reader, writer), mut far) = frames(1000, 1000).await;
        far.writer.write_all(&bytes(&frame(1, vec![1; 9]))).await.unwrap();
        drop(far.writer);
        assert_eq!(reader.next().await.unwrap(), Some(frame(1, vec![1; 9])));
        assert_eq!(reader.next().await.unwrap(), None);
        // This direction goes on.
        sender.try_send(frame(2, vec![2; 9])).unwrap();
        drop(sender);
        writer.run().await.unwrap();
        let mut read = Vec::new();
        far.reader.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, bytes(&frame(2, vec![2; 9])));
    });
}

/// The first cause counts, for everybody.
#[test]
fn a_peer_that_sends_no_frames_or_half_a_frame_ends_the_link() {
    let whole = bytes(&frame(1, vec![1; 100]));
    let noise = [whole.clone(), vec![9; 60]].concat();
    let half = [whole.clone(), whole[..whole.len() - 1].to_vec()].concat();
    for bytes in [noise, half] {
        run(async {
            let ((sender, mut reader, writer), mut far) = frames(1000, 1000).await;
            far.writer.write_all(&bytes).await.unwrap();
            drop(far.writer);
            assert_eq!(reader.next().await.unwrap(), Some(frame(1, vec![1; 100])));
            let ended = reader.next().await.unwrap_err();
            match &ended.cause {
                LinkCause::Frame(FrameError::Magic { .. }) => assert_eq!(bytes.len(), whole.len() + 60),
                LinkCause::Torn => assert_eq!(bytes.len(), 2 * whole.len() - 1),
                other => panic!("{other}"),
            }
            sender.close();
            assert_eq!(writer.run().await.unwrap_err(), ended);
            assert_eq!(error(sender.try_send(frame(2, vec![])).unwrap_err()), ended);
        });
    }
}
