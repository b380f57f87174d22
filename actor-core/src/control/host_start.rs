//! The start of a worker on another host, from its first line to its first word.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use selvedge_cluster::manager::{StartUp, StartUpEvent, WorkerAddress, WorkerPlace};
use selvedge_cluster::peer::Peer;
use tokio::time::timeout;

use super::hosted::Hosted;
use super::no_hello::NoHello;
use super::tunnel::{Carrier, SidePrograms, Tunnel};
use super::worker_start::{Met, WorkerArgs, pump};
use crate::directory::Directory;
use crate::hosts::dialing::Dialing;
use crate::hosts::tunnelling::{Opening, Tunnelling};
use crate::hub::post::Post;
use crate::platform::link::{OutputPipe, OutputReader, output};
use crate::process_end::ProcessEnd;
use crate::topology::Station;
use crate::worker::letters::{BODY_BYTES_MAX, write_letters};
use crate::worker::link::Link;
use crate::worker::output::Target;
use crate::worker::protocol::FromWorker;
use crate::worker::words::Words;

/// The bytes that are read of an output at a time.
const READ_BYTES: usize = 4096;

/// The worker that is met, and the means to meet it.
struct Meeting {
    directory: Arc<Directory>,
    beside: SidePrograms,
    peer: Peer,
    dialing: Box<Dialing>,
}

impl WorkerArgs {
    /// Hears where the worker listens, makes the link to it, and hears its first word.
    pub(super) async fn meet_host(
        &mut self,
        peer: Peer,
        dialing: Box<Dialing>,
        stdout: OutputPipe,
        hosted: &mut Hosted,
    ) -> Result<Met, NoHello> {
        let directory = Arc::clone(&self.directory);
        let limit = self.launcher.time_limit(directory.limits().hello);
        let meeting = Meeting {
            directory: Arc::clone(&directory),
            beside: SidePrograms {
                threads: Arc::clone(&self.launch_threads),
                printer: self.printer.clone(),
                worker: self.record.name().to_owned(),
            },
            peer,
            dialing,
        };
        let met = tokio::select! {
            met = timeout(limit, meeting.meet(stdout, hosted)) => met.unwrap_or_else(|_| Err(too_late(limit))),
            unwanted = self.unwanted() => Err(NoHello::Unwanted(Box::new(unwanted))),
        };
        if met.is_err() {
            directory.hub.buried(peer, ProcessEnd::unknown());
        }
        met
    }
}

impl Meeting {
    async fn meet(self, stdout: OutputPipe, hosted: &mut Hosted) -> Result<Met, NoHello> {
        let mut stdout = output(stdout).map_err(NoHello::Io)?;
        let (place, begun) = self.hear_place(&mut stdout).await?;
        hosted.announced();
        let hub = &self.directory.hub;
        let tunnel = match &self.dialing.tunnelling {
            Some(tunnelling) => Some(hosted.through(self.open(tunnelling, address_of(&place)?).await?)),
            None => None,
        };
        let entry = tunnel.map(|tunnel| &tunnel.place);
        let mut words = Words::Letters(self.directory.words.of(self.peer));
        let way = self.dialing.to(hub.me(), self.peer, &place, entry);
        let is_used = way
            .map_err(NoHello::Said)?
            .connect(hub)
            .await
            .map_err(NoHello::Said)?;
        let (link, queue) = Link::with_limit(BODY_BYTES_MAX);
        let link = Arc::new(link);
        let writing = write_letters(queue, Arc::downgrade(&link), Arc::downgrade(hub), self.peer);
        tokio::spawn(writing);
        let first = match is_used {
            true => words.next().await,
            false => Ok(None),
        };
        let (pid, machine) = match first {
            Ok(Some((FromWorker::Joined { pid, machine, .. }, _))) => (pid, machine),
            Ok(Some(_)) => return Err(NoHello::Said("it spoke before it introduced itself".to_owned())),
            Ok(None) => return Err(NoHello::Ended),
            Err(error) => return Err(NoHello::Said(error.to_string())),
        };
        Ok(Met {
            words,
            link,
            stdout: Some(pump(
                &self.beside.worker,
                pid,
                stdout,
                &begun,
                Target::Out,
                &self.beside.printer,
            )),
            pid,
            sentinels: Vec::new(),
            station: Some(Station {
                listens_at: Some(place.to_string()),
                names: self.dialing.names.clone(),
            }),
            machine: Some(machine),
        })
    }

    /// Opens the tunnel to the worker at an address.
    async fn open(&self, through: &Tunnelling, to: &WorkerAddress) -> Result<Tunnel, NoHello> {
        let failed = |why: String| NoHello::Said(format!("the tunnel to {to} cannot be opened: {why}"));
        let (place, opening) = through.opening(to).map_err(|error| failed(error.to_string()))?;
        let line = match opening {
            Opening::Own(line) => line,
            Opening::Shared { forward, cancel } => {
                self.beside.run(forward).await.map_err(failed)?;
                let carrier = Carrier::Shared(self.beside.clone(), cancel);
                return Ok(Tunnel::new(place, carrier));
            }
        };
        let started = self.beside.start(line).await;
        let (program, stdout) = started.map_err(|error| failed(error.to_string()))?;
        let mut stdout = output(stdout).map_err(NoHello::Io)?;
        match self.hear_place(&mut stdout).await {
            Ok(_) => Ok(Tunnel::new(place, Carrier::Own(program))),
            Err(NoHello::Said(why)) => Err(failed(program.words(&why))),
            Err(error) => Err(error),
        }
    }

    /// Reads the output up to the line that says where the worker listens. Returns what was read behind it.
    async fn hear_place(&self, stdout: &mut OutputReader) -> Result<(WorkerPlace, Vec<u8>), NoHello> {
        let mut start_up = StartUp::default();
        let mut buffer = [0; READ_BYTES];
        loop {
            let read = read(stdout, &mut buffer).await.map_err(NoHello::Io)?;
            let mut bytes = buffer.get(..read).unwrap_or_default();
            if bytes.is_empty() {
                let (last, error) = start_up.finish();
                self.show(last).await;
                return Err(NoHello::Said(error.to_string()));
            }
            loop {
                match start_up.receive(&mut bytes) {
                    Ok(Some(StartUpEvent::Announced(place))) => return Ok((place, bytes.to_vec())),
                    Ok(Some(event)) => self.show(Some(event)).await,
                    Ok(None) => break,
                    Err(error) => return Err(NoHello::Said(error.to_string())),
                }
            }
        }
    }

    /// Shows a line that is no announcement.
    async fn show(&self, event: Option<StartUpEvent>) {
        if let Some(StartUpEvent::Text(line)) = event {
            self.beside.printer.say(&line).await;
        }
    }
}

/// The address of a worker behind a tunnel.
fn address_of(place: &WorkerPlace) -> Result<&WorkerAddress, NoHello> {
    match place {
        WorkerPlace::Address(address) => Ok(address),
        other => Err(NoHello::Said(format!(
            "it listens at `{other}`, to which no tunnel of `ssh` leads (help: leave out `SshOptions::tunnel`)"
        ))),
    }
}

/// Waits for some bytes; 0 is the end.
async fn read(pipe: &OutputReader, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        pipe.readable().await?;
        match pipe.try_read(buffer) {
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {
            }
            read => return read,
        }
    }
}

fn too_late(limit: Duration) -> NoHello {
    NoHello::Said(format!(
        "it has not joined within {limit:?} (help: Runtime::hello_timeout sets this time)"
    ))
}
