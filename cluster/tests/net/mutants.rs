//! Transports that break their contract are found by it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use selvedge_cluster::net::{Acceptor, Bridge, Halves, PeerInfo, Pending, Transport, WriteHalf, contract};
use tokio::io::{AsyncWrite, ReadBuf};

#[derive(Clone, Copy, PartialEq)]
enum Mutant {
    None,
    /// One byte of a direction is lost, doubled, or overtaken by the next one.
    Lost,
    Doubled,
    Overtaken,
    /// The end of a direction ends the other one too.
    EndsBoth,
    /// The end of a direction is not told, but made up: a last byte.
    ByteForEnd,
}

#[derive(Clone)]
struct Broken(Bridge, Mutant);

impl Transport for Broken {
    fn name(&self) -> &str {
        "broken"
    }

    fn connect<'a>(&'a self, to: &'a PeerInfo) -> Pending<'a, Halves> {
        Box::pin(async move {
            let halves = self.0.connect(to).await?;
            Ok(match self.1 {
                Mutant::None => halves,
                Mutant::EndsBoth => Both::halves(halves),
                mutant => Halves {
                    writer: Box::new(Bytewise {
                        writer: halves.writer,
                        mutant,
                        written: 0,
                        held: None,
                    }),
                    ..halves
                },
            })
        })
    }

    fn listen(&self) -> Pending<'_, Box<dyn Acceptor>> {
        self.0.listen()
    }
}

/// The byte that is treated as the mutant says.
const BYTE: usize = 70_000;

/// Writes all bytes but one as they are.
struct Bytewise {
    writer: WriteHalf,
    mutant: Mutant,
    written: usize,
    held: Option<u8>,
}

impl Bytewise {
    /// The bytes that are written in place of the next one.
    fn instead(&mut self, byte: u8) -> Vec<u8> {
        match (self.mutant, self.written, self.held.take()) {
            (Mutant::Lost, BYTE, _) => vec![],
            (Mutant::Doubled, BYTE, _) => vec![byte, byte],
            (Mutant::Overtaken, BYTE, _) => {
                self.held = Some(byte);
                vec![]
            }
            (_, _, Some(held)) => vec![byte, held],
            _ => vec![byte],
        }
    }
}

impl AsyncWrite for Bytewise {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.written + bytes.len() < BYTE || this.written > BYTE + 1 {
            let written = Pin::new(&mut this.writer).poll_write(cx, bytes);
            return written.map_ok(|bytes| {
                this.written += bytes;
                bytes
            });
        }
        let before = this.held;
        let instead = this.instead(bytes[0]);
        let written = match instead.is_empty() {
            true => Poll::Ready(Ok(0)),
            false => Pin::new(&mut this.writer).poll_write(cx, &instead),
        };
        match written {
            Poll::Ready(Ok(_)) => {
                this.written += 1;
                Poll::Ready(Ok(1))
            }
            other => {
                this.held = before;
                other
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.mutant == Mutant::ByteForEnd {
            let _ = Pin::new(&mut self.writer).poll_write(cx, &[0]);
        }
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

/// A stream whose halves are one: a shutdown drops it.
struct Both(std::sync::Arc<std::sync::Mutex<Option<Halves>>>);

impl Both {
    fn halves(halves: Halves) -> Halves {
        let both = std::sync::Arc::new(std::sync::Mutex::new(Some(halves)));
        Halves::new(Both(both.clone()), Both(both))
    }
}

impl tokio::io::AsyncRead for Both {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self.0.lock().unwrap() {
            Some(halves) => Pin::new(&mut halves.reader).poll_read(cx, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Both {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self.0.lock().unwrap() {
            Some(halves) => Pin::new(&mut halves.writer).poll_write(cx, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        *self.0.lock().unwrap() = None;
        Poll::Ready(Ok(()))
    }
}

#[test]
fn jtran_10_the_contract_finds_transports_that_break_it() {
    let keeps = |mutant, promise: fn(&dyn Fn() -> Broken)| {
        let make = || Broken(Bridge::new(1000), mutant);
        catch_unwind(AssertUnwindSafe(|| promise(&make))).is_ok()
    };
    let order = |make: &dyn Fn() -> Broken| contract::bytes_arrive_completely_and_in_order(&make);
    let ends = |make: &dyn Fn() -> Broken| contract::the_end_of_one_direction_leaves_the_other(&make);
    assert!(keeps(Mutant::None, order) && keeps(Mutant::None, ends));
    for mutant in [
        Mutant::Lost,
        Mutant::Doubled,
        Mutant::Overtaken,
        Mutant::ByteForEnd,
    ] {
        assert!(!keeps(mutant, order));
    }
    assert!(!keeps(Mutant::EndsBoth, ends));
}
