//! Transfers between stores that are full.

use selvedge_objects::store::StoreError;
use selvedge_objects::transfer::TransferMessage;

use super::{BYTES, TestAgent, content};
use crate::store::options::StoreOptions;
use crate::testing::{peer, wait_for, wait_until};

fn is_seek(message: &TransferMessage) -> bool {
    matches!(message, TransferMessage::Seek { .. })
}

fn is_sources(message: &TransferMessage) -> bool {
    matches!(message, TransferMessage::Sources { .. })
}

fn is_get(message: &TransferMessage) -> bool {
    matches!(message, TransferMessage::Get { .. })
}

#[test]
fn two_hosts_whose_stores_are_full_of_what_they_pull_from_each_other_get_it() {
    let agents = [TestAgent::new(1, &[2]), TestAgent::new(2, &[1])];
    let [one, two] = &agents;
    let carry = || {
        one.carry_to(two);
        two.carry_to(one);
    };
    let put = [one.put(1), two.put(2)];
    let pulled = [one.want(put[1].name(), two.me), two.want(put[0].name(), one.me)];
    for is_it in [is_seek, is_sources] {
        agents.iter().for_each(|agent| agent.wait_until_sent(is_it));
        carry();
    }
    // Each has spilled its own object, and all of its memory is that of the pull.
    agents.iter().for_each(|agent| agent.wait_until_sent(is_get));
    let held = wait_for("both objects", || {
        carry();
        let [one, two] = &pulled;
        one.lock().clone().zip(two.lock().clone())
    });
    for (held, seed) in [(held.0, 2), (held.1, 1)] {
        let mut bytes = held.unwrap().open_here();
        assert!(bytes.wait(None).unwrap().unwrap().unwrap() == content(seed));
    }
}

#[test]
fn a_spilled_object_for_which_there_is_no_room_is_out_of_reach_and_found_once_there_is() {
    let agent = TestAgent::new(1, &[2]);
    let put = agent.put(1);
    let (name, seeker) = (put.name(), peer(2));
    // Another object has its memory, and is in use.
    let other = agent.filled(2);
    let mut view = other.open_here();
    let view = view.wait(None).unwrap().unwrap().unwrap();
    agent.hear(seeker, &TransferMessage::Seek { name, attempt: 1 });
    agent.wait_until_sent(|message| {
        let TransferMessage::Unfound { attempt: 1, why, .. } = message else {
            assert!(!is_sources(message));
            return false;
        };
        assert!(matches!(why, StoreError::Full(_)), "{why}");
        true
    });
    assert_eq!(agent.stores.transfers().report()[0].agents, [agent.me]);
    drop(view);
    agent.hear(seeker, &TransferMessage::Seek { name, attempt: 2 });
    agent.wait_until_sent(|message| matches!(message, TransferMessage::Sources { attempt: 2, .. }));
}

#[test]
fn a_source_that_has_dropped_its_copy_says_so_to_the_owner() {
    let agent = TestAgent::new(1, &[2]);
    // Nothing can be spilled there.
    let options = StoreOptions::new().bytes(BYTES as u64).spill("/nowhere/at/all");
    agent.stores.set_options(options);
    let put = agent.put(1);
    put.set_remakeable(true);
    let (name, seeker, attempt) = (put.name(), peer(2), 1);
    agent.hear(seeker, &TransferMessage::Seek { name, attempt });
    agent.wait_until_sent(is_sources);
    let _other = agent.filled(2);
    let (offset, bytes) = (0, 1);
    agent.hear(
        seeker,
        &TransferMessage::Get {
            name,
            attempt,
            offset,
            bytes,
        },
    );
    agent.wait_until_sent(|message| matches!(message, TransferMessage::Unread { .. }));
    let agents = || agent.stores.transfers().report()[0].agents.clone();
    wait_until("nobody has a copy", || agents().is_empty());
}
