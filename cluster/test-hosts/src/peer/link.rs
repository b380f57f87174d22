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
use selvedge_cluster::frame::{Class, Decoder, Frame, FrameLimits, Service};
use selvedge_cluster::handshake::{Cookie, Hello, Identity, Role, Welcome};
use selvedge_cluster::net::{self, Halves, Link, Listener, PeerInfo, Tcp, WriteHalf};
use selvedge_cluster::peer::ProcessId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
        let peer = ProcessId::HEAD.first_life();
        let welcome = Welcome {
            you: peer,
            me: peer,
            note: Vec::new(),
        };
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
    let (
        Halves {
            mut reader, writer, ..
        },
        mut bytes,
    ) = (link.halves, link.beyond);
    let (to_send, frames) = mpsc::unbounded_channel();
    tokio::spawn(send(writer, frames));
    let mut orders = orders();
    let (mut come, mut awaited) = (0, None);
    let (mut is_open, mut decoder) = (true, Decoder::<Vec<u8>>::new(FrameLimits::default()));
    loop {
        let mut rest = &bytes[..];
        while let Some(frame) = decoder.decode(&mut rest)? {
            come += 1;
            ensure!(
                frame == numbered(come, frame.parts.concat().len()),
                "frame {come} is not as it was sent"
            );
        }
        bytes.clear();
        bytes.reserve(64 << 10);
        if let Some(count) = awaited.take_if(|count| come >= *count) {
            ensure!(come == count, "{come} frames have come, and {count} were sent");
            say(format_args!("have {count}"));
        }
        tokio::select! {
            order = orders.recv() => match order.transpose()? {
                None => return Ok(()),
                Some(Order::Send { count, bytes }) => drop(to_send.send((count, bytes))),
                Some(Order::Await { count }) => awaited = Some(count),
            },
            read = reader.read_buf(&mut bytes), if is_open => match read {
                Ok(0) => {
                    say("ended by the peer");
                    is_open = false;
                }
                Ok(_) => {}
                Err(error) => {
                    say(format_args!("ended: {error}"));
                    is_open = false;
                }
            },
        }
    }
}

/// Sends so many frames with parts of so many bytes, each with the next number.
async fn send(
    mut writer: WriteHalf,
    mut frames: mpsc::UnboundedReceiver<(u64, usize)>,
) -> anyhow::Result<()> {
    let mut sent = 0;
    while let Some((count, bytes)) = frames.recv().await {
        for number in sent + 1..=sent + count {
            let frame = numbered(number, bytes);
            let prefix = frame.prefix(&FrameLimits::default())?;
            // The reader says why the link has ended.
            writer.write_all(&[prefix, frame.parts.concat()].concat()).await?;
        }
        sent += count;
    }
    Ok(())
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
