//! The thread of the switch: it reads packets from the cables, and writes them when they are due.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, write};

use super::Shared;
use crate::linux::interface::MTU;
use crate::linux::waiting::timespec;

/// The packets that are read from one cable before the others have their turn.
const BURST: usize = 64;

/// Starts the thread. The descriptor `stop` ends it.
pub(super) fn start(
    cables: Vec<OwnedFd>,
    stop: Arc<OwnedFd>,
    shared: Arc<Shared>,
) -> io::Result<JoinHandle<()>> {
    let mut thread = Thread {
        cables: cables.into_iter().map(Some).collect(),
        stop,
        shared,
        begun: Instant::now(),
    };
    let run = move || {
        let broken = thread.run().err();
        thread.shared.lock().broken = broken.map(|error| format!("the switch has ended: {error}"));
        thread.shared.moved.notify_all();
    };
    thread::Builder::new().name("switch".into()).spawn(run)
}

struct Thread {
    /// The cable of each host; `None` if its interface is gone.
    cables: Vec<Option<OwnedFd>>,
    stop: Arc<OwnedFd>,
    shared: Arc<Shared>,
    begun: Instant,
}

impl Thread {
    /// Passes packets until it is told to stop.
    fn run(&mut self) -> io::Result<()> {
        let mut packet = [0; MTU];
        loop {
            let due = self.shared.lock().network.next_due();
            let left = due.map(|due| due.saturating_sub(self.begun.elapsed()));
            let Some(ready) = self.wait(left)? else {
                return Ok(());
            };
            for from in ready {
                self.take_in(from, &mut packet);
            }
            self.hand_out();
        }
    }

    /// Waits for packets, for so long at most. Returns the hosts that have sent some; `None` if the thread is to stop.
    fn wait(&self, left: Option<Duration>) -> io::Result<Option<Vec<usize>>> {
        let cables = self.cables.iter().enumerate();
        let (hosts, cables): (Vec<usize>, Vec<&OwnedFd>) = cables
            .filter_map(|(host, cable)| Some((host, cable.as_ref()?)))
            .unzip();
        let mut watched = vec![PollFd::new(&self.stop, PollFlags::IN)];
        watched.extend(cables.iter().map(|cable| PollFd::new(*cable, PollFlags::IN)));
        match poll(&mut watched, left.map(timespec).as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Some(Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let mut has_news = watched.iter().map(|watched| !watched.revents().is_empty());
        if has_news.next() == Some(true) {
            return Ok(None);
        }
        let ready = hosts.into_iter().zip(has_news);
        Ok(Some(
            ready
                .filter_map(|(host, has_news)| has_news.then_some(host))
                .collect(),
        ))
    }

    /// Reads packets of a host.
    fn take_in(&mut self, from: usize, packet: &mut [u8]) {
        let Some(place) = self.cables.get_mut(from) else {
            return;
        };
        let Some(cable) = place else { return };
        for _ in 0..BURST {
            let length = match read(&*cable, &mut *packet) {
                Ok(length) => length,
                Err(Errno::AGAIN | Errno::INTR) => return,
                // The interface was removed within the host.
                Err(_) => {
                    *place = None;
                    return;
                }
            };
            let now = self.begun.elapsed();
            let packet = packet.get(..length).unwrap_or_default();
            self.shared.lock().network.enter(from, now, packet);
        }
    }

    /// Writes the packets that are due, and wakes whoever waits for traffic. The lock is held meanwhile, so that no packet moves
    /// after somebody has cut its line.
    fn hand_out(&self) {
        let mut state = self.shared.lock();
        state.network.leave(self.begun.elapsed(), |to, packet| {
            let cable = self.cables.get(to).and_then(Option::as_ref);
            cable.is_some_and(|cable| write(cable, packet).is_ok())
        });
        drop(state);
        self.shared.moved.notify_all();
    }
}
