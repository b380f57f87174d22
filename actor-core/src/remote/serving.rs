//! The side of the process that is asked: letters come in, functions run, answers go out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use selvedge_cluster::peer::{Peer, ProcessId};
use selvedge_cluster::session::Outcome as Fate;
use selvedge_objects::channel::CHANNELS;
use selvedge_objects::refs::{Parcel, RefId};

use crate::actor::arguments::{Arguments, Returned};
use crate::body::Body;
use crate::call::remote_error::RemoteError;
use crate::cancel::CallCancel;
use crate::failure::Failure;
use crate::hub::post::{Letter, PostError, Receiver};
use crate::naming::message::NAMES;
use crate::reference::content::Content;
use crate::reference::handle::Handle;
use crate::reference::letters::ReferenceService;
use crate::reference::stored_value::StoredValue;
use crate::reference::transit::Beside;
use crate::reference::unsaid::Unsaid;
use crate::remote::asking::log;
use crate::remote::calls::CallId;
use crate::remote::function::{FunctionEntry, FunctionId, Invocation, Wants, find_function, known_functions};
use crate::remote::message::{CALLS, CallMessage, Fault};
use crate::remote::put::is_large;
use crate::remote::service::Remote;
use crate::remote::waiter::Outcome;
use crate::store::message::{FarObject, STORES, TRANSFERS};
use crate::store::placed::PlacedObject;
use crate::task::blocking::Scheduled;
use crate::task::outer::CallName;

/// A call of another process.
#[derive(Clone, Copy)]
struct PeerCall {
    call: CallId,
    function: FunctionId,
    wants: Wants,
}

impl Receiver for Remote {
    fn received(&self, from: Peer, letter: Letter) {
        match letter.service {
            CALLS => {}
            NAMES => return self.naming().received(from, &letter),
            CHANNELS => return self.channels.received(from, letter),
            STORES | TRANSFERS => return self.stores.received(from, letter),
            _ => return ReferenceService(&self.references).received(from, letter),
        }
        match CallMessage::of(&letter) {
            Some(CallMessage::Call {
                call,
                function,
                wants,
                name,
                parcels,
            }) => {
                let asked = PeerCall {
                    call,
                    function,
                    wants,
                };
                self.serve(from, (asked, name), parcels, letter.body);
            }
            Some(CallMessage::Value { call, parcels }) => {
                self.value_arrived(from, call, parcels, letter.body);
            }
            Some(CallMessage::Stored {
                call,
                parcels,
                object,
            }) => {
                self.stored_arrived(from, call, parcels, object);
            }
            Some(CallMessage::Fault { call }) => {
                self.answered(from, call, || Err(Fault::decode(&letter.body.to_bytes()).into()));
            }
            Some(CallMessage::Cancel { call }) => {
                let cancelled = self.served.lock().cancel(from, call);
                if let Some(cancel) = cancelled {
                    cancel.cancel();
                }
            }
            Some(CallMessage::Interrupt { call }) => {
                let interrupted = self.served.lock().find(from, call);
                if let Some(cancel) = interrupted {
                    cancel.cancel();
                }
            }
            Some(CallMessage::Withdraw { call }) => {
                let withdrawn = self.served.lock().find(from, call);
                if let Some(cancel) = withdrawn {
                    cancel.withdraw();
                }
            }
            Some(CallMessage::Blocked { call, is_blocked }) => self.tasks.blocked_at(from, call, is_blocked),
            // Only the process that schedules knows what its user has said.
            Some(CallMessage::Offered { cpus }) if from.process == ProcessId::HEAD => {
                self.executor.set_cpus(cpus);
            }
            Some(CallMessage::Offered { .. }) => {}
            Some(CallMessage::Submit { submission, parcels }) => {
                self.submission_arrived(from, submission, parcels, letter.body);
            }
            // A build with other messages: whoever asked has its deadline.
            None => {}
        }
    }

    fn joined(&self, peer: Peer) {
        self.tasks.workers_changed();
        self.naming().joined(peer);
    }

    fn leaves(&self, _: Peer) {
        self.tasks.workers_changed();
    }

    fn ended(&self, peer: Peer) {
        self.stores.ended(peer);
        self.naming().ended(peer);
    }

    fn died(&self, peer: Peer, fates: &[(u64, Fate)]) {
        ReferenceService(&self.references).died(peer);
        self.channels.died(peer);
        self.naming().died(peer);
        self.stores.died(peer);
        let lost = self.asked.lock().died(peer, fates);
        for (waiter, ran) in lost {
            let no_link = self.unreachable.of(peer);
            let why = no_link.unwrap_or_else(|| self.died(peer, ran));
            self.settle(&waiter, Err(why));
        }
        self.tasks.worker_died(peer);
        if self.post.is_job(peer) {
            self.tasks.job_ended(peer);
        }
        let orphans = self.served.lock().died(peer);
        orphans.iter().for_each(|cancel| cancel.cancel());
    }
}

impl Remote {
    fn answered(&self, from: Peer, call: CallId, outcome: impl FnOnce() -> Outcome) {
        let waiter = self.asked.lock().answered(from, call);
        if let Some(waiter) = waiter {
            self.settle(&waiter, outcome());
        }
    }

    /// The value of a call has arrived; it counts once the references in it have come to rest.
    fn value_arrived(&self, from: Peer, call: CallId, parcels: Vec<Parcel>, body: Body) {
        let (me, references) = ((self, &self.this), &self.references);
        references.arrived_at(me, from, parcels, move |this, handles| {
            this.answered(from, call, || match handles {
                Ok(handles) => Ok(Returned::Passed(body, Beside(handles))),
                Err(error) => Err(RemoteError::Failed(Failure::from_error(error))),
            });
        });
    }

    /// The value of a submitted call has been put into the store of the worker's host.
    fn stored_arrived(&self, from: Peer, call: CallId, parcels: Vec<Parcel>, object: FarObject) {
        if object.name.maker != from {
            let why = "it has made a value that another process has filled".to_owned();
            return self.post.cut(from, why);
        }
        let (me, references) = ((self, &self.this), &self.references);
        // Noted at once: the death of the worker leaves it, and the drop gives it back if nobody waits for it.
        let placed = PlacedObject::elsewhere(&self.stores, object);
        references.arrived_at(me, from, parcels, move |this, handles| {
            this.answered(from, call, || match handles {
                Ok(handles) => Ok(Returned::Kept(
                    StoredValue::untyped(placed, handles).into_object(),
                )),
                Err(error) => Err(RemoteError::Failed(Failure::from_error(error))),
            });
        });
    }

    fn serve(
        &self,
        from: Peer,
        (asked, name): (PeerCall, Option<CallName>),
        parcels: Vec<Parcel>,
        body: Body,
    ) {
        let cancel = Arc::<CallCancel>::default();
        let answers = matches!(asked.wants, Wants::Value | Wants::Submitted { .. } | Wants::End);
        if answers && !self.served.lock().begin(from, asked.call, Arc::clone(&cancel)) {
            return;
        }
        if !answers {
            self.unanswered.note(&cancel);
        }
        let kept = match parcels.first() {
            Some(Parcel::Keep { id }) => Some(*id),
            _ => None,
        };
        let (me, references) = ((self, &self.this), &self.references);
        references.arrived_at(me, from, parcels, move |this, handles| {
            let reply = this.reply(from, asked, kept);
            let Some(function) = find_function(asked.function) else {
                let known = known_functions();
                return reply(None, Err(RemoteError::UnknownFunction { near: known }));
            };
            let handles = match handles {
                Ok(handles) => handles,
                Err(error) => {
                    let report = Failure::from_error(error).into_report();
                    return reply(Some(function), Err(RemoteError::Arguments(report)));
                }
            };
            let invocation = Invocation {
                arguments: Arguments::Bytes(body),
                handles,
                wants: asked.wants,
            };
            let reply = Box::new(move |outcome| reply(Some(function), outcome));
            match asked.wants {
                Wants::Submitted { .. } => {
                    let by = Scheduled::By(from, asked.call);
                    this.run_submitted(function, invocation, cancel, (by, name), reply);
                }
                _ => this.run(function, invocation, cancel, reply),
            }
        });
    }

    /// Sends the outcome of a call to the process that asked, or puts it into its place.
    fn reply(
        &self,
        from: Peer,
        asked: PeerCall,
        kept: Option<RefId>,
    ) -> impl FnOnce(Option<&'static FunctionEntry>, Outcome) + Send + use<> {
        let this = self.this.clone();
        move |function, outcome| {
            let Some(this) = this.upgrade() else { return };
            let PeerCall { call, wants, .. } = asked;
            match (wants, outcome, kept) {
                (Wants::Submitted { may_stay: true }, Ok(returned), _)
                    if is_large(&returned) && this.stores.is_far() =>
                {
                    let entrusted = (Arc::clone(&this), returned);
                    this.do_soon_or(
                        entrusted,
                        move |(this, returned)| match this.put_far(from, returned) {
                            Ok((object, handles)) => this.succeed_far(from, call, object, &handles),
                            Err(returned) => this.succeed(from, call, returned),
                        },
                        move |(this, returned)| this.succeed(from, call, returned),
                    );
                }
                (Wants::Value | Wants::Submitted { .. } | Wants::End, Ok(returned), _) => {
                    this.succeed(from, call, returned)
                }
                // The end of this process is the answer: a submitted call may run elsewhere then. Relaxed: set before the locks were taken
                // under which calls are refused and interrupted.
                (_, Err(RemoteError::Shutdown), _) | (Wants::Submitted { .. }, Err(_), _)
                    if this.is_ending.load(Ordering::Relaxed) => {}
                (Wants::Value | Wants::Submitted { .. } | Wants::End, Err(error), _) => {
                    this.fail(from, call, error.into())
                }
                (Wants::Kept, outcome, Some(id)) => this.fill(id, this.content(function, outcome)),
                (Wants::Kept | Wants::Nothing, outcome, _) => {
                    if let Some(function) = function {
                        log(function, this.me(), outcome);
                    }
                }
            }
        }
    }

    fn succeed(&self, from: Peer, call: CallId, returned: Returned) {
        let Returned::Passed(body, Beside(handles)) = returned else {
            let failure = Failure::Internal("a value for another process without bytes".to_owned());
            return self.fail(from, call, Fault::Failed(failure.into_report()));
        };
        if !self.served.lock().end(from, call) {
            return;
        }
        let letter = |parcels| CallMessage::Value { call, parcels }.letter(body);
        if let Err(error) = self.references.send(from, None, &handles, letter) {
            self.value_unsaid(from, call, error);
        }
    }

    /// Tells the process that asked in which store the value of its call lies.
    fn succeed_far(&self, from: Peer, call: CallId, object: FarObject, handles: &[Arc<Handle>]) {
        if !self.served.lock().end(from, call) {
            return self.stores.abandon(&object);
        }
        let sent = self.references.send(from, None, handles, |parcels| {
            let message = CallMessage::Stored {
                call,
                parcels,
                object,
            };
            message.letter(Body::EMPTY)
        });
        if let Err(error) = sent {
            self.stores.abandon(&object);
            self.value_unsaid(from, call, error);
        }
    }

    fn value_unsaid(&self, from: Peer, call: CallId, error: Unsaid) {
        let fault = match error {
            Unsaid::Post(PostError::TooLarge { bytes, limit }) => Fault::TooLarge { bytes, limit },
            error @ (Unsaid::Reference(_) | Unsaid::Post(PostError::Full { .. })) => {
                Fault::Failed(error.into_failure().into_report())
            }
            Unsaid::Post(error) => return self.post.told(from, Err(error)),
        };
        self.send_fault(from, call, &fault);
    }

    fn fail(&self, from: Peer, call: CallId, fault: Fault) {
        if self.served.lock().end(from, call) {
            self.send_fault(from, call, &fault);
        }
    }

    fn send_fault(&self, to: Peer, call: CallId, fault: &Fault) {
        let sent = self
            .post
            .send(to, CallMessage::Fault { call }.letter(fault.encode()));
        self.post.told(to, sent);
    }

    /// The content of an object whose function has ended, or is unknown here.
    fn content(&self, function: Option<&FunctionEntry>, outcome: Outcome) -> Content {
        match (function, outcome) {
            (Some(function), outcome) => self.content_of(function, outcome),
            (None, Err(error)) => Err(Arc::new(Failure::from_error(error))),
            (None, Ok(_)) => {
                let text = "a value of an unknown function".to_owned();
                Err(Arc::new(Failure::Internal(text)))
            }
        }
    }
}
