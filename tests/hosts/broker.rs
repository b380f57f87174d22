//! A transport through a broker: every process has connections to the broker alone, which joins them in pairs.
//!
//! A process that listens tells the broker, and gets a name. Whoever wants to reach it asks the broker for the name, the broker
//! calls the listener, and the listener connects for this call. What is said then goes through the broker in both directions.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;

use selvedge::hosts::{Accepted, Acceptor, Halves, LinkTransport, PeerInfo, Pending, Transport};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader as AsyncReader};
use tokio::net::TcpStream as AsyncStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use crate::part;

/// The broker, a process of its own, which ends with this object.
pub struct Broker {
    process: Child,
    address: SocketAddr,
}

#[derive(Default)]
struct State {
    /// The connections of the listeners, on which they are called.
    listeners: HashMap<u64, TcpStream>,
    /// Those who wait for a listener, by the number of their call.
    calls: HashMap<u64, TcpStream>,
    last: u64,
}

/// The program of the broker.
#[test]
#[ignore = "a part of the tests of transports"]
fn a_broker() {
    if std::env::var_os("SELVEDGE_TEST_DRIVER").is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("broker: {}", listener.local_addr().unwrap());
    let state = Arc::<Mutex<State>>::default();
    for stream in listener.incoming() {
        let (stream, state) = (stream.unwrap(), Arc::clone(&state));
        thread::spawn(move || drop(serve(stream, &state)));
    }
}

impl Broker {
    pub fn start() -> Self {
        let mut process = part("broker::a_broker").stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut said = lines.filter_map(|line| line.unwrap().split_once("broker: ")?.1.parse().ok());
        let address = said.next().unwrap();
        Broker { process, address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn transport(&self) -> LinkTransport {
        LinkTransport::own(Brokered::at(self.address))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Reads a line, byte by byte, so that nothing behind it is taken.
fn line(stream: &TcpStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::with_capacity(1, stream).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let asked = line(&stream)?;
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    match asked.split_once(' ') {
        None => {
            let name = {
                let mut state = state.lock().unwrap();
                state.last += 1;
                let name = state.last;
                state.listeners.insert(name, stream.try_clone()?);
                name
            };
            writeln!(stream, "{name}")?;
            // The connection ends with the listener.
            line(&stream)?;
            state.lock().unwrap().listeners.remove(&name);
        }
        Some(("connect", name)) => {
            let mut state = state.lock().unwrap();
            state.last += 1;
            let call = state.last;
            let listener = state.listeners.get_mut(&number(name)?);
            // Whoever asks for a name that nobody has is hung up on.
            writeln!(listener.ok_or(io::ErrorKind::NotFound)?, "{call}")?;
            state.calls.insert(call, stream);
        }
        Some((_, call)) => {
            let caller = state.lock().unwrap().calls.remove(&number(call)?);
            let mut caller = caller.ok_or(io::ErrorKind::NotFound)?;
            writeln!(caller, "joined")?;
            let (there, back) = (caller.try_clone()?, stream.try_clone()?);
            let passing = thread::spawn(move || pass(there, back));
            pass(stream, caller);
            let _ = passing.join();
        }
    }
    Ok(())
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// The transport of a process.
pub struct Brokered(SocketAddr);

impl Brokered {
    pub fn at(broker: SocketAddr) -> Self {
        Brokered(broker)
    }
}

type Stream = (AsyncReader<OwnedReadHalf>, OwnedWriteHalf);

/// A connection to the broker that begins with this line.
async fn ask(broker: SocketAddr, asked: String) -> io::Result<Stream> {
    let stream = AsyncStream::connect(broker).await?;
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.into_split();
    writer.write_all(asked.as_bytes()).await?;
    Ok((AsyncReader::new(reader), writer))
}

async fn answer(reader: &mut AsyncReader<OwnedReadHalf>) -> io::Result<String> {
    let mut answer = String::new();
    match reader.read_line(&mut answer).await? {
        // Nobody has this name: the process has ended.
        0 => Err(io::ErrorKind::ConnectionRefused.into()),
        _ => Ok(answer.trim().to_owned()),
    }
}

impl Transport for Brokered {
    fn name(&self) -> &str {
        "broker"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async {
            let (mut reader, writer) = ask(self.0, format!("connect {}\n", to.connect_at)).await?;
            answer(&mut reader).await?;
            Ok(Halves::new(reader, writer))
        })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        let broker = self.0;
        Box::pin(async move {
            let (mut calls, writer) = ask(broker, "listen\n".to_owned()).await?;
            let connect_at = answer(&mut calls).await?;
            let (sender, accepted) = mpsc::unbounded_channel();
            tokio::spawn(async move {
                let _open = writer;
                while let Ok(call) = answer(&mut calls).await {
                    let stream = ask(broker, format!("accept {call}\n")).await;
                    if sender.send(stream).is_err() {
                        break;
                    }
                }
            });
            let acceptor: Box<dyn Acceptor> = Box::new(Calls { connect_at, accepted });
            Ok(acceptor)
        })
    }
}

struct Calls {
    connect_at: String,
    accepted: mpsc::UnboundedReceiver<io::Result<Stream>>,
}

impl Acceptor for Calls {
    fn connect_at(&self) -> &str {
        &self.connect_at
    }

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        self.accepted.poll_recv(cx).map(|stream| {
            let (reader, writer) = stream.ok_or(io::ErrorKind::BrokenPipe)??;
            Ok(Accepted::new(Halves::new(reader, writer), "the broker"))
        })
    }
}
