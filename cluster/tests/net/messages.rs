//! A transport of the user's own: a medium that carries messages, and bridges before it.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use selvedge_cluster::handshake::Role;
use selvedge_cluster::net::{
    Accepted, Acceptor, Halves, Link, PeerInfo, Pending, ReadHalf, Transport, WriteHalf, bridge, dial,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::support::{at, first_arrival, identity, listener, run, welcome};

/// The messages that a link holds, and their length at most.
const MESSAGES: usize = 4;
const MESSAGE_BYTES: usize = 1500;

type Mailbox = mpsc::Sender<Halves>;

#[derive(Clone, Default)]
pub(crate) struct Messages {
    mailboxes: Arc<Mutex<HashMap<String, Mailbox>>>,
}

impl Transport for Messages {
    fn name(&self) -> &str {
        "messages"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async {
            let mailbox = self.mailboxes.lock().unwrap().get(&to.connect_at).cloned();
            let mailbox = mailbox.ok_or(io::ErrorKind::ConnectionRefused)?;
            let ((link, near), (other, far)) = (bridge(3000), bridge(3000));
            carry(near.reader, far.writer);
            carry(far.reader, near.writer);
            let sent = mailbox.send(other).await;
            sent.map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(link)
        })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        Box::pin(async {
            let (mailbox, halves) = mpsc::channel(8);
            let mut mailboxes = self.mailboxes.lock().unwrap();
            let connect_at = format!("mailbox {}", mailboxes.len());
            mailboxes.insert(connect_at.clone(), mailbox);
            Ok(Box::new(Mail { connect_at, halves }) as Box<dyn Acceptor>)
        })
    }
}

/// Carries what is read at one process as messages to the other.
fn carry(mut from: ReadHalf, mut to: WriteHalf) {
    let (sender, mut messages) = mpsc::channel::<Vec<u8>>(MESSAGES);
    tokio::spawn(async move {
        loop {
            let mut message = Vec::with_capacity(MESSAGE_BYTES);
            let read = (&mut from)
                .take(MESSAGE_BYTES as u64)
                .read_buf(&mut message)
                .await;
            if !matches!(read, Ok(1..)) || sender.send(message).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some(message) = messages.recv().await {
            if to.write_all(&message).await.is_err() {
                return;
            }
        }
    });
}

struct Mail {
    connect_at: String,
    halves: mpsc::Receiver<Halves>,
}

impl Acceptor for Mail {
    fn connect_at(&self) -> &str {
        &self.connect_at
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let halves = self.halves.poll_recv(cx);
        halves.map(|halves| {
            Ok(Accepted::new(
                halves.ok_or(io::ErrorKind::NotConnected)?,
                "a mailbox",
            ))
        })
    }
}

/// A transport is one type with two functions. It gets the process and the text of its listener, which it alone
/// understands.
#[test]
fn jtran_04_jtran_05_a_transport_over_messages_carries_links() {
    run(async {
        let transport = Messages::default();
        let mut listener = listener(&transport).await;
        let to = at(listener.connect_at());
        let worker = identity(Role::Worker);
        let accepted = async { first_arrival(&mut listener).await.welcome(&welcome()).await };
        let (there, here) = tokio::join!(accepted, dial(&transport, &to, &worker));
        let name = |link: Result<Link, _>| link.unwrap().name.to_string();
        assert_eq!(name(here), "messages to process 3 at mailbox 0");
        assert_eq!(name(there), "messages from a mailbox");
    });
}
