//! A Unix socket, or two pipes: a length, the payload, and eight bytes back.

use std::fs::File;
use std::hint::spin_loop;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use selvedge_cli::args::Mode;

use super::{Answer, Ask, Other, ServeArgs, Via, read};
use crate::case::Case;

/// One end of a connection: reads from one descriptor, writes to the other.
struct Bytes {
    from: File,
    to: File,
}

/// Repeats an attempt that would block or was interrupted; with non-blocking descriptors this spins.
fn again<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                spin_loop()
            }
            done => return done,
        }
    }
}

impl Bytes {
    fn new(from: OwnedFd, to: OwnedFd, spins: bool) -> io::Result<Self> {
        for end in [&from, &to] {
            let flags = fcntl_getfl(end)?;
            let wanted = if spins {
                flags | OFlags::NONBLOCK
            } else {
                flags - OFlags::NONBLOCK
            };
            fcntl_setfl(end, wanted)?;
        }
        Ok(Bytes {
            from: from.into(),
            to: to.into(),
        })
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = again(|| self.to.write(bytes))?;
            bytes = bytes.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Fills `bytes`; returns `false` at the end of the stream.
    fn read(&mut self, mut bytes: &mut [u8]) -> io::Result<bool> {
        while !bytes.is_empty() {
            match again(|| self.from.read(bytes))? {
                0 => return Ok(false),
                count => bytes = bytes.get_mut(count..).unwrap_or_default(),
            }
        }
        Ok(true)
    }
}

/// The connections to all readers.
pub(super) struct Asking(Vec<(Bytes, Other)>);

impl Asking {
    pub(super) fn start(via: Via, case: &Case, core: Option<usize>) -> anyhow::Result<Self> {
        let one = |index| {
            let (own, theirs) = if via == Via::Pipe {
                let ((there_read, there_write), (back_read, back_write)) = (pipe()?, pipe()?);
                ((back_read, there_write), (there_read, back_write))
            } else {
                let (own, theirs) = socketpair(
                    AddressFamily::UNIX,
                    SocketType::STREAM,
                    SocketFlags::CLOEXEC,
                    None,
                )?;
                ((own.try_clone()?, own), (theirs.try_clone()?, theirs))
            };
            let other = Other::start(
                via,
                case,
                core,
                (index, ""),
                (Stdio::from(theirs.0), Stdio::from(theirs.1)),
            )?;
            anyhow::Ok((Bytes::new(own.0, own.1, case.spins())?, other))
        };
        (0..case.readers)
            .map(one)
            .collect::<anyhow::Result<_>>()
            .map(Asking)
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

impl Ask for Asking {
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        Ok(self.0.iter_mut().try_for_each(|(way, _)| way.write(payload))?)
    }

    fn collect(&mut self) -> anyhow::Result<()> {
        for (way, _) in &mut self.0 {
            anyhow::ensure!(way.read(&mut [0; 8])?, "the other side has gone");
        }
        Ok(())
    }
}

pub(super) struct Answering {
    way: Bytes,
    buffer: Vec<u8>,
    mode: Mode,
}

impl Answering {
    pub(super) fn start(args: &ServeArgs) -> anyhow::Result<Self> {
        let from = io::stdin().as_fd().try_clone_to_owned()?;
        let to = io::stdout().as_fd().try_clone_to_owned()?;
        let way = Bytes::new(from, to, args.wait == selvedge_cli::args::Wait::Spin)?;
        Ok(Answering {
            way,
            buffer: vec![0; args.payload],
            mode: args.mode,
        })
    }
}

impl Answer for Answering {
    fn receive(&mut self) -> anyhow::Result<Option<u64>> {
        let some = self.way.read(&mut self.buffer)?;
        Ok(some.then(|| read(&self.buffer, self.mode)))
    }

    fn answer(&mut self, sum: u64) -> anyhow::Result<()> {
        Ok(self.way.write(&sum.to_le_bytes())?)
    }
}
