//! Transfers between stores that are full.

use selvedge_objects::transfer::TransferMessage;

use super::{TestAgent, content, wait_for};

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
    let held = wait_for(|| {
        carry();
        let [one, two] = &pulled;
        one.lock().clone().zip(two.lock().clone())
    });
    for (held, seed) in [(held.0, 2), (held.1, 1)] {
        let mut bytes = held.unwrap().open_here();
        assert!(bytes.wait(None).unwrap().unwrap().unwrap() == content(seed));
    }
}
