//! The ends of processes that use the store of an agent.

use std::process::Command;
use std::sync::Arc;

use selvedge_objects::store::StoreId;

use super::{TestAgent, peer};
use crate::hub::post::Post;
use crate::store::loan::StoreLoan;
use crate::store::message::StoreMessage;

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

#[test]
fn a_loan_goes_back_unless_its_agent_was_told_whose_object_it_is() {
    let (user, agent) = (TestAgent::new(1, &[2]), peer(2));
    let loan = |object| StoreLoan::new(agent, StoreId(object), Arc::clone(&user.outbox) as Arc<dyn Post>);
    loan(1).told();
    drop(loan(2));
    let letters = user.outbox.letters.lock();
    let sent: Vec<_> = letters
        .iter()
        .map(|(to, letter)| (*to, postcard::from_bytes(&letter.head).unwrap()))
        .collect();
    let given_back = |message: &StoreMessage| matches!(message, StoreMessage::Abort { object: StoreId(2) });
    assert!(
        matches!(&sent[..], [(to, message)] if *to == agent && given_back(message)),
        "{sent:?}"
    );
}
