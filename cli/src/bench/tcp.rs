//! Bare TCP between two processes: the limit of what goes to another host.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

use selvedge::prelude::*;
use serde::{Deserialize, Serialize};

use super::served::{Blocking, connected, serve};
use crate::args::Wait;

/// How both ends of a connection wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Ends {
    /// In the kernel.
    Block,
    /// By looking again and again.
    Spin,
}

/// An end of a connection.
pub(super) struct TcpEnd {
    stream: TcpStream,
    ends: Ends,
}

impl TcpEnd {
    fn of(stream: TcpStream, ends: Ends) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(ends == Ends::Spin)?;
        Ok(TcpEnd { stream, ends })
    }

    /// Repeats an operation until it is done, if the end spins.
    fn done<T>(&mut self, mut act: impl FnMut(&mut TcpStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            match act(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock && self.ends == Ends::Spin => {
                    std::hint::spin_loop();
                }
                done => return done,
            }
        }
    }
}

impl Read for TcpEnd {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.done(|stream| stream.read(bytes))
    }
}

impl Write for TcpEnd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.done(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Connects to a port and answers each message of `bytes` bytes with 8 bytes, until the peer closes its end.
#[remote]
fn serves_tcp(port: u16, bytes: u64, ends: Ends) -> Result<()> {
    let peer = TcpStream::connect(("127.0.0.1", port))?;
    serve(TcpEnd::of(peer, ends)?, bytes)
}

impl Ends {
    /// The ends that wait as the lanes of a graph do.
    pub(super) fn of(wait: Wait) -> Self {
        match wait {
            Wait::Spin => Ends::Spin,
            Wait::Park | Wait::Auto => Ends::Block,
        }
    }

    /// Has a worker of its own serve messages of so many bytes.
    pub(super) fn server(
        self,
        runtime: &Runtime,
        name: &str,
        bytes: u64,
    ) -> anyhow::Result<Blocking<TcpEnd>> {
        let server = runtime.worker(name)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        runtime.cast(serves_tcp::remote(port, bytes, self).on(&server))?;
        connected(&listener, name)?;
        let (stream, _) = listener.accept()?;
        Ok(Blocking::new(TcpEnd::of(stream, self)?, bytes, server))
    }
}
