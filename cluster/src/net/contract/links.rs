//! Promises about links.
#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc)] // tests that other crates run

use tokio::io::AsyncReadExt;
use tokio::join;

use super::streams::{connected, run, sample, write};
use crate::handshake::{Cookie, Hello, Identity, Role, Welcome};
use crate::net::authenticate::dial;
use crate::net::listener::Listener;
use crate::net::transport::{PeerInfo, Transport};
use crate::peer::ProcessId;
use crate::platform::descriptors;

fn identity(role: Role) -> Identity {
    Identity {
        hello: Hello::new("contract", "one", 1, role),
        cookie: Cookie::new([1; 32]),
        binding: Vec::new(),
    }
}

/// The handshake succeeds over a stream, and the bytes directly behind it arrive.
pub fn links_are_authenticated<T: Transport>(make: &impl Fn() -> T) {
    let transport = make();
    let sent = sample(100_000, 6);
    run(async {
        let mut listener = Listener::bind(&transport, identity(Role::Worker)).await.unwrap();
        let (process, connect_at) = (ProcessId::HEAD, listener.connect_at().to_owned());
        let peer = process.first_life();
        let welcome = Welcome {
            you: peer,
            me: peer,
            note: b"a note".to_vec(),
        };
        let listen = async {
            let arrival = listener.next().await.unwrap();
            assert_eq!(arrival.hello().role, Role::Head);
            let link = arrival.welcome(&welcome).await.unwrap();
            write(link.halves.writer, &sent).await;
            link.halves.reader
        };
        let to = PeerInfo { process, connect_at };
        let head = identity(Role::Head);
        let read = async {
            let mut link = dial(&transport, &to, &head).await.unwrap();
            link.halves.reader.read_to_end(&mut link.beyond).await.unwrap();
            link
        };
        let (_far, near) = join!(listen, read);
        assert_eq!((near.hello.role, &near.welcome), (Role::Worker, &welcome));
        assert!(near.beyond == sent, "what was read differs");
    });
}

/// A thousand links that were opened and closed leave no descriptor behind, where the system counts them.
pub fn many_links_leave_no_descriptor<T: Transport>(make: &impl Fn() -> T) {
    const LINKS: usize = 1000;
    let transport = make();
    run(async {
        let mut acceptor = transport.listen().await.unwrap();
        let before = descriptors::open();
        for _ in 0..LINKS {
            drop(connected(&transport, &mut *acceptor).await);
        }
        if let (Some(before), Some(after)) = (before, descriptors::open()) {
            // Tests beside this one open some and close some.
            assert!(
                after < before + LINKS / 2,
                "{after} descriptors, and {before} before"
            );
        }
    });
}
