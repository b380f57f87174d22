//! Detection of process deaths by the kernel: a pidfd becomes readable when its process ends, for whatever reason. So
//! the thread polls nothing, and a dying process does not have to cooperate.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use crate::memory::deaths::{DeathCallback, NotWatched};
use crate::memory::process::Process;

/// The token of the eventfd that ends the thread.
const STOP: u64 = 0;

/// The token of the next watch. No token is used twice in a process: a [`Watch`] outlives its entry if the process has
/// died, and outlives the watcher if that entry was the last. Its drop must not remove the entry of another watch.
static NEXT: AtomicU64 = AtomicU64::new(STOP + 1);

static WATCHER: Mutex<Option<Watcher>> = Mutex::new(None);

/// A forked child has a copy of its parent's watcher, but not the thread, and shares the descriptors' kernel objects with it. So a child
/// changes nothing of a copy.
struct Watcher {
    /// The process that has started it.
    pid: Pid,
    epoll: Arc<OwnedFd>,
    stop: Arc<OwnedFd>,
    watched: HashMap<u64, (OwnedFd, DeathCallback)>,
    thread: Option<JoinHandle<()>>,
}

/// A watch on a process. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    token: u64,
}

impl From<io::Error> for NotWatched {
    fn from(error: io::Error) -> Self {
        NotWatched::System(error)
    }
}

/// Watches `process`: calls `told` once, on the watcher thread, when the process has ended.
///
/// # Errors
/// [`NotWatched::Dead`] if the process has already ended; `told` is then never called. [`NotWatched::System`] if a
/// system call fails.
pub fn watch(process: Process, told: DeathCallback) -> Result<Watch, NotWatched> {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let pidfd = match pid.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
        Some(Ok(pidfd)) => pidfd,
        None | Some(Err(rustix::io::Errno::SRCH)) => return Err(NotWatched::Dead),
        Some(Err(error)) => return Err(io::Error::from(error).into()),
    };
    // The check comes after the opening of the pidfd. A pidfd stays with the process that it was opened for, so the
    // answer holds for that process.
    if !process.is_current() {
        return Err(NotWatched::Dead);
    }
    let mut slot = WATCHER.lock();
    if let Some(copy) = slot.take_if(|watcher| !watcher.is_of_this_process()) {
        // Its callbacks are about the parent's channels.
        std::mem::forget(copy);
    }
    let watcher = match &mut *slot {
        Some(watcher) => watcher,
        None => slot.insert(Watcher::start()?),
    };
    // SYNC none: the token only has to be unique.
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
            pid: getpid(),
            epoll,
            stop,
            watched: HashMap::new(),
            thread: Some(thread),
        })
    }

    fn is_of_this_process(&self) -> bool {
        self.pid == getpid()
    }
}

/// The body of the watcher thread: calls the callback of each process that has ended, until `STOP` arrives.
fn live(epoll: &OwnedFd) {
    let mut events = Vec::with_capacity(16);
    loop {
        events.clear();
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Other errors occur only for a descriptor that is not an epoll.
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

/// Removes a watch and returns its callback; `None` if the watch is already gone.
fn unwatch(token: u64) -> Option<DeathCallback> {
    let mut slot = WATCHER.lock();
    let watcher = slot.as_mut().filter(|watcher| watcher.is_of_this_process())?;
    let (pidfd, told) = watcher.watched.remove(&token)?;
    // A forked child may have a duplicate, which would keep the entry: it is readable for ever once the process is dead. The only
    // error is that there is no entry.
    let _ = epoll::delete(&watcher.epoll, pidfd);
    Some(told)
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(unwatch(self.token));
        let mut slot = WATCHER.lock();
        let is_over = |watcher: &mut Watcher| watcher.is_of_this_process() && watcher.watched.is_empty();
        let Some(watcher) = slot.take_if(is_over) else {
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
    #[allow(unsafe_code)]
    fn a_forked_child_takes_no_watch_from_its_parent() {
        let mut children = [(); 2].map(|()| Command::new("sleep").arg("60").spawn().unwrap());
        let [first, second] = children.each_ref().map(|child| process(child.id()));
        let (tell, told) = channel();
        let tells = || {
            let tell = tell.clone();
            Arc::new(move || tell.send(()).unwrap())
        };
        let mut watches = [first, second].map(|process| Some(watch(process, tells()).unwrap()));
        // No other thread may hold the lock at the fork: it would stay locked in the child.
        let slot = WATCHER.lock();
        // SAFETY: the child only drops its copies, and exits.
        let fork = unsafe { libc::fork() };
        drop(slot);
        if fork == 0 {
            // SAFETY: sets a timer, whose signal ends a child that would wait for ever.
            unsafe { libc::alarm(30) };
            watches.iter_mut().for_each(|watch| drop(watch.take()));
            // SAFETY: ends the child, which has no other thread.
            unsafe { libc::_exit(0) }
        }
        let mut status = 0;
        // SAFETY: waits for the child made above, and writes to a local number.
        let waited = unsafe { libc::waitpid(fork, &raw mut status, 0) };
        assert_eq!((waited, status), (fork, 0), "the child did not leave");
        for child in &mut children {
            child.kill().unwrap();
            told.recv_timeout(Duration::from_secs(10)).unwrap();
            child.wait().unwrap();
        }
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
        // No process is watched any more, so the next watch starts a new watcher.
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
