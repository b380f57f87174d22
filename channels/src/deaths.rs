//! Who watches whether the peers of this process live: one thread, asleep in the kernel, while there is anybody to
//! watch. It starts with the first watch and ends with the last.
//!
//! A pidfd becomes readable when its process ends, however it ends, so nothing is polled and no cooperation is asked of
//! the dying.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::process::Process;

/// What is called when a process has ended.
pub type Told = Arc<dyn Fn() + Send + Sync>;

/// The token of the eventfd that ends the thread.
const STOP: u64 = 0;

/// The next watch's token. No token is given twice in a process: a [`Watch`] outlives its entry when the process has
/// died, and its watcher when it was the last, and must not take another's entry out then.
static NEXT: AtomicU64 = AtomicU64::new(STOP + 1);

static WATCHER: Mutex<Option<Watcher>> = Mutex::new(None);

struct Watcher {
    epoll: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
    watched: HashMap<u64, (OwnedFd, Told)>,
    thread: Option<JoinHandle<()>>,
}

/// A process that is watched until this is dropped.
#[derive(Debug)]
pub struct Watch {
    token: u64,
}

/// Why a process is not watched.
#[derive(Debug)]
pub enum NotWatched {
    /// It has ended already.
    Dead,
    /// The system has no descriptor or thread to give.
    System,
}

impl From<io::Error> for NotWatched {
    fn from(_: io::Error) -> Self {
        NotWatched::System
    }
}

/// Calls `told` once, on the watching thread, when `process` has ended.
///
/// # Errors
/// [`NotWatched::Dead`] where it has ended already, and `told` is not called.
pub fn watch(process: Process, told: Told) -> Result<Watch, NotWatched> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pidfd = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Some(Ok(pidfd)) => pidfd,
        None | Some(Err(rustix::io::Errno::SRCH)) => return Err(NotWatched::Dead),
        Some(Err(error)) => return Err(io::Error::from(error).into()),
    };
    // Asked after the descriptor is ours: it stays with the process it was opened for, whoever that is.
    if !process.is_current() {
        return Err(NotWatched::Dead);
    }
    let mut slot = WATCHER.lock();
    let watcher = match &mut *slot {
        Some(watcher) => watcher,
        None => slot.insert(Watcher::start()?),
    };
    // SYNC none: unique is all that it has to be.
    let token = NEXT.fetch_add(1, Ordering::Relaxed);
    epoll::add(&watcher.epoll, &pidfd, EventData::new_u64(token), EventFlags::IN).map_err(io::Error::from)?;
    watcher.watched.insert(token, (pidfd, told));
    Ok(Watch { token })
}

impl Watcher {
    fn start() -> io::Result<Self> {
        let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let waits = Arc::clone(&epoll);
        let thread = thread::Builder::new()
            .name("selvedge-deaths".into())
            .spawn(move || live(&waits))?;
        Ok(Watcher {
            epoll,
            stop,
            watched: HashMap::new(),
            thread: Some(thread),
        })
    }
}

/// The thread: tells who is to be told, until it is stopped.
fn live(epoll: &OwnedFd) {
    let mut events = Vec::with_capacity(16);
    loop {
        events.clear();
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Only a descriptor that is not an epoll gives others.
            Err(_) => return,
        }
        for event in &events {
            let Event { data, .. } = *event;
            if data.u64() == STOP {
                return;
            }
            let told = unwatch(data.u64());
            if let Some(told) = told {
                told();
            }
        }
    }
}

/// Forgets one that is watched; gives back who was to be told.
fn unwatch(token: u64) -> Option<Told> {
    let mut slot = WATCHER.lock();
    let watcher = slot.as_mut()?;
    // Closing the pidfd takes it out of the epoll set: it has no other copy.
    let (_, told) = watcher.watched.remove(&token)?;
    Some(told)
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(unwatch(self.token));
        let mut slot = WATCHER.lock();
        let Some(watcher) = slot.take_if(|watcher| watcher.watched.is_empty()) else {
            return;
        };
        drop(slot);
        let _ = rustix::io::write(&watcher.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = watcher.thread
            && thread.thread().id() != thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn process(pid: u32) -> Process {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let ticks: u64 = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .nth(19)
            .unwrap()
            .parse()
            .unwrap();
        Process::from_word(u64::from(pid) << 32 | u64::from(ticks as u32))
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn a_death_is_told_once_and_the_dead_are_not_watched() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let watched = process(child.id());
        let (tell, told) = channel();
        let watch = watch(watched, Arc::new(move || tell.send(()).unwrap())).unwrap();
        assert!(told.try_recv().is_err());
        child.kill().unwrap();
        told.recv_timeout(Duration::from_secs(10)).unwrap();
        child.wait().unwrap();
        assert!(told.recv_timeout(Duration::from_millis(5)).is_err(), "once");
        assert!(matches!(
            super::watch(watched, Arc::new(|| ())),
            Err(NotWatched::Dead)
        ));
        drop(watch);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri starts no processes")]
    fn what_is_left_of_a_dead_ones_watch_takes_no_other_with_it() {
        let mut children = [(); 3].map(|()| Command::new("sleep").arg("60").spawn().unwrap());
        let [first, second, third] = children.each_ref().map(|child| process(child.id()));
        let (tell, told) = channel();
        let tells = || {
            let tell = tell.clone();
            Arc::new(move || tell.send(()).unwrap())
        };
        let of_the_dead = watch(first, tells()).unwrap();
        let last = watch(second, tells()).unwrap();
        children[0].kill().unwrap();
        told.recv_timeout(Duration::from_secs(10)).unwrap();
        // Nobody is watched any more: the next one has another watcher.
        drop(last);
        let watch = watch(third, tells()).unwrap();
        drop(of_the_dead);
        children[2].kill().unwrap();
        told.recv_timeout(Duration::from_secs(10)).unwrap();
        drop(watch);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
