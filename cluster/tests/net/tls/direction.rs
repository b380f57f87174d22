//! The end of a direction of TLS, which takes bytes of its own.

use std::io::ErrorKind;
use std::time::Duration;

use selvedge_cluster::net::{Bridge, Halves, PeerNames, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::join;
use tokio::time::timeout;

use super::Lab;
use crate::support::{accept, at, run_in_virtual_time};

async fn stream(transport: &dyn Transport) -> (Halves, Halves) {
    let mut acceptor = transport.listen().await.unwrap();
    let to = at(acceptor.connect_at());
    let (near, far) = join!(transport.connect(&to), accept(&mut *acceptor));
    (near.unwrap(), far)
}

#[test]
fn a_direction_that_is_dropped_while_it_is_full_ends_in_an_error_and_leaves_the_other() {
    run_in_virtual_time(async {
        let transport = Lab::new().transport(Bridge::new(1000), PeerNames::Any);
        let (mut near, mut far) = stream(&transport).await;
        let bytes = vec![7; 1 << 20];
        let waits = timeout(Duration::from_secs(1), near.writer.write_all(&bytes)).await;
        assert!(waits.is_err(), "nobody reads");
        drop(near.writer);
        let mut read = Vec::new();
        let torn = far.reader.read_to_end(&mut read).await.unwrap_err();
        assert_eq!(torn.kind(), ErrorKind::UnexpectedEof);
        assert!(read.len() < bytes.len());

        let write = async {
            far.writer.write_all(&bytes).await.unwrap();
            drop(far.writer);
        };
        let mut back = Vec::new();
        let ((), end) = join!(write, near.reader.read_to_end(&mut back));
        assert!(
            end.is_err() || back == bytes,
            "bytes are missing, and nobody is told"
        );
    });
}

/// What one session says binds no other.
#[test]
fn both_ends_of_a_stream_have_one_binding_and_no_other_stream_has_it() {
    run_in_virtual_time(async {
        let transport = Lab::new().transport(Bridge::new(1000), PeerNames::Any);
        let ((near, far), (other, _)) = (stream(&transport).await, stream(&transport).await);
        assert_eq!(near.binding.len(), 32);
        assert_eq!(near.binding, far.binding);
        assert_ne!(near.binding, other.binding);
    });
}
