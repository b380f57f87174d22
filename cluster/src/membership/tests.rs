use std::time::Duration;

use super::*;
use crate::peer::{Incarnation, Peer, ProcessId};

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u32) -> Duration {
    SECOND * seconds
}

fn peer(process: u32, incarnation: u32) -> Peer {
    Peer {
        process: ProcessId::new(process).unwrap(),
        incarnation: Incarnation(incarnation),
    }
}

fn members() -> Members {
    Members::new(MemberSettings::default())
}

fn admitted(members: &mut Members, now: Duration, agent: Option<Peer>) -> Peer {
    members.admit(now, agent).unwrap().0
}

/// The deaths that events tell of.
fn deaths(events: &[MemberEvent]) -> Vec<(Peer, WhyDead)> {
    let death = |event: &MemberEvent| match event {
        MemberEvent::Changed(Notice {
            peer,
            change: Change::Died(why),
            ..
        }) => Some((*peer, *why)),
        _ => None,
    };
    events.iter().filter_map(death).collect()
}

#[test]
fn jclust_05_numbers_grow_and_a_removed_one_is_never_given_again() {
    let mut members = members();
    let joined: Vec<Peer> = (0..3).map(|_| admitted(&mut members, at(0), None)).collect();
    assert_eq!(joined, [peer(2, 1), peer(3, 1), peer(4, 1)]);
    let events = members.remove(joined[2].process);
    assert_eq!(deaths(&events), [(peer(4, 1), WhyDead::Removed)]);
    assert_eq!(members.remove(joined[2].process), []);
    assert_eq!(admitted(&mut members, at(0), None), peer(5, 1));
    let number = joined[2].process;
    assert_eq!(
        members.restart(at(0), number, None),
        Err(Refusal::Unknown(number))
    );
    assert_eq!(members.heard(at(0), peer(4, 1)), Err(Refusal::Unknown(number)));
    assert_eq!(members.remove(ProcessId::HEAD), [], "the head stays");
}

#[test]
fn a_silent_member_is_suspected_then_buried_and_one_that_speaks_again_is_not() {
    let mut members = members();
    let (silent, slow) = (
        admitted(&mut members, at(0), None),
        admitted(&mut members, at(0), None),
    );
    assert_eq!(members.deadline(), Some(at(5)));
    assert_eq!(members.tick(at(4)), []);
    let suspected = [MemberEvent::Suspected(silent), MemberEvent::Suspected(slow)];
    assert_eq!(members.tick(at(5)), suspected);
    assert_eq!(members.tick(at(6)), [], "it is told once");
    assert_eq!(members.heard(at(9), slow), Ok(Some(MemberEvent::Recovered(slow))));
    assert_eq!(members.deadline(), Some(at(10)));
    let events = members.tick(at(10));
    assert_eq!(deaths(&events), [(silent, WhyDead::Silent(at(10)))]);
    assert_eq!(members.deadline(), Some(at(14)));
    assert!(members.members().eq([peer(1, 1), slow]));
}

#[test]
fn the_buried_are_refused_and_join_again_in_another_life() {
    let mut members = members();
    let first = admitted(&mut members, at(0), None);
    members.tick(at(10));
    assert_eq!(members.heard(at(11), first), Err(Refusal::Buried(first)));
    assert_eq!(members.readmit(at(11), first), Err(Refusal::Buried(first)));
    let (second, _) = members.restart(at(12), first.process, None).unwrap();
    assert_eq!(second, peer(2, 2));
    assert_eq!(
        members.restart(at(12), first.process, None),
        Err(Refusal::StillAlive(second))
    );
    assert_eq!(
        members.heard(at(13), first),
        Err(Refusal::Buried(first)),
        "its first life stays dead"
    );
    assert_eq!(members.readmit(at(13), second), Ok(None));
    assert_eq!(
        members.heard(at(13), peer(2, 3)),
        Err(Refusal::Unknown(first.process)),
        "a life that nobody gave it"
    );
    assert_eq!(
        members.died(first, WhyDead::Ended),
        [],
        "a late death of the first life"
    );
}

#[test]
fn the_processes_of_a_host_die_with_its_agent_and_are_not_watched_beside_it() {
    let mut members = members();
    let agent = admitted(&mut members, at(0), None);
    let worker = admitted(&mut members, at(0), Some(agent));
    let elsewhere = admitted(&mut members, at(0), None);
    members.heard(at(9), agent).unwrap();
    members.heard(at(9), elsewhere).unwrap();
    assert_eq!(members.tick(at(10)), [], "the agent speaks for its worker");
    let with_agent = WhyDead::WithAgent(agent.process);
    let events = members.died(agent, WhyDead::Refused);
    assert_eq!(deaths(&events), [(agent, WhyDead::Refused), (worker, with_agent)]);
    assert!(members.members().eq([peer(1, 1), elsewhere]));
    assert_eq!(members.admit(at(10), Some(agent)), Err(Refusal::NoAgent(agent)));
}

#[test]
fn a_view_follows_the_head_and_asks_about_whom_it_does_not_know() {
    let mut members = members();
    let early = admitted(&mut members, at(0), None);
    let known: Vec<Peer> = members.members().collect();
    let mut view = View::new(members.epoch(), &known);
    let (late, joined) = members.admit(at(0), None).unwrap();
    let died = members.died(early, WhyDead::Ended);
    let [MemberEvent::Changed(joined), MemberEvent::Changed(died)] = [joined, died[0]] else {
        panic!("{joined:?} {died:?}");
    };
    assert_eq!(view.standing(late), Standing::Unknown);
    assert_eq!(view.apply(&died), Err(MissingNotice { last: 1, found: 3 }));
    assert_eq!((view.apply(&joined), view.apply(&joined)), (Ok(true), Ok(false)));
    assert_eq!(
        (view.standing(early), view.standing(late)),
        (Standing::Member, Standing::Member)
    );
    assert_eq!(view.apply(&died), Ok(true));
    assert_eq!(view.standing(early), Standing::Buried);
    assert_eq!(view.standing(peer(2, 2)), Standing::Unknown, "its next life");
    assert!(view.members().eq(members.members()));
    assert_eq!(view.epoch(), members.epoch());
}

#[test]
fn jclust_09_a_process_without_the_head_ends_and_speaks_once_a_second_until_then() {
    let mut contact = Contact::new(at(0), MemberSettings::default());
    assert_eq!(
        (contact.step(at(0)), contact.deadline()),
        (ContactStep::Wait, at(1))
    );
    assert_eq!(contact.step(at(1)), ContactStep::Heartbeat);
    contact.said(at(1));
    assert_eq!(
        (contact.step(at(1)), contact.deadline()),
        (ContactStep::Wait, at(2))
    );
    contact.heard(at(30));
    contact.said(at(89));
    assert_eq!(
        (contact.step(at(89)), contact.deadline()),
        (ContactStep::Wait, at(90))
    );
    assert_eq!(contact.step(at(90)), ContactStep::Orphaned(at(60)));
}

#[test]
fn the_higher_number_dials_or_else_the_head() {
    let [head, two, three] = [1, 2, 3].map(|number| ProcessId::new(number).unwrap());
    for (dialer, expected) in [
        (Dialer::Higher, [false, true, false, true]),
        (Dialer::HeadElseHigher, [true, false, false, true]),
    ] {
        let pairs = [(head, two), (two, head), (two, three), (three, two)];
        assert_eq!(
            pairs.map(|(process, other)| dialer.dials(process, other)),
            expected
        );
    }
}

#[test]
fn jtopo_08_a_link_that_is_not_made_in_time_is_an_error_with_the_last_failure() {
    let (me, remote) = (ProcessId::new(3).unwrap(), peer(2, 1));
    let mut pair = PairLink::new(me, remote, Dialer::Higher, at(1));
    assert_eq!(pair.need(at(0)), [LinkStep::Dial]);
    assert_eq!((pair.need(at(0)), pair.deadline()), (vec![], Some(at(1))));
    let (mut now, mut dials) = (at(0), 0);
    let failed = loop {
        pair.dialling(LinkName(dials));
        let steps = pair.dialled(now, LinkName(dials), Err("connection refused".to_owned()));
        assert_eq!(steps, [LinkStep::Close(LinkName(dials))]);
        dials += 1;
        now = pair.deadline().unwrap();
        match &pair.tick(now)[..] {
            [LinkStep::Dial] => {}
            [LinkStep::Fail(failed)] => break failed.clone(),
            steps => panic!("{steps:?}"),
        }
    };
    // After 0, 10, 30, 70, 150, 310 and 630 ms.
    assert_eq!((now, dials), (at(1), 7));
    assert_eq!(
        failed.to_string(),
        "no link to process 2 (incarnation 1) within 1s: connection refused"
    );
    assert_eq!((pair.deadline(), pair.tick(at(9))), (None, vec![]));
    // The next need begins anew, and what the first one has dialled is closed.
    assert_eq!(pair.need(at(9)), [LinkStep::Dial]);
    assert_eq!(
        pair.dialled(at(9), LinkName(0), Ok(remote)),
        [LinkStep::Close(LinkName(0))]
    );
}

#[test]
fn the_side_that_does_not_dial_asks_and_takes_the_link_that_comes() {
    let (me, remote) = (ProcessId::new(2).unwrap(), peer(3, 1));
    let mut pair = PairLink::new(me, remote, Dialer::Higher, at(60));
    assert_eq!(pair.need(at(0)), [LinkStep::AskToDial]);
    assert_eq!(
        pair.accepted(LinkName(1), peer(3, 2)),
        [LinkStep::Close(LinkName(1))],
        "another life"
    );
    assert_eq!(pair.accepted(LinkName(2), remote), [LinkStep::Use(LinkName(2))]);
    assert_eq!((pair.need(at(1)), pair.deadline()), (vec![], None));
    assert!(pair.admits(LinkName(2)) && !pair.admits(LinkName(1)));
    let steps = [LinkStep::Close(LinkName(2)), LinkStep::Use(LinkName(3))];
    assert_eq!(
        pair.accepted(LinkName(3), remote),
        steps,
        "the peer has lost the first one"
    );
    pair.lost(LinkName(2));
    assert_eq!(pair.used(), Some(LinkName(3)));
    pair.lost(LinkName(3));
    assert_eq!(pair.need(at(2)), [LinkStep::AskToDial]);
    assert_eq!(pair.asked(at(2)), [], "nobody asks the side that does not dial");
    let silent = pair.tick(at(62));
    let [LinkStep::Fail(no_link)] = &silent[..] else {
        panic!("{silent:?}")
    };
    assert_eq!(
        no_link.to_string(),
        "no link to process 3 (incarnation 1) within 60s"
    );
}
