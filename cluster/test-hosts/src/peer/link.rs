//! The two ends of a link. Each sends frames and counts those that come, as its input tells it:
//!
//! - `send COUNT BYTES`: send so many frames, each with a part of so many bytes.
//! - `await COUNT`: say `have COUNT` once so many frames have come. A frame that is not the next one, or not as it was sent, is
//!   an error.
//! - The end of the input ends the program.
//!
//! The program says `at ADDRESS` where it listens, `linked` once the other end has proved itself, and `ended WHY` at the end of the link.

use std::io::BufRead;
use std::net::IpAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use selvedge_cluster::frame::{Class, Frame, Service};
use selvedge_cluster::handshake::{Cookie, Hello, Identity, Role, Welcome};
use selvedge_cluster::net::{self, FrameSender, FrameSettings, Link, Listener, PeerInfo, Tcp};
use selvedge_cluster::peer::{Incarnation, Peer, ProcessId};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::say;

const LIMIT: Duration = Duration::from_secs(120);

/// Listens at this address, for one link.
pub(crate) fn listen(address: IpAddr) -> anyhow::Result<()> {
    run(async {
        let mut listener = Listener::bind(&Tcp::on(address), identity(Role::Head)).await?;
        say(format_args!("at {}", listener.connect_at()));
        let peer = Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(1),
        };
        let welcome = Welcome { you: peer, me: peer };
        let link = listener.next().await?.welcome(&welcome).await?;
        // The listener stays, so that the table of sockets shows it.
        talk(link).await
    })
}

/// Dials the process that listens at this address.
pub(crate) fn dial(address: &str) -> anyhow::Result<()> {
    run(async {
        let to = PeerInfo {
            process: ProcessId::HEAD,
            connect_at: address.to_owned(),
        };
        talk(net::dial(&Tcp::loopback(), &to, &identity(Role::Worker)).await?).await
    })
}

/// Runs a program. One that hangs ends with an error, and whoever hears it with it.
fn run(program: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { timeout(LIMIT, program).await })?
}

fn identity(role: Role) -> Identity {
    Identity {
        hello: Hello::new("test hosts", "one", 1, role),
        cookie: Cookie::new([3; 32]),
        binding: Vec::new(),
    }
}

/// An order from the input.
enum Order {
    Send { count: u64, bytes: usize },
    Await { count: u64 },
}

async fn talk(link: Link) -> anyhow::Result<()> {
    say("linked");
    let (sender, mut reader, writer) = link.frames::<Vec<u8>>(FrameSettings::default());
    tokio::spawn(writer.run());
    let mut orders = orders();
    let (mut sent, mut come, mut awaited) = (0, 0, None);
    let mut is_open = true;
    loop {
        tokio::select! {
            order = orders.recv() => match order.transpose()? {
                None => return Ok(()),
                Some(Order::Send { count, bytes }) => {
                    tokio::spawn(send(sender.clone(), sent, count, bytes));
                    sent += count;
                }
                Some(Order::Await { count }) => awaited = Some(count),
            },
            frame = reader.next(), if is_open => match frame {
                Ok(Some(frame)) => {
                    come += 1;
                    ensure!(frame == numbered(come, frame.parts.concat().len()), "frame {come} is not as it was sent");
                }
                Ok(None) => {
                    say("ended by the peer");
                    is_open = false;
                }
                Err(error) => {
                    say(format_args!("ended: {error}"));
                    is_open = false;
                }
            },
        }
        if let Some(count) = awaited.take_if(|count| come >= *count) {
            ensure!(come == count, "{come} frames have come, and {count} were sent");
            say(format_args!("have {count}"));
        }
    }
}

/// Sends frames with the numbers behind `sent`.
async fn send(sender: FrameSender<Vec<u8>>, sent: u64, count: u64, bytes: usize) {
    for number in sent + 1..=sent + count {
        // The reader says why the link has ended.
        if sender.send(numbered(number, bytes)).await.is_err() {
            return;
        }
    }
}

/// The frame with this number.
fn numbered(number: u64, bytes: usize) -> Frame {
    let part = (0..bytes as u64).map(|place| (number.wrapping_mul(31) ^ place.wrapping_mul(7)) as u8);
    Frame {
        service: Service(7),
        class: Class::Ordered,
        sequence: number,
        acknowledged: 0,
        head: number.to_le_bytes()[..].into(),
        parts: [part.collect::<Vec<u8>>()].into(),
    }
}

/// The orders of the input, which a thread reads.
fn orders() -> mpsc::UnboundedReceiver<anyhow::Result<Order>> {
    let (sender, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let order = line.context("the input").and_then(|line| order(&line));
            if sender.send(order).is_err() {
                return;
            }
        }
    });
    orders
}

fn order(line: &str) -> anyhow::Result<Order> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["send", count, bytes] => Ok(Order::Send {
            count: count.parse()?,
            bytes: bytes.parse()?,
        }),
        ["await", count] => Ok(Order::Await {
            count: count.parse()?,
        }),
        _ => bail!("no such order: {line}"),
    }
}
