//! The output of workers: standard output and error are prefixed line by line and printed by the driver, which keeps
//! the last lines.
//!
//! Printing may block (if a pipe behind the driver's own stdout is full), and the control thread must not, because it
//! would miss deaths. So one thread prints (`selvedge-output`), behind a bounded queue. While the queue is full, the
//! worker's pipe is not read, and only that worker waits. What a dead worker has left in its pipe is printed in any case.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::boxed::boxed_run;
use crate::platform::link::{OutputReader, has_reader};

/// The number of lines of standard error that are kept for a [`Death`](crate::Death).
pub(crate) const STDERR_LINES_MAX: usize = 20;
/// The maximum length of a line. A longer line is printed in pieces.
const LINE_BYTES_MAX: usize = 8 * 1024;
/// The most that a pipe may hold: Linux's limit for unprivileged processes.
const PIPE_BYTES_MAX: usize = 1 << 20;
/// The maximum number of lines that wait to be printed.
const LINES_WAITING_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Out,
    Err,
}

pub(crate) struct Line {
    target: Target,
    text: Vec<u8>,
    /// The line's place among those that wait. Dropped when the line is printed.
    _place: Option<OwnedSemaphorePermit>,
}

/// The queue of the printer.
#[derive(Clone)]
pub(crate) struct LineQueue {
    lines: mpsc::UnboundedSender<Line>,
    /// The places for lines that wait. Lines of dead workers need none: a pipe bounds their number.
    places: Arc<Semaphore>,
}

#[cfg(feature = "hosts")]
impl LineQueue {
    /// Prints a line of this process about a worker, once there is a place for it.
    pub(crate) async fn say(&self, text: &str) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let line = Line {
            target: Target::Out,
            text: format!("{text}\n").into_bytes(),
            _place: place,
        };
        // The printer ends after all starts.
        let _ = self.lines.send(line);
    }
}

/// The thread that prints.
pub(crate) struct Printer {
    queue: LineQueue,
    /// Disconnected when the thread ends.
    ended: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Printer {
    pub(crate) fn start() -> io::Result<Self> {
        let (lines, received) = mpsc::unbounded_channel();
        let places = Arc::new(Semaphore::new(LINES_WAITING_MAX));
        let (running, ended) = bounded(0);
        let run = move || {
            let _running: Sender<()> = running;
            print_lines(received);
        };
        let thread = thread::Builder::new()
            .name("selvedge-output".to_owned())
            .spawn(boxed_run(run))?;
        let queue = LineQueue { lines, places };
        Ok(Self { queue, ended, thread })
    }

    pub(crate) fn queue(&self) -> LineQueue {
        self.queue.clone()
    }

    /// Waits until everything is printed, once all senders are gone. Returns `false` if the deadline passes first,
    /// because the output of this process is not being read; the thread is then left behind.
    pub(crate) fn finish(self, deadline: Instant) -> bool {
        drop(self.queue);
        if self.ended.recv_deadline(deadline) == Err(RecvTimeoutError::Timeout) {
            return false;
        }
        // The thread only has to return now.
        let _ = self.thread.join();
        true
    }
}

fn print_lines(mut queue: mpsc::UnboundedReceiver<Line>) {
    while let Some(line) = queue.blocking_recv() {
        print(&line);
    }
}

/// Prints a line with `print!` or `eprint!`: test harnesses capture these, so a worker's output is shown with the test
/// that it belongs to, like the output of a thread.
fn print(line: &Line) {
    let Line { target, text, .. } = line;
    let is_open = match target {
        Target::Out => has_reader(&io::stdout()),
        Target::Err => has_reader(&io::stderr()),
    };
    if !is_open {
        return;
    }
    // An error means that the driver's own output is closed, and cannot be reported. The macros panic then.
    let _ = catch_unwind(|| match (target, str::from_utf8(text)) {
        (Target::Out, Ok(text)) => {
            print!("{text}");
            io::stdout().flush()
        }
        (Target::Out, Err(_)) => io::stdout().write_all(text).and_then(|()| io::stdout().flush()),
        (Target::Err, Ok(text)) => {
            eprint!("{text}");
            Ok(())
        }
        (Target::Err, Err(_)) => io::stderr().write_all(text),
    });
}

/// One of the two output streams of one worker.
pub(crate) struct Pump {
    pipe: OutputReader,
    /// Held while a line goes to the printer, so that lines keep their order.
    splitter: Mutex<Splitter>,
    prefix: String,
    target: Target,
    printer: LineQueue,
}

impl Pump {
    /// Creates a pump. `begun` are bytes that were read from the pipe before; `prefix` precedes every line:
    /// `[name pid 4121] `.
    pub(crate) fn new(
        pipe: OutputReader,
        begun: &[u8],
        prefix: String,
        target: Target,
        printer: LineQueue,
    ) -> Self {
        let mut splitter = Splitter::default();
        splitter.push(begun);
        Self {
            pipe,
            splitter: Mutex::new(splitter),
            prefix,
            target,
            printer,
        }
    }

    /// Moves lines to the printer until the stream ends.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut is_over = false;
        loop {
            while self.has_lines() {
                let Ok(place) = Arc::clone(&self.printer.places).acquire_owned().await else {
                    return;
                };
                self.print_next(&mut self.splitter.lock(), Some(place));
            }
            if is_over || self.pipe.readable().await.is_err() {
                return;
            }
            is_over = matches!(self.read_some(), Reading::Over);
        }
    }

    /// Moves the output that is there to the printer, without waiting, because the worker is dead and its last lines are
    /// needed.
    pub(crate) fn drain(&self) {
        let mut reads = 0..PIPE_BYTES_MAX / LINE_BYTES_MAX;
        while matches!(self.read_some(), Reading::More) && reads.next().is_some() {}
        let mut splitter = self.splitter.lock();
        while self.print_next(&mut splitter, None) {}
    }

    /// The last lines, oldest first.
    pub(crate) fn tail(&self) -> Vec<String> {
        self.splitter.lock().tail.iter().cloned().collect()
    }

    fn has_lines(&self) -> bool {
        !self.splitter.lock().ready.is_empty()
    }

    /// Moves one line to the printer; returns false if there is none.
    fn print_next(&self, splitter: &mut Splitter, place: Option<OwnedSemaphorePermit>) -> bool {
        let Some(text) = splitter.ready.pop_front() else {
            return false;
        };
        // The printer ends after all pumps.
        let _ = self.printer.lines.send(self.line(&text, place));
        true
    }

    /// Reads until the pipe is empty or many lines are read.
    fn read_some(&self) -> Reading {
        let mut splitter = self.splitter.lock();
        let mut buffer = [0; LINE_BYTES_MAX];
        loop {
            match self.pipe.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => splitter.push(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Reading::Empty,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
            if splitter.ready.len() >= LINES_WAITING_MAX {
                return Reading::More;
            }
        }
        splitter.flush();
        Reading::Over
    }

    fn line(&self, text: &[u8], place: Option<OwnedSemaphorePermit>) -> Line {
        let mut prefixed = Vec::with_capacity(self.prefix.len() + text.len() + 1);
        prefixed.extend_from_slice(self.prefix.as_bytes());
        prefixed.extend_from_slice(text);
        prefixed.push(b'\n');
        Line {
            target: self.target,
            text: prefixed,
            _place: place,
        }
    }
}

/// The state of a pipe after some reads.
enum Reading {
    /// Nothing is there now.
    Empty,
    /// The rest, if any, is read later.
    More,
    /// The stream has ended.
    Over,
}

/// Splits a stream into lines and keeps the last ones.
#[derive(Default)]
struct Splitter {
    partial: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    tail: VecDeque<String>,
    /// Set while the lines are frames of a backtrace. Frames are printed but not kept, so that the lines before them
    /// stay in the tail.
    in_backtrace: bool,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            match piece.split_last() {
                Some((b'\n', rest)) => {
                    self.partial.extend_from_slice(rest);
                    self.end_line();
                }
                _ => self.partial.extend_from_slice(piece),
            }
            if self.partial.len() >= LINE_BYTES_MAX {
                self.end_line();
            }
        }
    }

    /// Ends the last line, which may lack a line feed, at the end of the stream.
    fn flush(&mut self) {
        if !self.partial.is_empty() {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&line).into_owned();
        self.ready.push_back(line);
        if is_backtrace(&text, &mut self.in_backtrace) {
            return;
        }
        if self.tail.len() == STDERR_LINES_MAX {
            self.tail.pop_front();
        }
        self.tail.push_back(text);
    }

    #[cfg(test)]
    fn take_lines(&mut self) -> impl Iterator<Item = Vec<u8>> {
        std::mem::take(&mut self.ready).into_iter()
    }
}

/// The line that the standard library prints behind a panic's message in place of a backtrace.
const NO_BACKTRACE: &str = "note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace";

/// Whether a line is part of a backtrace as the standard library prints it, from its heading to the note after it, or stands in its
/// place.
fn is_backtrace(line: &str, inside: &mut bool) -> bool {
    let is_head = line == "stack backtrace:";
    let rest = line.trim_start();
    let is_frame = rest.len() < line.len()
        && (rest.starts_with("at ") || rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_part = is_head || *inside && (is_frame || line.starts_with("note: Some details are omitted"));
    *inside = is_part;
    is_part || line == NO_BACKTRACE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_across_reads_and_the_last_ones_are_kept() {
        let mut splitter = Splitter::default();
        splitter.push(b"one\ntw");
        splitter.push(b"o\n\nthree");
        splitter.flush();
        let lines: Vec<_> = splitter.take_lines().collect();
        assert_eq!(lines, [&b"one"[..], b"two", b"", b"three"]);
        for i in 0..STDERR_LINES_MAX {
            splitter.push(format!("line {i}\n").as_bytes());
        }
        assert_eq!(splitter.tail.len(), STDERR_LINES_MAX);
        assert_eq!(splitter.tail.front().unwrap(), "line 0");
    }

    #[test]
    fn a_backtrace_does_not_push_the_panics_message_out_of_the_last_words() {
        let mut splitter = Splitter::default();
        let message = "thread 'lane a' (7) panicked at src/a.rs:1:2:\nno way\n";
        splitter.push(message.as_bytes());
        splitter.push(b"stack backtrace:\n");
        for frame in 0..3 * STDERR_LINES_MAX {
            splitter
                .push(format!("  {frame}: some::function\n             at ./src/a.rs:{frame}\n").as_bytes());
        }
        splitter.push(
            b"note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n",
        );
        splitter.push(b"1: a line of the program's\n");
        let tail: Vec<_> = splitter.tail.iter().map(String::as_str).collect();
        let wanted = [
            "thread 'lane a' (7) panicked at src/a.rs:1:2:",
            "no way",
            "1: a line of the program's",
        ];
        assert_eq!(tail, wanted);
        assert_eq!(
            splitter.take_lines().count(),
            2 + 1 + 6 * STDERR_LINES_MAX + 2,
            "all is printed"
        );
    }

    #[test]
    fn the_note_that_there_is_no_backtrace_is_not_among_the_last_words() {
        let mut splitter = Splitter::default();
        splitter.push(b"no way\n");
        splitter.push(format!("{NO_BACKTRACE}\n").as_bytes());
        assert_eq!(splitter.tail, ["no way"]);
        assert_eq!(splitter.take_lines().count(), 2, "all is printed");
    }

    #[test]
    fn an_endless_line_is_cut() {
        let mut splitter = Splitter::default();
        splitter.push(&vec![b'x'; LINE_BYTES_MAX + 1]);
        assert_eq!(splitter.take_lines().count(), 1);
    }
}
