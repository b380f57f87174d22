//! The main loop of a worker: its main thread reads the link, and its lanes do the work.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use selvedge_channels::dispose;
use selvedge_cluster::id_map::IdMap;
use selvedge_cluster::peer::Peer;

use crate::actor::arguments::{Arguments, Returned};
use crate::actor::extension::Method;
use crate::actor::registry::{UnknownExtension, find_actor, find_extension, find_loader};
use crate::call::request::{ActorCall, CallFault};
use crate::cancel::CallCancel;
use crate::cell::Blueprint;
use crate::cell::factory::Factory;
use crate::cell::saving::Checkpoints;
use crate::current::within_current;
use crate::deadline::deadline_after;
use crate::failure::{Failure, panic_message};
#[cfg(feature = "hosts")]
use crate::hosts::dialing::{dial_peer, means_with};
use crate::hub::notice::Notice;
use crate::hub::post::Post;
use crate::hub::start::register_services;
use crate::hub::{Hub, LinkSettings};
use crate::id::{ActorId, LaneId};
use crate::lane::mailbox::{LaneMessage, ProgramEnd};
use crate::lane::program::LoadedPrograms;
use crate::lane::thread::LaneThread;
use crate::platform::link::{Stream, StreamReader, is_closed_descriptor};
use crate::platform::peer_socket::PeerEnd;
use crate::platform::sentinel;
use crate::reference::transit::Beside;
use crate::remote::service::Remote;
use crate::runtime::Runtime;
use crate::worker::exit::{EXIT_STUCK, exit_now, refuse};
use crate::worker::hello::Hello;
use crate::worker::protocol::{
    CreateActor, FRAME_HEADER_BYTES, FrameError, FrameHeader, FromWorker, RequestId, ToWorker, read_head,
};
use crate::worker::writer::{CLOSED, Writer};

/// Runs the worker to its end.
pub(crate) fn serve(link: Stream) -> ! {
    let writer = match link.try_clone() {
        Ok(writer) => Arc::new(Writer::Socket(Mutex::new(writer))),
        Err(error) => refuse(&format!("the link cannot be cloned: {error}")),
    };
    writer.send(&FromWorker::Hello {
        hello: Hello::mine(),
        sentinels: sentinel::start(),
    });
    let mut worker = WorkerLanes::new(writer);
    let mut link = StreamReader::new(link);
    loop {
        let read = read_frame(&mut link);
        let end = link.take_end();
        match read {
            Ok(Some((ToWorker::Notice(notice), _))) => worker.notice(notice, end),
            Ok(Some((message, body))) => worker.handle(message, body),
            // The driver is gone, so no process can use this worker any more.
            Ok(None) => exit_now(0),
            Err(FrameError::Io(error)) if is_closed_descriptor(&error) => refuse(CLOSED),
            Err(error) => refuse(&format!("the link to the driver broke: {error}")),
        }
    }
}

pub(crate) struct WorkerLanes {
    lanes: IdMap<LaneId, Arc<LaneThread>>,
    /// The calls that are not answered.
    calls: OpenCalls,
    /// Lanes that were told to end.
    ending: Vec<Arc<LaneThread>>,
    /// The hub of this process, once the driver has given the process its name.
    hub: Option<Arc<Hub>>,
    /// The runtime that remote functions find in this process.
    runtime: Option<Runtime>,
    writer: Arc<Writer>,
}

/// The calls of a worker that are not answered.
type OpenCalls = Arc<Mutex<IdMap<RequestId, Arc<CallCancel>>>>;

/// A call that is not answered. The drop forgets it, and tells the driver that no actor answers: its lane has ended.
struct OpenCall {
    request: RequestId,
    calls: OpenCalls,
    writer: Arc<Writer>,
    is_answered: bool,
}

impl OpenCall {
    fn answer(mut self, result: Result<Returned, CallFault>) {
        self.is_answered = true;
        let (writer, request) = (Arc::clone(&self.writer), self.request);
        drop(self);
        returned(&writer, request, result);
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.request);
        if !self.is_answered {
            returned(&self.writer, self.request, Err(CallFault::NoActor));
        }
    }
}

/// An order to create an actor that is not answered. The drop answers that the lane has ended.
struct OpenOrder {
    request: RequestId,
    lane: LaneId,
    writer: Arc<Writer>,
    is_answered: bool,
}

impl OpenOrder {
    fn answer(mut self, result: Result<(), Failure>) {
        self.is_answered = true;
        created(&self.writer, self.request, result);
    }
}

impl Drop for OpenOrder {
    fn drop(&mut self) {
        if !self.is_answered {
            let ended = Failure::Internal(format!("{} of the worker has ended", self.lane));
            created(&self.writer, self.request, Err(ended));
        }
    }
}

impl WorkerLanes {
    fn new(writer: Arc<Writer>) -> Self {
        WorkerLanes {
            lanes: IdMap::new(),
            calls: OpenCalls::default(),
            ending: Vec::new(),
            hub: None,
            runtime: None,
            writer,
        }
    }

    /// The lanes of a worker that has its hub already.
    #[cfg(feature = "hosts")]
    pub(crate) fn with_hub(writer: Arc<Writer>, hub: Arc<Hub>, runtime: Runtime) -> Self {
        WorkerLanes {
            hub: Some(hub),
            runtime: Some(runtime),
            ..WorkerLanes::new(writer)
        }
    }

    /// The driver is dead, and with it the actors and the calls that it has made here.
    #[cfg(feature = "hosts")]
    pub(crate) fn driver_died(&mut self) {
        let calls = std::mem::take(&mut *self.calls.lock());
        calls.values().for_each(|cancel| cancel.cancel());
        for lane in std::mem::take(&mut self.lanes).into_values() {
            lane.stop();
            self.ending.push(lane);
        }
        self.ending.retain(|lane| !lane.is_gone());
    }

    /// Acts on a message of the driver.
    pub(crate) fn handle(&mut self, message: ToWorker, body: Vec<u8>) {
        match message {
            ToWorker::Welcome {
                hello,
                peer,
                driver,
                spin,
                ..
            } => self.welcomed(&hello, peer, driver, spin),
            ToWorker::Notice(notice) => self.notice(notice, None),
            ToWorker::Create { request, order } => {
                if let Err(failure) = self.create(request, &order, &body) {
                    created(&self.writer, request, Err(failure));
                }
            }
            ToWorker::Remove { lane, actor } => {
                if let Some(lane) = self.lanes.get(&lane) {
                    // A lane that has ended has no actors.
                    let _ = lane.push(LaneMessage::Remove(actor));
                }
            }
            ToWorker::Call {
                request,
                lane,
                actor,
                method,
                extension,
            } => {
                let method = extended(extension.as_deref(), method);
                self.call(request, lane, actor, method, body);
            }
            ToWorker::Load { request, kind } => self.load(request, &kind, &body),
            ToWorker::EndLane { request, lane } => {
                let writer = Arc::clone(&self.writer);
                let answer = move || writer.send(&FromWorker::LaneEnded { request });
                match self.lanes.remove(&lane) {
                    Some(lane) => {
                        lane.stop();
                        lane.when_ended(Box::new(answer));
                        self.ending.retain(|lane| !lane.is_gone());
                        self.ending.push(lane);
                    }
                    None => answer(),
                }
            }
            ToWorker::Cancel { request } => {
                let cancel = self.calls.lock().remove(&request);
                if let Some(cancel) = cancel {
                    cancel.cancel();
                }
            }
            // A lane that was told to end may still await.
            ToWorker::WakeAsync => self
                .lanes
                .values()
                .chain(&self.ending)
                .for_each(|lane| lane.wake_async()),
            ToWorker::Interrupt => self.runtime.iter().for_each(|it| it.remote().interrupt()),
            ToWorker::Ping => self.writer.send(&FromWorker::Pong),
            ToWorker::Shutdown {
                grace_ms,
                ends_runtime,
            } => self.shut_down(Duration::from_millis(grace_ms), ends_runtime),
        }
    }

    fn welcomed(&mut self, hello: &Hello, peer: Peer, driver: Peer, spin: Option<Duration>) {
        if let Err(error) = hello.check(&Hello::mine()) {
            refuse(&error.to_string());
        }
        // A worker of another host has its hub since its handshake.
        if self.hub.is_none() {
            let (hub, runtime) = self.start_hub(peer, driver);
            (self.hub, self.runtime) = (Some(hub), Some(runtime));
        }
        if let Some(hub) = &self.hub {
            hub.set_spin(spin);
        }
    }

    fn notice(&self, notice: Notice, end: Option<PeerEnd>) {
        let Some(hub) = &self.hub else { return };
        #[cfg(feature = "hosts")]
        if let Notice::Dial {
            peer,
            connect_at,
            keys,
        } = notice
        {
            let (writer, runtime) = (Arc::clone(&self.writer), self.runtime.clone());
            let failed = move |why: String| {
                if let Some(runtime) = &runtime {
                    runtime.remote().unreachable.note(peer, why.clone());
                }
                writer.send(&FromWorker::NotLinked { peer, why });
            };
            return dial_peer(hub, peer, connect_at, means_with(keys), failed);
        }
        if let (Notice::NotLinked(peer, why), Some(runtime)) = (&notice, &self.runtime) {
            runtime.remote().unreachable.note(*peer, why.clone());
        }
        hub.notice(notice, end);
    }

    fn start_hub(&self, me: Peer, driver: Peer) -> (Arc<Hub>, Runtime) {
        let writer = Arc::clone(&self.writer);
        let ask = move |peer| writer.send(&FromWorker::AskLink { peer });
        let hub = Hub::of_worker(me, driver, LinkSettings::default(), ask);
        let remote = Remote::new(Arc::clone(&hub) as Arc<dyn Post>);
        register_services(&hub, &remote);
        (hub, Runtime::of_worker(remote))
    }

    fn create(&mut self, request: RequestId, order: &CreateActor, body: &[u8]) -> Result<(), Failure> {
        let entry = find_actor(&order.type_name).map_err(Failure::from_error)?;
        let (args, checkpoints) = self.checkpoints(order, body)?;
        let lane = self.lane(order.lane, &order.lane_name)?;
        let blueprint = Blueprint {
            id: order.actor,
            name: order.name.as_str().into(),
            entry,
            factory: Factory::Constructor(order.constructor, args.into()),
            on_panic: order.on_panic,
            device: None,
            core: order.core,
            concurrency: order.concurrency,
            build_limit: order.build_limit,
            checkpoints,
        };
        let open = OpenOrder {
            request,
            lane: order.lane,
            writer: Arc::clone(&self.writer),
            is_answered: false,
        };
        let reply = Box::new(move |result| open.answer(result));
        // A lane that has ended drops the order, which answers it.
        drop(lane.push(LaneMessage::Create(blueprint, reply)));
        Ok(())
    }

    /// Divides the body of an order into the constructor's arguments and the last checkpoint, and returns the arguments and the
    /// checkpoints.
    fn checkpoints<'b>(
        &self,
        order: &CreateActor,
        body: &'b [u8],
    ) -> Result<(&'b [u8], Option<Arc<Checkpoints>>), Failure> {
        let Some(rules) = order.checkpoints else {
            return Ok((body, None));
        };
        let mut checkpoints = Checkpoints::new(rules);
        if rules.outlive_process {
            let (writer, actor) = (Arc::clone(&self.writer), order.actor);
            checkpoints = checkpoints.send_to(Box::new(move |state| {
                let sent = writer.send_with(&FromWorker::Saved { actor }, state);
                sent.map_err(|error| error.to_string())
            }));
        }
        let Some(bytes) = order.last_bytes else {
            return Ok((body, Some(Arc::new(checkpoints))));
        };
        let divided = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| body.split_at_checked(body.len().checked_sub(bytes)?));
        let Some((args, last)) = divided else {
            let text = format!("an order of {} bytes for a checkpoint of {bytes}", body.len());
            return Err(Failure::Internal(text));
        };
        checkpoints.set_last(Some(Bytes::copy_from_slice(last)));
        Ok((args, Some(Arc::new(checkpoints))))
    }

    fn lane(&mut self, id: LaneId, name: &str) -> Result<Arc<LaneThread>, Failure> {
        if let Some(lane) = self.lanes.get(&id) {
            return Ok(Arc::clone(lane));
        }
        let current = self.runtime.as_ref().map(|it| it.remote().current_of_actors());
        let lane = LaneThread::start(id, name, current).map_err(Failure::from_error)?;
        self.lanes.insert(id, Arc::clone(&lane));
        Ok(lane)
    }

    fn call(
        &self,
        request: RequestId,
        lane: LaneId,
        actor: ActorId,
        method: Result<Method, UnknownExtension>,
        body: Vec<u8>,
    ) {
        let writer = Arc::clone(&self.writer);
        let method = match method {
            Ok(method) => method,
            Err(unknown) => {
                let fault = CallFault::Failed(Failure::from_error(unknown));
                return returned(&writer, request, Err(fault));
            }
        };
        let cancel = Arc::<CallCancel>::default();
        self.calls.lock().insert(request, Arc::clone(&cancel));
        let open = OpenCall {
            request,
            calls: Arc::clone(&self.calls),
            writer,
            is_answered: false,
        };
        let call = ActorCall {
            actor,
            method,
            arguments: Arguments::Bytes(body.into()),
            reply: Box::new(move |result| open.answer(result)),
            cancel,
        };
        // A call whose lane has ended is answered by its drop.
        if let Some(lane) = self.lanes.get(&lane) {
            lane.call(call);
        }
    }

    /// Has a loader make programs. It finds this process's runtime.
    fn load_programs(&self, kind: &str, bytes: &[u8]) -> Result<LoadedPrograms, String> {
        match &self.runtime {
            Some(runtime) => within_current(&runtime.remote().current_of_actors(), || {
                load_programs(kind, bytes)
            }),
            None => load_programs(kind, bytes),
        }
    }

    fn load(&self, request: RequestId, kind: &str, bytes: &[u8]) {
        let programs = match self.load_programs(kind, bytes) {
            Ok(programs) => programs,
            Err(reason) => {
                self.writer.send(&FromWorker::Loaded {
                    request,
                    result: Err(reason),
                });
                return;
            }
        };
        let missing = programs
            .iter()
            .map(|(lane, _)| *lane)
            .find(|lane| !self.lanes.contains_key(lane));
        let result = match missing {
            Some(lane) => Err(format!("{lane} has no actor in this worker")),
            None => Ok(programs.iter().map(|(lane, _)| *lane).collect::<Vec<_>>()),
        };
        let refused = result.is_err();
        // Sent before any program starts, because the driver must learn of the start before it learns of an end.
        self.writer.send(&FromWorker::Loaded { request, result });
        if refused {
            return;
        }
        for (id, program) in programs {
            let Some(lane) = self.lanes.get(&id) else { continue };
            let writer = Arc::clone(&self.writer);
            let end = ProgramEnd::new(move |panic| writer.send(&FromWorker::Ended { lane: id, panic }));
            // A lane that refuses the program has ended. The drop of the program reports that.
            drop(lane.push(LaneMessage::Run(program, end)));
        }
    }

    /// Stops the lanes, which drops the actors, and the functions, waits for both, and exits. Those that do not end in time end
    /// with the process. Methods that wait for other processes of a runtime that ends are told so.
    fn shut_down(&self, grace: Duration, ends_runtime: bool) -> ! {
        for lane in self.lanes.values() {
            lane.stop();
        }
        let deadline = deadline_after(grace);
        let have_functions_ended = self.runtime.as_ref().is_none_or(|runtime| {
            let remote = runtime.remote();
            if ends_runtime {
                remote.stop();
                return remote.wait_for_threads(deadline);
            }
            remote.end_functions(deadline)
        });
        let mut lanes = self.lanes.values().chain(&self.ending);
        let has_ended = have_functions_ended & lanes.all(|lane| lane.join_until(deadline));
        // Not `exit`, because exit handlers of other libraries may wait for threads that are stuck. Printed output must
        // be flushed, though.
        let _ = std::io::stdout().flush();
        exit_now(if has_ended { 0 } else { EXIT_STUCK })
    }
}

/// The method that a call names.
fn extended(extension: Option<&str>, index: u16) -> Result<Method, UnknownExtension> {
    match extension {
        None => Ok(index.into()),
        Some(key) => {
            let extension = find_extension(key).ok_or_else(|| UnknownExtension(key.to_owned()))?;
            Ok((extension, index).into())
        }
    }
}

fn load_programs(kind: &str, bytes: &[u8]) -> Result<LoadedPrograms, String> {
    let loader = find_loader(kind).ok_or_else(|| format!("no loader for programs of kind `{kind}`"))?;
    let load = std::panic::AssertUnwindSafe(|| (loader.load)(bytes));
    std::panic::catch_unwind(load)
        .unwrap_or_else(|payload| Err(format!("the loader panicked: {}", panic_message(payload))))
}

fn created(writer: &Writer, request: RequestId, result: Result<(), Failure>) {
    let report = result.as_ref().copied().map_err(Failure::report);
    writer.send(&FromWorker::Created {
        request,
        result: report,
    });
    dispose(result);
}

/// Answers a call. The answer is sent first, because the drop of an error is user code, which may panic or take long.
fn returned(writer: &Writer, request: RequestId, result: Result<Returned, CallFault>) {
    let failed = |failure: &Failure| FromWorker::Returned {
        request,
        result: Err(failure.report()),
    };
    let (answer, body) = match &result {
        Ok(Returned::Passed(body, Beside(handles))) if handles.is_empty() => (
            FromWorker::Returned {
                request,
                result: Ok(()),
            },
            body.to_bytes(),
        ),
        Ok(Returned::Local(_) | Returned::Passed(..) | Returned::Kept(_)) => {
            let text = "a call between processes returned no bytes".to_owned();
            (failed(&Failure::Internal(text)), Bytes::new())
        }
        Err(CallFault::Failed(failure)) => (failed(failure), Bytes::new()),
        Err(CallFault::Died(_) | CallFault::NoActor | CallFault::Remote(_)) => {
            (FromWorker::NoActor { request }, Bytes::new())
        }
    };
    if let Err(error) = writer.send_with(&answer, &body) {
        writer.send(&failed(&Failure::from_error(error)));
    }
    dispose(result);
}

fn read_frame(link: &mut StreamReader) -> Result<Option<(ToWorker, Vec<u8>)>, FrameError> {
    let mut start = [0; FRAME_HEADER_BYTES];
    match link.read_exact(&mut start) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let header = FrameHeader::parse(start)?;
    let mut head = vec![0; header.head_bytes];
    link.read_exact(&mut head)?;
    let mut body = Vec::new();
    let read = link.take(header.body_bytes).read_to_end(&mut body)?;
    if read as u64 != header.body_bytes {
        return Err(FrameError::Io(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(Some((read_head(&head)?, body)))
}
