//! The side of the process that is asked: letters come in, functions run, answers go out.

use std::sync::Arc;

use bytes::Bytes;
use selvedge_cluster::peer::Peer;
use selvedge_cluster::session::Outcome as Fate;

use crate::actor::arguments::{Arguments, Returned};
use crate::call::remote_error::RemoteError;
use crate::cancel::CallCancel;
use crate::failure::Failure;
use crate::hub::post::{Letter, PostError, Receiver};
use crate::remote::asking::log;
use crate::remote::calls::CallId;
use crate::remote::function::{FunctionId, Wants, find_function, known_functions};
use crate::remote::message::{CallMessage, Fault};
use crate::remote::parts::Whole;
use crate::remote::service::Remote;
use crate::remote::waiter::Outcome;

impl Receiver for Remote {
    fn received(&self, from: Peer, letter: Letter) {
        match CallMessage::of(&letter) {
            Some(CallMessage::Call {
                call,
                function,
                wants,
            }) => {
                let body = self.complete(from, call, Whole::Arguments, letter.body);
                self.serve(from, call, function, wants, body);
            }
            Some(CallMessage::Part { call, of }) => {
                let added = self.parts.lock().add(from, call, of, &letter.body);
                if added.is_err() {
                    self.post.cut(from, "it sends a body without an end".to_owned());
                }
            }
            Some(CallMessage::Value { call }) => {
                let body = self.complete(from, call, Whole::Value, letter.body);
                // Nobody else has these bytes, so this moves them.
                self.answered(from, call, || Ok(Returned::Bytes(body.into())));
            }
            Some(CallMessage::Fault { call }) => {
                self.answered(from, call, || Err(Fault::decode(&letter.body).into()));
            }
            Some(CallMessage::Cancel { call }) => {
                self.parts.lock().forget(from, call);
                let cancelled = self.served.lock().cancel(from, call);
                if let Some(cancel) = cancelled {
                    cancel.cancel();
                }
            }
            // A build with other messages: whoever asked has its deadline.
            None => {}
        }
    }

    fn died(&self, peer: Peer, fates: &[(u64, Fate)]) {
        self.seen.lock().insert(peer.process);
        self.parts.lock().died(peer);
        let lost = self.asked.lock().died(peer, fates);
        for (waiter, ran) in lost {
            self.settle(&waiter, Err(RemoteError::Died { ran }));
        }
        let orphans = self.served.lock().died(peer);
        orphans.iter().for_each(|cancel| cancel.cancel());
    }
}

impl Remote {
    fn complete(&self, from: Peer, call: CallId, of: Whole, last: Bytes) -> Bytes {
        self.parts.lock().complete(from, call, of, last)
    }

    fn answered(&self, from: Peer, call: CallId, outcome: impl FnOnce() -> Outcome) {
        let waiter = self.asked.lock().answered(from, call);
        if let Some(waiter) = waiter {
            self.settle(&waiter, outcome());
        }
    }

    fn serve(&self, from: Peer, call: CallId, function: FunctionId, wants: Wants, body: Bytes) {
        let cancel = Arc::<CallCancel>::default();
        if wants != Wants::Nothing && !self.served.lock().begin(from, call, Arc::clone(&cancel)) {
            return;
        }
        let Some(function) = find_function(function) else {
            let known = known_functions();
            return self.fail(from, call, Fault::Unknown { known });
        };
        let this = self.this.clone();
        let reply = Box::new(move |outcome| {
            let Some(this) = this.upgrade() else { return };
            if wants == Wants::Nothing {
                return log(function, this.me(), outcome);
            }
            match outcome {
                Ok(returned) => this.succeed(from, call, returned),
                Err(error) => this.fail(from, call, error.into()),
            }
        });
        self.run(function, Arguments::Bytes(body.into()), wants, cancel, reply);
    }

    fn succeed(&self, from: Peer, call: CallId, returned: Returned) {
        let Returned::Bytes(bytes) = returned else {
            let failure = Failure::Internal("a value for another process without bytes".to_owned());
            return self.fail(from, call, Fault::Failed(failure.into_report()));
        };
        if !self.served.lock().end(from, call) {
            return;
        }
        let message = (call, CallMessage::Value { call });
        match self.send(from, message, Whole::Value, bytes.into()) {
            Err(PostError::TooLarge { bytes, limit }) => {
                self.send_fault(from, call, &Fault::TooLarge { bytes, limit });
            }
            sent => self.told(from, sent),
        }
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
        self.told(to, sent);
    }

    /// Cuts off a peer that cannot be told what it must learn: its caller would wait for ever. A peer that is dead needs
    /// to learn nothing.
    pub(super) fn told(&self, peer: Peer, sent: Result<u64, PostError>) {
        match sent {
            Ok(_) | Err(PostError::Dead(_) | PostError::NoSuchPeer(_)) => {}
            Err(error) => self
                .post
                .cut(peer, format!("a letter that it needs cannot be sent: {error}")),
        }
    }
}
