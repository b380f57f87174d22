//! The agent's thread for what takes long: spills, restores, and pages that go back to the system. It ends with the store.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Weak;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use selvedge_objects::store::{Extent, StoreAction, StoreError, StoreEvent};

use super::host_store::HostStore;
use super::spill_file::SpillFile;
use crate::remote::threads::Threads;

/// The queue of the thread; `None` once it is to end.
pub(super) struct Disk(Mutex<Option<Sender<StoreAction>>>);

impl Disk {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub(super) fn start(threads: &Threads, host: Weak<HostStore>, folder: PathBuf) -> io::Result<Self> {
        let (sender, receiver) = unbounded();
        let worker = DiskWorker {
            host,
            folder,
            file: None,
        };
        threads.start("selvedge-store", move || worker.run(&receiver))?;
        Ok(Disk(Mutex::new(Some(sender))))
    }

    /// Has the thread do something, after all that was ordered before. Once the store is closed nothing is done any more.
    pub(super) fn order(&self, work: StoreAction) {
        if let Some(queue) = &*self.0.lock() {
            let _ = queue.send(work);
        }
    }

    /// Ends the thread, once it has done what it has.
    pub(super) fn stop(&self) {
        let queue = self.0.lock().take();
        drop(queue);
    }
}

struct DiskWorker {
    host: Weak<HostStore>,
    folder: PathBuf,
    file: Option<SpillFile>,
}

impl DiskWorker {
    fn run(mut self, queue: &Receiver<StoreAction>) {
        for work in queue {
            let Some(host) = self.host.upgrade() else { return };
            if let Some(event) = self.work(&host, work) {
                host.event(event);
            }
        }
    }

    /// Does something. Returns what the store is to hear of it.
    fn work(&mut self, host: &HostStore, work: StoreAction) -> Option<StoreEvent> {
        match work {
            StoreAction::Spill {
                object,
                attempt,
                from,
                to,
                bytes,
            } => {
                let result = self.spill(host, (from, bytes), to);
                Some(StoreEvent::Spilled {
                    object,
                    attempt,
                    result,
                })
            }
            StoreAction::Restore {
                object,
                attempt,
                from,
                to,
                bare,
                bytes,
            } => {
                let result = self.restore(host, from, (to, bytes), &bare);
                Some(StoreEvent::Restored {
                    object,
                    attempt,
                    result,
                })
            }
            StoreAction::ReadBack {
                request,
                from,
                offset,
                bytes,
                ..
            } => {
                host.read_back(request, self.read_part(from, (offset, bytes)));
                None
            }
            StoreAction::Punch(extent) => {
                host.punch(extent);
                Some(StoreEvent::Punched(extent))
            }
            StoreAction::Discard(extent) => {
                if let Some(file) = &mut self.file {
                    file.discard(extent);
                }
                None
            }
            StoreAction::Lend { .. } | StoreAction::Grant { .. } | StoreAction::Refuse { .. } => None,
        }
    }

    fn spill(
        &mut self,
        host: &HostStore,
        (from, bytes): (Extent, u64),
        to: Extent,
    ) -> Result<(), StoreError> {
        let failed = |folder: &Path, why: String| StoreError::Spill {
            folder: folder.display().to_string(),
            why,
        };
        let view = host.view(from, bytes);
        let view = view.map_err(|error| failed(&self.folder, error.to_string()))?;
        if self.file.is_none() {
            let made = SpillFile::create(&self.folder);
            self.file = Some(made.map_err(|error| failed(&self.folder, error.to_string()))?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let written = file.write(view.as_ref(), to);
        written.map_err(|error| failed(&self.folder, error.to_string()))
    }

    fn restore(
        &mut self,
        host: &HostStore,
        from: Extent,
        (to, bytes): (Extent, u64),
        bare: &[Extent],
    ) -> Result<(), StoreError> {
        let mut lent = host.lend(to, bytes, bare)?;
        let read = self.spilled()?.read(from, lent.as_mut_slice());
        read.map_err(unread)
    }

    fn read_part(&self, from: Extent, (offset, bytes): (u64, u64)) -> Result<Bytes, StoreError> {
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let part = place(offset)..place(offset.saturating_add(bytes));
        self.spilled()?.read_part(from, part).map_err(unread)
    }

    fn spilled(&self) -> Result<&SpillFile, StoreError> {
        let file = self.file.as_ref();
        file.ok_or_else(|| unread("there is no file of spilled objects"))
    }
}

fn unread(why: impl Display) -> StoreError {
    let why = why.to_string();
    StoreError::Restore { why }
}
