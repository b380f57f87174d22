//! The ends of processes that use the store of an agent.

use std::process::Command;

use super::{TestAgent, peer};

#[test]
fn an_agent_forgets_a_process_that_is_dead_and_has_ended() {
    let (agent, user) = (TestAgent::new(1, &[2, 3]), peer(2));
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    agent.stores.entered(user, child.id());
    agent.stores.died(user);
    assert!(agent.stores.is_watched(user), "it still runs");
    child.kill().unwrap();
    child.wait().unwrap();
    let reactor = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    let watching = agent.outbox.tasks.lock().pop().unwrap();
    reactor.block_on(watching);
    assert!(!agent.stores.is_watched(user));
    // The other way round: there is no such process.
    let user = peer(3);
    agent.stores.entered(user, u32::MAX);
    assert!(agent.stores.is_watched(user), "it counts as living");
    agent.stores.died(user);
    assert!(!agent.stores.is_watched(user));
}
