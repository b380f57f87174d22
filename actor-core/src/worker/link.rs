//! The driver's end of a worker's link: requests are sent in order, and each answer is matched with its request.

use parking_lot::Mutex;
use selvedge_cluster::id_map::{IdMap, IdSet};
use selvedge_cluster::peer::Peer;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::cancel::Recall;
use crate::death::Death;
use crate::failure::FailureReport;
use crate::id::{ActorId, LaneId};
use crate::platform::link::{LinkWriter, send_end};
use crate::platform::peer_socket::PeerEnd;
#[cfg(any(test, feature = "hosts"))]
use crate::worker::protocol::FRAME_HEADER_BYTES;
use crate::worker::protocol::{FromWorker, RequestId, ToWorker, frame_front};
use crate::worker::words::Words;

/// A worker's answer to a request.
pub(crate) enum Response {
    Created(Result<(), FailureReport>),
    Returned(Result<Vec<u8>, FailureReport>),
    NoActor,
    Loaded(Result<Vec<LaneId>, String>),
    LaneEnded,
}

/// The reason that a request got no answer.
#[derive(Clone, Debug)]
pub(crate) enum LinkLost {
    /// The worker died before it answered.
    Died(Death),
    /// The request could not be put into a frame.
    NotSent(String),
}

pub(crate) type OnResponse = Box<dyn FnOnce(Result<Response, LinkLost>) + Send>;

/// A request that could not be sent, and whose callback was not called.
pub(crate) struct Unsent {
    on_response: OnResponse,
    lost: LinkLost,
}

impl Unsent {
    fn new(on_response: OnResponse, lost: LinkLost) -> Box<Self> {
        Box::new(Unsent { on_response, lost })
    }

    /// Calls the callback with the reason.
    pub(crate) fn tell(self) {
        (self.on_response)(Err(self.lost));
    }
}

/// A message on its way to a worker.
pub(crate) struct Outgoing {
    /// The header and the head of its frame.
    front: Vec<u8>,
    body: Vec<u8>,
    /// The number of the request, if the message is one.
    #[cfg_attr(
        not(feature = "hosts"),
        expect(dead_code, reason = "a socket pair refuses nothing")
    )]
    request: Option<RequestId>,
    /// The end of a pair that the worker gets with the frame.
    end: Option<PeerEnd>,
}

#[cfg(any(test, feature = "hosts"))]
impl Outgoing {
    /// The encoded message.
    pub(crate) fn head(&self) -> &[u8] {
        self.front.get(FRAME_HEADER_BYTES..).unwrap_or_default()
    }

    /// The number of the request, if the message is one.
    #[cfg(feature = "hosts")]
    pub(crate) fn request(&self) -> Option<RequestId> {
        self.request
    }

    /// The body of the message.
    #[cfg(feature = "hosts")]
    pub(crate) fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }
}

#[derive(Default)]
struct Pending {
    next: RequestId,
    handlers: IdMap<RequestId, OnResponse>,
    /// The requests to load programs, which occupy the thread that reads the link there.
    loads: IdSet<RequestId>,
    lost: Option<Death>,
}

pub(crate) struct Link {
    outgoing: mpsc::UnboundedSender<Outgoing>,
    pending: Mutex<Pending>,
    body_bytes_max: usize,
}

impl Recall for Link {
    fn recall(&self, request: RequestId) {
        // A worker that is gone has no calls, and one that has answered forgets the request.
        let _ = self.tell(&ToWorker::Cancel { request });
    }
}

impl Link {
    /// Creates a link, and the queue that [`write_frames`] writes to the socket.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Outgoing>) {
        Self::with_limit(usize::MAX)
    }

    /// Creates a link whose carrier takes bodies of so many bytes, and its queue.
    pub(crate) fn with_limit(body_bytes_max: usize) -> (Self, mpsc::UnboundedReceiver<Outgoing>) {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let link = Self {
            outgoing,
            pending: Mutex::default(),
            body_bytes_max,
        };
        (link, queue)
    }

    /// Sends a message that has no answer.
    pub(crate) fn tell(&self, message: &ToWorker) -> Result<(), LinkLost> {
        self.send(message, None, Vec::new(), None)
    }

    /// Sends a message that has no answer, with an end of a pair if there is one.
    pub(crate) fn tell_with(&self, message: &ToWorker, end: Option<PeerEnd>) -> Result<(), LinkLost> {
        self.send(message, None, Vec::new(), end)
    }

    /// Sends a request. `on_response` is called once, with the answer or with the loss of the worker;
    /// [`drop_requests`](Self::drop_requests) drops it without a call.
    pub(crate) fn request(
        &self,
        message: impl FnOnce(RequestId) -> ToWorker,
        body: Vec<u8>,
        on_response: OnResponse,
    ) {
        if let Err(unsent) = self.submit(message, body, on_response) {
            unsent.tell();
        }
    }

    /// Sends a request as [`request`](Self::request) does, and returns the request's number. If the request cannot be sent,
    /// `on_response` is not called, and comes back with the reason.
    pub(crate) fn submit(
        &self,
        message: impl FnOnce(RequestId) -> ToWorker,
        body: Vec<u8>,
        on_response: OnResponse,
    ) -> Result<RequestId, Box<Unsent>> {
        let (id, message) = {
            let mut pending = self.pending.lock();
            if let Some(death) = pending.lost.clone() {
                return Err(Unsent::new(on_response, LinkLost::Died(death)));
            }
            let id = pending.next;
            pending.next += 1;
            pending.handlers.insert(id, on_response);
            let message = message(id);
            if matches!(message, ToWorker::Load { .. }) {
                pending.loads.insert(id);
            }
            (id, message)
        };
        match self.send(&message, Some(id), body, None) {
            Ok(()) => Ok(id),
            // A handler that is not there any more was called with the worker's death.
            Err(lost) => self
                .take(id)
                .map_or(Ok(id), |on_response| Err(Unsent::new(on_response, lost))),
        }
    }

    /// Whether the worker cannot read its link at present, because it loads programs.
    pub(crate) fn is_occupied(&self) -> bool {
        !self.pending.lock().loads.is_empty()
    }

    fn send(
        &self,
        message: &ToWorker,
        request: Option<RequestId>,
        body: Vec<u8>,
        end: Option<PeerEnd>,
    ) -> Result<(), LinkLost> {
        if body.len() > self.body_bytes_max {
            let (bytes, limit) = (body.len(), self.body_bytes_max);
            let text =
                format!("its body has {bytes} bytes, and {limit} are allowed to another host: send several");
            return Err(LinkLost::NotSent(text));
        }
        let front = frame_front(message, &body).map_err(|error| LinkLost::NotSent(error.to_string()))?;
        // The other end of the queue is gone only after the socket has failed. Every request is then answered by the
        // worker's death, which is detected soon.
        let _ = self.outgoing.send(Outgoing {
            front,
            body,
            request,
            end,
        });
        Ok(())
    }

    fn take(&self, id: RequestId) -> Option<OnResponse> {
        let mut pending = self.pending.lock();
        pending.loads.remove(&id);
        pending.handlers.remove(&id)
    }

    /// Passes an answer to its request. An answer without a request is dropped.
    pub(crate) fn answer(&self, id: RequestId, response: Response) {
        if let Some(on_response) = self.take(id) {
            on_response(Ok(response));
        }
    }

    /// Answers a request that could not be sent.
    #[cfg(feature = "hosts")]
    pub(crate) fn refuse(&self, id: RequestId, why: String) {
        if let Some(on_response) = self.take(id) {
            on_response(Err(LinkLost::NotSent(why)));
        }
    }

    /// Answers every request, present and future, with the worker's death.
    pub(crate) fn lose(&self, death: &Death) {
        let handlers = {
            let mut pending = self.pending.lock();
            pending.lost = Some(death.clone());
            std::mem::take(&mut pending.handlers)
        };
        for on_response in handlers.into_values() {
            on_response(Err(LinkLost::Died(death.clone())));
        }
    }

    /// Drops the requests, which breaks the promises behind them, because the worker has ended as it was told to.
    pub(crate) fn drop_requests(&self) {
        let handlers = std::mem::take(&mut self.pending.lock().handlers);
        drop(handlers);
    }
}

/// Writes the queue to the socket until one of them ends. A worker that does not read blocks only this task.
pub(crate) async fn write_frames(mut queue: mpsc::UnboundedReceiver<Outgoing>, mut socket: LinkWriter) {
    while let Some(frame) = queue.recv().await {
        let written = async {
            let sent = match &frame.end {
                Some(end) => send_end(&socket, &frame.front, end).await?,
                None => 0,
            };
            socket
                .write_all(frame.front.get(sent..).unwrap_or_default())
                .await?;
            socket.write_all(&frame.body).await
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// Dispatches a worker's messages: answers go to their requests, ends of programs to `on_end`, and questions for a link to
/// a peer to `on_ask`, with the reason if the worker could not make it, and checkpoints to `on_saved`. Calls `on_any` for each message. Returns at their end, or at an invalid one.
pub(crate) async fn read_words(
    words: &mut Words,
    link: &Link,
    on_any: impl Fn(),
    mut on_end: impl FnMut(LaneId, Option<String>),
    on_ask: impl Fn(Peer, Option<String>),
    on_saved: impl Fn(ActorId, Vec<u8>),
) {
    while let Ok(Some((message, body))) = words.next().await {
        on_any();
        match message {
            // Only the first message may be a hello; another one is ignored.
            FromWorker::Hello { .. } | FromWorker::Pong => {}
            #[cfg(feature = "hosts")]
            FromWorker::Joined { .. } => {}
            FromWorker::Created { request, result } => link.answer(request, Response::Created(result)),
            FromWorker::Returned { request, result } => {
                link.answer(request, Response::Returned(result.map(|()| body)));
            }
            FromWorker::NoActor { request } => link.answer(request, Response::NoActor),
            FromWorker::Loaded { request, result } => link.answer(request, Response::Loaded(result)),
            FromWorker::LaneEnded { request } => link.answer(request, Response::LaneEnded),
            FromWorker::AskLink { peer } => on_ask(peer, None),
            FromWorker::NotLinked { peer, why } => on_ask(peer, Some(why)),
            FromWorker::Saved { actor } => on_saved(actor, body),
            FromWorker::Ended { lane, panic } => on_end(lane, panic),
        }
    }
}
