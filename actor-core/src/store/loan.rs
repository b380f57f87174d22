//! Memory that another process's store has lent to this one.

use std::sync::Arc;

use selvedge_cluster::frame::Class;
use selvedge_cluster::peer::Peer;
use selvedge_objects::store::StoreId;

use super::message::{STORES, StoreMessage};
use crate::body::Body;
use crate::hub::post::{Letter, Post};

/// Memory that the store of another process, its agent, has lent for an object. The drop gives it back, unless the agent was told whose
/// object it is.
pub(crate) struct StoreLoan {
    agent: Peer,
    object: StoreId,
    /// The way to the agent; `None` once it was told.
    post: Option<Arc<dyn Post>>,
}

impl StoreLoan {
    pub(super) fn new(agent: Peer, object: StoreId, post: Arc<dyn Post>) -> Self {
        let post = Some(post);
        StoreLoan { agent, object, post }
    }

    pub(crate) fn agent(&self) -> Peer {
        self.agent
    }

    pub(crate) fn object(&self) -> StoreId {
        self.object
    }

    /// The agent was told whose object it is, and seals it.
    pub(crate) fn told(mut self) {
        self.post = None;
    }
}

impl Drop for StoreLoan {
    fn drop(&mut self) {
        let Some(post) = self.post.take() else { return };
        let object = self.object;
        let letter = Letter::new(
            STORES,
            Class::Ordered,
            &StoreMessage::Abort { object },
            Body::EMPTY,
        );
        let sent = post.send(self.agent, letter);
        post.told(self.agent, sent);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;

    use parking_lot::Mutex;
    use selvedge_cluster::peer::{Incarnation, ProcessId};

    use super::*;
    use crate::hub::post::PostError;

    #[derive(Default)]
    struct SentMessages(Mutex<Vec<StoreMessage>>);

    impl Post for SentMessages {
        fn me(&self) -> Peer {
            agent()
        }

        fn peers(&self) -> Vec<Peer> {
            vec![agent()]
        }

        fn send(&self, _: Peer, letter: Letter) -> Result<u64, PostError> {
            self.0.lock().push(postcard::from_bytes(&letter.head).unwrap());
            Ok(1)
        }

        fn cut(&self, _: Peer, why: String) {
            panic!("{why}");
        }

        fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
            false
        }
    }

    fn agent() -> Peer {
        Peer {
            process: ProcessId::HEAD,
            incarnation: Incarnation(1),
        }
    }

    #[test]
    fn a_loan_goes_back_unless_its_agent_was_told_whose_object_it_is() {
        let sent = Arc::<SentMessages>::default();
        let loan = |object| StoreLoan::new(agent(), StoreId(object), Arc::clone(&sent) as Arc<dyn Post>);
        loan(1).told();
        drop(loan(2));
        let given_back = |message: &StoreMessage| match message {
            StoreMessage::Abort { object } => Some(*object),
            _ => None,
        };
        let sent: Vec<_> = sent.0.lock().iter().map(given_back).collect();
        assert_eq!(sent, [Some(StoreId(2))]);
    }
}
