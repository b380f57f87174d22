//! Nodes: the tasks of the control thread. A node handles one message after the other, and its end is reported.
//!
//! - `NODE-1`: the end of a node is reported exactly once, after its last message was handled and its queue was closed.
//! - `NODE-2`: a panic while a message is handled ends that node alone, and is reported with its end.
//!
//! A node that sends and reports to one other node does so through that node's one queue, so the report arrives after
//! the messages. A library of actors would offer more (names, groups, links, time-outs of calls) than these nodes need.

use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use selvedge_channels::dispose;

use crate::boxed::boxed_task;
use crate::failure::Failure;

/// The behaviour and the state of a node.
pub(crate) trait Node: Send + 'static {
    type Message: Send + 'static;

    /// Handles a message. `Break` ends the node.
    fn handle(
        &mut self,
        myself: &NodeRef<Self::Message>,
        message: Self::Message,
    ) -> impl Future<Output = ControlFlow<()>> + Send;
}

/// A reference to a node, through which any thread sends messages.
pub(crate) struct NodeRef<M>(UnboundedSender<M>);

impl<M> Clone for NodeRef<M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M> NodeRef<M> {
    /// Sends a message; returns `false`, and drops the message, once the node has ended.
    pub(crate) fn send(&self, message: M) -> bool {
        self.0.send(message).is_ok()
    }
}

/// Starts a node on the calling thread, which is the control thread. `report` is called at the node's end, with the
/// failure if it was a panic.
pub(crate) fn start<N: Node>(
    node: N,
    report: impl FnOnce(Option<Failure>) + Send + 'static,
) -> NodeRef<N::Message> {
    let (sender, queue) = unbounded_channel();
    let myself = NodeRef(sender);
    tokio::spawn(boxed_task(run(node, myself.clone(), queue, report)));
    myself
}

async fn run<N: Node>(
    mut node: N,
    myself: NodeRef<N::Message>,
    mut queue: UnboundedReceiver<N::Message>,
    report: impl FnOnce(Option<Failure>),
) {
    // The queue stays open meanwhile, because this task holds a sender.
    let failure = loop {
        let Some(message) = queue.recv().await else {
            break None;
        };
        match contained(node.handle(&myself, message)).await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break None,
            Err(failure) => break Some(failure),
        }
    };
    queue.close();
    // Messages and state hold arguments and callbacks of users, whose drops may panic.
    while let Ok(message) = queue.try_recv() {
        dispose(message);
    }
    dispose(node);
    report(failure);
}

/// Polls a future to its end; a panic in it becomes a failure.
async fn contained<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // Unwind safe: the future is not polled again after a panic, and its node ends.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(Failure::panic(payload))),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tokio::sync::oneshot;

    enum Order {
        Note(u32),
        Fail,
        End,
        Hold(DropsBadly),
    }

    struct DropsBadly;

    impl Drop for DropsBadly {
        fn drop(&mut self) {
            panic!("on purpose: a drop");
        }
    }

    struct Noter {
        noted: mpsc::Sender<u32>,
    }

    impl Node for Noter {
        type Message = Order;

        async fn handle(&mut self, myself: &NodeRef<Order>, order: Order) -> ControlFlow<()> {
            tokio::task::yield_now().await;
            match order {
                Order::Note(number) => self.noted.send(number).unwrap(),
                Order::Fail => {
                    assert!(myself.send(Order::Note(99)));
                    panic!("on purpose: a handler");
                }
                Order::End => return ControlFlow::Break(()),
                Order::Hold(value) => drop(value),
            }
            ControlFlow::Continue(())
        }
    }

    /// Sends the orders to a node, which ends at the last of them at the latest. Returns what the node noted, its report,
    /// and whether it took a message afterwards.
    fn life(orders: Vec<Order>) -> (Vec<u32>, Option<String>, bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (noted, notes) = mpsc::channel();
            let (ended, end) = oneshot::channel();
            let node = start(Noter { noted }, |failure| ended.send(failure).unwrap());
            for order in orders {
                assert!(node.send(order));
            }
            let failure = end.await.unwrap();
            (
                notes.iter().collect(),
                failure.map(|it| it.to_string()),
                node.send(Order::End),
            )
        })
    }

    #[test]
    fn node_1_messages_are_handled_in_order_and_none_after_the_end() {
        let orders = vec![Order::Note(1), Order::Note(2), Order::End, Order::Note(3)];
        assert_eq!(life(orders), (vec![1, 2], None, false));
    }

    #[test]
    fn node_2_a_panic_ends_the_node_and_is_reported() {
        let (noted, failure, takes_more) = life(vec![Order::Note(1), Order::Fail, Order::Note(2)]);
        assert_eq!((noted, takes_more), (vec![1], false));
        let failure = failure.unwrap();
        assert!(failure.contains("on purpose: a handler"), "{failure}");
    }

    #[test]
    fn node_2_a_drop_that_panics_is_reported_or_has_no_effect() {
        let (_, failure, _) = life(vec![Order::Hold(DropsBadly)]);
        assert!(failure.unwrap().contains("on purpose: a drop"));
        let queued = vec![Order::End, Order::Hold(DropsBadly), Order::Hold(DropsBadly)];
        assert_eq!(life(queued), (vec![], None, false));
    }
}
