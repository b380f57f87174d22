//! Transfers on threads of callers, because the system has refused one.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::TestAgent;

/// A caller to whom the system has refused a thread, while another thread has the state.
fn order_without_thread(agent: &TestAgent) -> Receiver<()> {
    let (done, is_done) = channel();
    let transfers = agent.stores.transfers();
    transfers
        .backlog
        .lock()
        .push_back(Box::new(move |_, _| done.send(()).unwrap()));
    transfers.work_off();
    is_done
}

#[test]
fn what_is_ordered_without_a_thread_while_the_thread_of_another_order_works_is_done() {
    let agent = TestAgent::new(1, &[]);
    let (begun, begins) = channel();
    let (open, gate) = channel::<()>();
    agent.stores.transfers().order(move |_, _| {
        begun.send(()).unwrap();
        let _ = gate.recv();
    });
    begins.recv().unwrap();
    let is_done = order_without_thread(&agent);
    assert!(is_done.try_recv().is_err(), "the thread has the state");
    drop(open);
    assert_eq!(is_done.recv_timeout(Duration::from_secs(20)), Ok(()));
}
