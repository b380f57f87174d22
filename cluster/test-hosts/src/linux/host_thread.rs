//! The thread of a host: a thread of this process that is within the host's namespaces.
//!
//! Whatever has to happen within the host happens on this thread: it makes the host's network devices, and it starts the host's
//! processes, which are children of this process and therefore have pipes and exits like all others. A process cannot be within
//! two hosts, but its threads can: Linux keeps namespaces for each thread.
//!
//! The host's process 1 dies with this thread: Linux sends the signal of a parent's death when the thread ends that has started
//! the child.
#![allow(unsafe_code, reason = "leaves the namespaces of the process")]

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::Pid;
use rustix::system::sethostname;
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};

use super::waiting::LIMIT;
use crate::{HostsError, LeftOut};

/// What an error is about.
const THREAD: &str = "the thread of a host";

type Job = Box<dyn FnOnce() + Send>;

/// A thread that is within a host.
pub(crate) struct HostThread {
    /// The jobs of the thread; `None` once it is to end.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// The thread's id, by which `/proc` shows the namespaces that it is in.
    thread_id: Pid,
}

impl HostThread {
    /// Starts a thread, and lets it move into new namespaces: those of a host of this name.
    pub(crate) fn settle(name: &str) -> Result<Self, HostsError> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let (say, said) = mpsc::sync_channel(1);
        let live = move || {
            // An error means that nobody wants to know, and then there are no jobs either.
            let _ = say.send(gettid());
            jobs.into_iter().for_each(|job| job());
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(live);
        let thread = thread.map_err(HostsError::of(THREAD))?;
        let thread_id = said
            .recv_timeout(LIMIT)
            .map_err(ended)
            .map_err(HostsError::of(THREAD))?;
        let thread = HostThread {
            jobs: Some(sender),
            thread: Some(thread),
            thread_id,
        };
        let name = name.to_owned();
        let moved = thread.perform(move || move_in(&name));
        moved.map_err(HostsError::of(THREAD))??;
        Ok(thread)
    }

    /// Performs a job within the host, and waits for it.
    ///
    /// # Errors
    /// The job has panicked, or takes too long.
    pub(crate) fn perform<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (say, said) = mpsc::sync_channel(1);
        let job: Job = Box::new(move || {
            // An error means that nobody waits for the result any more.
            let _ = say.send(job());
        });
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        sent.ok_or(io::ErrorKind::NotConnected)?.map_err(ended)?;
        said.recv_timeout(LIMIT).map_err(ended)
    }

    /// The folder of the thread in this process's `/proc`.
    pub(crate) fn folder(&self) -> String {
        format!("/proc/self/task/{}", self.thread_id)
    }
}

impl Drop for HostThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // An error means that a job has panicked, which its caller was told.
            let _ = thread.join();
        }
    }
}

fn ended(error: impl std::error::Error) -> io::Error {
    io::Error::other(format!("no answer ({error}): it hangs, or has panicked"))
}

/// Moves this thread, and the processes that it starts from now on, into namespaces of their own.
fn move_in(name: &str) -> Result<(), HostsError> {
    let namespaces = UnshareFlags::NEWNS
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWPID;
    // SAFETY: the flags leave the table of descriptors shared, so no descriptor that another thread owns is closed or copied.
    let moved = unsafe { unshare_unsafe(namespaces) };
    moved.map_err(HostsError::or_left_out("namespaces", LeftOut::Namespaces))?;
    // What is mounted within the host stays there.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(HostsError::or_left_out("private mounts", LeftOut::Namespaces))?;
    sethostname(name.as_bytes()).map_err(HostsError::of("a hostname"))
}
