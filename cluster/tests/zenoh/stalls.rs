//! Peers that take nothing, and strangers at the router.

use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use zenoh::{Config, Session, Wait};

use selvedge_cluster::net::{Halves, Transport, ZenohRouter};

use crate::routers::{pair, router, run, session};

/// More bytes than all queues on the way hold.
const BYTES: usize = 16 << 20;

/// A session of somebody who is no process of ours.
fn stranger(router: &ZenohRouter) -> Session {
    let mut config = Config::default();
    let endpoints = format!("[\"{}\"]", router.endpoints()[0]);
    for (path, value) in [
        ("mode", "\"client\""),
        ("scouting/multicast/enabled", "false"),
        ("connect/endpoints", &endpoints),
    ] {
        config.insert_json5(path, value).unwrap();
    }
    zenoh::open(config).wait().unwrap()
}

/// Sends many bytes one way.
async fn talk(mut near: Halves, mut far: Halves) {
    let bytes: Vec<u8> = (0..BYTES).map(|place| (place >> 9) as u8).collect();
    let write = async {
        near.writer.write_all(&bytes).await.unwrap();
        near.writer.shutdown().await.unwrap();
    };
    let read = async {
        let mut read = Vec::new();
        far.reader.read_to_end(&mut read).await.unwrap();
        read
    };
    let ((), read) = tokio::join!(write, read);
    assert!(read == bytes, "what was read differs");
}

#[test]
fn a_subscriber_that_stalls_does_not_disturb_the_peers() {
    let router = router();
    let stranger = stranger(&router);
    let (release, held) = channel::<()>();
    let (seen, is_seen) = channel();
    let held = std::sync::Mutex::new(held);
    let stalled = stranger.declare_subscriber("selvedge/**").callback(move |_| {
        let _ = seen.send(());
        // Until the test is over.
        let _ = held.lock().unwrap().recv();
    });
    let stalled = stalled.wait().unwrap();
    let (listens, dials) = (session(&router), session(&router));
    run(async {
        let (near, far) = pair(&listens, &dials).await;
        talk(near, far).await;
    });
    is_seen.recv().unwrap();
    drop(release);
    drop(stalled);
    stranger.close().wait().unwrap();
}

#[test]
fn a_stream_that_nobody_reads_stops_its_writer_and_no_other_stream() {
    let router = router();
    let (listens, dials) = (session(&router), session(&router));
    run(async {
        let (mut near, far) = pair(&listens, &dials).await;
        let bytes = vec![1; 64 << 10];
        let stuck = async {
            loop {
                near.writer.write_all(&bytes).await.unwrap();
            }
        };
        let (other_near, other_far) = pair(&listens, &dials).await;
        tokio::select! {
            () = stuck => unreachable!(),
            () = talk(other_near, other_far) => {}
        }
        drop(far);
    });
}

#[test]
fn strangers_at_the_router_disturb_nobody() {
    let router = router();
    let stranger = stranger(&router);
    let (listens, dials) = (session(&router), session(&router));
    run(async {
        let mut acceptor = listens.listen().await.unwrap();
        let place = acceptor.connect_at().to_owned();
        let (node, listener) = place.split_once('.').unwrap();
        let key = format!("selvedge/default/{node}");
        let listener = u64::from_str_radix(listener, 16).unwrap();
        for number in 0..2000_u64 {
            // Dialers that say nothing more, words for streams that are not there, and noise.
            let kind = [1, 2, 3, 9][number as usize % 4];
            let mut packet = vec![1, kind, 0];
            packet.extend([7; 16]);
            packet.extend(number.to_le_bytes());
            packet.extend(listener.to_le_bytes());
            packet.extend(vec![0xFF; number as usize % 50]);
            stranger.put(&key, packet).wait().unwrap();
        }
        stranger.put(&key, vec![1; 1 << 20]).wait().unwrap();
        // The strangers are in front of whoever is not one.
        let accept = async {
            loop {
                let far = crate::routers::accept(&mut *acceptor).await;
                tokio::spawn(async move { talk_back(far).await });
            }
        };
        let dial = async {
            let mut near = dials.connect(&crate::routers::to(&place)).await.unwrap();
            near.writer.write_u8(5).await.unwrap();
            assert_eq!(near.reader.read_u8().await.unwrap(), 5);
        };
        tokio::select! {
            () = accept => unreachable!(),
            () = dial => {}
        }
    });
    stranger.close().wait().unwrap();
}

/// A packet by which a stranger dials a listener.
fn open(stranger: u64, listener: u64) -> Vec<u8> {
    let mut packet = vec![1, 1, 0];
    packet.extend([9; 16]);
    packet.extend(stranger.to_le_bytes());
    packet.extend(listener.to_le_bytes());
    packet
}

#[test]
fn dialers_that_say_nothing_more_leave_no_task_once_they_are_left() {
    let router = router();
    let stranger = stranger(&router);
    let listens = session(&router);
    run(async {
        let mut acceptor = listens.listen().await.unwrap();
        let (node, listener) = acceptor.connect_at().split_once('.').unwrap();
        let key = format!("selvedge/default/{node}");
        let listener = u64::from_str_radix(listener, 16).unwrap();
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for number in 0..1000_u64 {
            // The router may drop a packet.
            loop {
                stranger.put(&key, open(number, listener)).wait().unwrap();
                let accepted = crate::routers::accept(&mut *acceptor);
                if tokio::time::timeout(Duration::from_millis(500), accepted)
                    .await
                    .is_ok()
                {
                    break;
                }
            }
        }
        // Sooner than a peer that is silent counts as lost.
        let settled = async {
            while tasks() > before {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let settled = tokio::time::timeout(Duration::from_secs(20), settled).await;
        assert!(settled.is_ok(), "{} tasks are left, of {before}", tasks());
    });
    stranger.close().wait().unwrap();
}

async fn talk_back(mut far: Halves) {
    if let Ok(byte) = far.reader.read_u8().await {
        far.writer.write_u8(byte).await.unwrap();
        // The end of the stream, so that it is not cut before it is read.
        let _ = far.reader.read_u8().await;
    }
}
