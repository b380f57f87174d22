//! Who is a member, and who has a link with whom: the driver's broker and the hubs of workers, explored state by state.
//!
//! Processes join, are buried, and join again in another life. The head may bury a process that still runs: such a process reads what it
//! was told before, asks and dials until it ends. A process may hear of another one by a third, before the head tells it or long after a
//! death. Notices of one process come in their order, everything else in any order. Sockets are left out: an end of a pair counts as
//! a link once its notice is read, and a dial once it arrives. The head may begin another life, as one with a log does: its members
//! come back, each when it likes, or stay away, and what it was about to tell them is lost.
//!
//! - `one link` (LINK-1): the head makes at most one link for two incarnations;
//! - `dead stay dead` (MEMBER-3, MEMBER-5): whoever was told of a death has no link to the dead one, takes none, and sends it nothing;
//! - `same members` (MEMBER-4): when all is read, each member knows exactly the others;
//! - `answered` (LINK-3): when all is read, whoever has asked for a link to a member has it, and the other side too.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use super::*;
use crate::hub::PeerStatus;
use crate::hub::broker::Broker;
use crate::hub::mutant::MemberMutant;
use crate::hub::post::{Post, PostError};
use crate::process_end::ProcessEnd;
use crate::topology::{Names, Station};

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberAction {
    /// The process with this number joins, in its next life.
    Join(u32),
    /// The head declares a member dead.
    Bury(u32),
    /// A process reads its next notice.
    Read(Peer),
    /// A process sends its first letter to another one, of which it has heard from anybody.
    Send(Peer, Peer),
    /// The head takes the next question of a process.
    Decide(Peer),
    /// A dial of the first process reaches the second one.
    Arrive(Peer, Peer),
    /// A dial of the first process finds nobody, because the second one has ended.
    Fail(Peer, Peer),
    /// The head dies, and begins its next life.
    Restart,
    /// A member of the head's last life comes back.
    Return(Peer),
    /// The head declares a member of its last life dead, which has not come back.
    GiveUp(Peer),
}

/// What the processes are given, and the mistake that one of them makes.
#[derive(Clone, Copy)]
struct MemberScenario {
    /// The lives of each process that may join.
    lives: &'static [usize],
    /// The number of first letters, of all processes together.
    letters: usize,
    /// Whether workers dial each other, as those of other hosts do, instead of taking ends of pairs.
    dials: bool,
    /// The number of times that the head may begin another life.
    restarts: u32,
    mutant: MemberMutant,
}

/// All that the head has told a process, and how much of it the process has read.
#[derive(Default)]
struct NoticeInbox(Mutex<(Vec<Notice>, usize)>);

impl Courier for NoticeInbox {
    fn tell(&self, notice: Notice, _: Option<PeerEnd>) {
        self.0.lock().0.push(notice);
    }

    fn kill(&self, _: &str) {}
}

impl NoticeInbox {
    fn next(&self) -> Option<Notice> {
        let (told, read) = &mut *self.0.lock();
        let notice = told.get(*read).cloned()?;
        *read += 1;
        Some(notice)
    }

    fn unread(&self) -> Vec<Notice> {
        let (told, read) = &*self.0.lock();
        told.iter().skip(*read).cloned().collect()
    }
}

/// A process that has joined, and runs.
struct MemberProcess {
    hub: Arc<Hub>,
    inbox: Arc<NoticeInbox>,
    /// The links that it has asked the head for, in its order.
    questions: Arc<Mutex<VecDeque<Peer>>>,
    /// The head, in the life that it has last heard of.
    head: Peer,
    sent_to: BTreeSet<Peer>,
    told_dead: BTreeSet<Peer>,
    /// The peers to which it has had a link.
    links: BTreeSet<Peer>,
}

impl MemberProcess {
    fn has_link(&self, peer: Peer) -> bool {
        self.links.contains(&peer) && !self.hub.is_buried(peer)
    }

    /// Takes one side of a link, unless the peer is dead as far as this process knows.
    fn takes(&mut self, peer: Peer) -> bool {
        if !self.hub.is_buried(peer)
            && let PeerStatus::Linked(link) = self.hub.expect(peer)
        {
            link.note_made();
            self.links.insert(peer);
            return true;
        }
        false
    }
}

impl MemberScenario {
    /// Two workers that dial each other.
    const PAIR: MemberScenario = MemberScenario {
        lives: &[1, 1],
        letters: 2,
        dials: true,
        restarts: 0,
        mutant: MemberMutant::None,
    };

    fn station(self, peer: Peer) -> Option<Station> {
        self.dials.then(|| Station {
            listens_at: Some(peer.to_string()),
            names: Names::default(),
        })
    }
}

struct MemberWorld {
    scenario: MemberScenario,
    broker: Broker,
    processes: BTreeMap<Peer, MemberProcess>,
    members: BTreeSet<Peer>,
    /// The head, in its present life.
    head: Peer,
    /// The members of its last life of which it does not know yet whether they come back.
    away: BTreeSet<Peer>,
    dials: BTreeSet<(Peer, Peer)>,
    /// The number from which on the head gives numbers in this life.
    first: u32,
    broken: Option<String>,
}

/// The peers of which a process has heard that they live, by their driver or by somebody who has named them.
fn known_to(hub: &Hub) -> Vec<Peer> {
    let table = hub.table.lock();
    let open = table.all_lives().filter(|link| link.is_open());
    let peers = open.map(|link| link.peer());
    peers.filter(|peer| !table.is_job(peer.process)).collect()
}

impl MemberWorld {
    fn new(scenario: MemberScenario) -> Self {
        let mut broker = Broker::default();
        broker.mutant = scenario.mutant;
        let head = peer(1, 1);
        if scenario.restarts > 0 {
            broker.begin(head, 2, Vec::new());
        }
        MemberWorld {
            scenario,
            broker,
            processes: BTreeMap::new(),
            members: BTreeSet::new(),
            head,
            first: 2,
            away: BTreeSet::new(),
            dials: BTreeSet::new(),
            broken: None,
        }
    }

    fn after(scenario: MemberScenario, history: &[MemberAction]) -> Self {
        let mut world = MemberWorld::new(scenario);
        history.iter().for_each(|action| world.apply(*action));
        world
    }

    /// The lives that a process has had.
    fn lives(&self, number: u32) -> usize {
        let lives = self
            .processes
            .keys()
            .filter(|peer| peer.process.number() == number);
        lives.count()
    }

    /// The life of a process that is a member.
    fn member(&self, number: u32) -> Option<Peer> {
        let mut members = self.members.iter().copied();
        members.find(|peer| peer.process.number() == number)
    }

    fn actions(&self) -> Vec<MemberAction> {
        let mut actions = Vec::new();
        for (number, lives_max) in (2..).zip(self.scenario.lives) {
            match self.member(number) {
                Some(_) => actions.push(MemberAction::Bury(number)),
                // A head that begins another life gives higher numbers than before.
                None if self.lives(number) < *lives_max && number >= self.first => {
                    actions.push(MemberAction::Join(number));
                }
                None => {}
            }
        }
        let sent = self.processes.values().map(|process| process.sent_to.len());
        let may_send = sent.sum::<usize>() < self.scenario.letters;
        for (peer, process) in &self.processes {
            if !process.inbox.unread().is_empty() {
                actions.push(MemberAction::Read(*peer));
            }
            if !process.questions.lock().is_empty() && !self.away.contains(peer) {
                actions.push(MemberAction::Decide(*peer));
            }
            let others = self.processes.keys().filter(|other| *other != peer);
            let new = others.filter(|other| may_send && !process.sent_to.contains(other));
            actions.extend(new.map(|other| MemberAction::Send(*peer, *other)));
        }
        for (from, to) in &self.dials {
            actions.push(MemberAction::Arrive(*from, *to));
            if !self.members.contains(to) && !self.away.contains(to) {
                actions.push(MemberAction::Fail(*from, *to));
            }
        }
        let has_members = !self.members.is_empty() || !self.away.is_empty();
        if self.head.incarnation.0 <= self.scenario.restarts && has_members {
            actions.push(MemberAction::Restart);
        }
        for peer in &self.away {
            actions.extend([MemberAction::Return(*peer), MemberAction::GiveUp(*peer)]);
        }
        actions
    }

    fn apply(&mut self, action: MemberAction) {
        match action {
            MemberAction::Join(number) => self.join(number),
            MemberAction::Bury(number) => {
                let member = self.member(number).unwrap();
                self.members.remove(&member);
                self.broker.bury(member, &ProcessEnd::unknown());
            }
            MemberAction::Read(reader) => self.read(reader),
            MemberAction::Send(from, to) => {
                let process = self.processes.get_mut(&from).unwrap();
                process.sent_to.insert(to);
                let sent = process.hub.send(to, letter(1, ""));
                if process.told_dead.contains(&to) && sent != Err(PostError::Dead(to)) {
                    self.broken = Some(format!("dead stay dead: {from} sends to {to}"));
                }
            }
            MemberAction::Decide(from) => {
                let about = self.processes[&from].questions.lock().pop_front();
                self.broker.connect(from, about.unwrap());
            }
            MemberAction::Arrive(from, to) => {
                self.dials.remove(&(from, to));
                let takes = self.processes.get_mut(&to).unwrap().takes(from);
                let dialler = self.processes.get_mut(&from).unwrap();
                match takes {
                    true => _ = dialler.takes(to),
                    false => dialler.hub.unreachable(to, "it refuses".to_owned()),
                }
            }
            MemberAction::Fail(from, to) => {
                self.dials.remove(&(from, to));
                let why = "nobody listens there".to_owned();
                self.broker.not_linked(from, to, why.clone());
                self.processes[&from].hub.unreachable(to, why);
            }
            MemberAction::Restart => {
                self.first = self.processes.keys().next_back().unwrap().process.number() + 1;
                self.head = peer(1, self.head.incarnation.0 + 1);
                self.away.append(&mut self.members);
                self.broker = Broker::default();
                self.broker.mutant = self.scenario.mutant;
                self.broker
                    .begin(self.head, self.first, self.away.iter().copied().collect());
            }
            MemberAction::Return(member) => self.come_back(member),
            MemberAction::GiveUp(member) => {
                self.away.remove(&member);
                self.broker.stayed_away(member, &ProcessEnd::unknown());
            }
        }
    }

    /// A member tells the head's next life its name, and asks for the links that it waits for. It has read all that has come of the last one.
    fn come_back(&mut self, member: Peer) {
        self.away.remove(&member);
        let process = self.processes.get_mut(&member).unwrap();
        process.hub.unreachable(process.head, "it has ended".to_owned());
        process.head = self.head;
        assert!(process.hub.begin_with(self.head, letter(1, "")));
        process.inbox = Arc::default();
        process.questions.lock().clear();
        process.hub.ask_again();
        let inbox = Arc::clone(&process.inbox);
        let station = self.scenario.station(member);
        self.broker.join_and_tell(member, inbox, station);
        self.members.insert(member);
    }

    fn join(&mut self, number: u32) {
        let life = match self.scenario.mutant {
            MemberMutant::GivesNamesAgain => 1,
            _ => self.lives(number) + 1,
        };
        let me = peer(number, life as u32);
        let questions = Arc::<Mutex<VecDeque<Peer>>>::default();
        let asked = Arc::clone(&questions);
        let ask = move |about| asked.lock().push_back(about);
        let process = MemberProcess {
            hub: Hub::of_worker(me, self.head, LinkSettings::default(), ask),
            inbox: Arc::default(),
            questions,
            head: self.head,
            sent_to: BTreeSet::new(),
            told_dead: BTreeSet::new(),
            links: BTreeSet::new(),
        };
        process.hub.table.lock().mutant = self.scenario.mutant;
        let station = self.scenario.station(me);
        let inbox = Arc::clone(&process.inbox);
        self.broker.join_and_tell(me, inbox, station);
        self.members.insert(me);
        self.processes.insert(me, process);
    }

    /// A process reads its next notice, and what follows it about the head alone.
    fn read(&mut self, reader: Peer) {
        self.read_one(reader);
        let about_head = |notice: &Notice| matches!(notice, Notice::Job(..) | Notice::Survivors { .. });
        while self.processes[&reader]
            .inbox
            .unread()
            .first()
            .is_some_and(about_head)
        {
            self.read_one(reader);
        }
    }

    fn read_one(&mut self, reader: Peer) {
        let process = self.processes.get_mut(&reader).unwrap();
        match process.inbox.next().unwrap() {
            Notice::Dial { peer, .. } => {
                if !process.hub.is_buried(peer) {
                    self.dials.insert((reader, peer));
                }
            }
            Notice::Linked(peer) => _ = process.takes(peer),
            notice => {
                match &notice {
                    Notice::Died(peer, _) => _ = process.told_dead.insert(*peer),
                    Notice::Survivors { below, living } => {
                        let known = known_to(&process.hub).into_iter();
                        let dead = known.filter(|it| it.process.number() < *below && !living.contains(it));
                        process.told_dead.extend(dead);
                    }
                    _ => {}
                }
                process.hub.notice(notice, None);
            }
        }
    }

    /// The links that the head has made for each two incarnations.
    fn links_made(&self) -> BTreeMap<[Peer; 2], usize> {
        let mut made = BTreeMap::new();
        for (reader, process) in &self.processes {
            for notice in &process.inbox.0.lock().0 {
                // Both sides get an end of a pair, and one side dials.
                let (other, share) = match notice {
                    Notice::Dial { peer, .. } => (*peer, 2),
                    Notice::Linked(peer) => (*peer, 1),
                    _ => continue,
                };
                let mut both = [*reader, other];
                both.sort();
                *made.entry(both).or_insert(0) += share;
            }
        }
        made
    }

    /// The first property that does not hold.
    fn violation(&self) -> Option<String> {
        let twice = self.links_made().into_iter().find(|(_, shares)| *shares > 2);
        let twice = twice.map(|([one, other], _)| format!("one link: {one} and {other} get two"));
        let alive = self.processes.iter().find_map(|(peer, process)| {
            let alive = process
                .told_dead
                .iter()
                .find(|dead| !process.hub.is_buried(**dead))?;
            Some(format!(
                "dead stay dead: {peer} was told that {alive} is dead, and expects it"
            ))
        });
        let broken = self.broken.clone().or(twice).or(alive);
        broken.or_else(|| self.at_rest().then(|| self.violation_at_rest())?)
    }

    /// Whether the members have read all, and the head has answered them.
    fn at_rest(&self) -> bool {
        let rests = |member: &Peer| {
            let process = &self.processes[member];
            process.inbox.unread().is_empty() && process.questions.lock().is_empty()
        };
        self.away.is_empty()
            && self.members.iter().all(rests)
            && !self.dials.iter().any(|(from, _)| self.members.contains(from))
    }

    fn violation_at_rest(&self) -> Option<String> {
        self.members.iter().find_map(|member| {
            let process = &self.processes[member];
            let known: BTreeSet<Peer> = known_to(&process.hub).into_iter().collect();
            let others = self.members.iter().filter(|other| *other != member);
            // A head with a log takes no work, and is no peer.
            let head = (self.scenario.restarts == 0).then_some(self.head);
            let expected: BTreeSet<Peer> = others.copied().chain(head).collect();
            if known != expected {
                return Some(format!(
                    "same members: {member} knows {known:?}, not {expected:?}"
                ));
            }
            let asked = process.sent_to.intersection(&self.members);
            let unlinked =
                |other: &&Peer| !process.has_link(**other) || !self.processes[*other].has_link(*member);
            let waits = asked.into_iter().find(unlinked)?;
            Some(format!("answered: {member} waits for a link to {waits}"))
        })
    }

    /// All that decides what can happen from here.
    fn fingerprint(&self) -> String {
        let processes = self.processes.iter().map(|(peer, process)| {
            let dead: Vec<bool> = self
                .processes
                .keys()
                .map(|it| process.hub.is_buried(*it))
                .collect();
            let expected = known_to(&process.hub);
            let questions = process.questions.lock().clone();
            let MemberProcess {
                sent_to,
                told_dead,
                links,
                ..
            } = process;
            format!(
                "{peer} {:?} {questions:?} {sent_to:?} {told_dead:?} {links:?} {dead:?} {expected:?}",
                process.inbox.unread()
            )
        });
        let processes: Vec<String> = processes.collect();
        format!(
            "{processes:?} {:?} {:?} {:?} {:?} {:?}",
            self.members,
            self.head,
            self.away,
            self.dials,
            self.links_made()
        )
    }
}

/// Explores all histories. Returns the number of states, or the shortest history that breaks a property.
fn explore(scenario: MemberScenario) -> Result<usize, String> {
    let start = MemberWorld::new(scenario);
    let mut seen = HashSet::from([start.fingerprint()]);
    let mut histories = VecDeque::from([(Vec::new(), start.actions())]);
    while let Some((history, actions)) = histories.pop_front() {
        for action in actions {
            let longer = [&history[..], &[action]].concat();
            let world = MemberWorld::after(scenario, &longer);
            if let Some(violation) = world.violation() {
                return Err(format!("{violation}, after {longer:?}"));
            }
            if seen.insert(world.fingerprint()) {
                histories.push_back((longer, world.actions()));
            }
        }
    }
    Ok(seen.len())
}

/// A few thousand states of each; with `MEMBER_LETTERS=1`, two processes with two lives each, and as many letters.
#[test]
fn m2_m10_members_agree_and_no_two_have_two_links() {
    let letters = std::env::var("MEMBER_LETTERS")
        .ok()
        .and_then(|it| it.parse().ok());
    let few: [(&'static [usize], usize); 3] = [(&[1, 1], 2), (&[2, 1], 1), (&[1, 1, 1], 0)];
    let chosen = letters.map_or(few.to_vec(), |letters| vec![(&[2, 2][..], letters)]);
    for (lives, letters) in chosen {
        for dials in [true, false] {
            let scenario = MemberScenario {
                lives,
                letters,
                dials,
                ..MemberScenario::PAIR
            };
            let states = explore(scenario).unwrap();
            println!("lives {lives:?}, letters {letters}, dials {dials}: {states} states");
        }
    }
}

#[test]
fn rft_07_members_agree_when_the_head_has_begun_another_life() {
    let more = std::env::var_os("MEMBER_LETTERS").map(|_| (&[1, 1][..], 0, 2));
    for (lives, letters, restarts) in [(&[1][..], 0, 3), (&[1, 1], 1, 1)].into_iter().chain(more) {
        let scenario = MemberScenario {
            lives,
            letters,
            restarts,
            ..MemberScenario::PAIR
        };
        let states = explore(scenario).unwrap();
        println!("lives {lives:?}, letters {letters}, restarts {restarts}: {states} states");
    }
}

#[test]
fn m2_m10_every_mutant_breaks_its_property() {
    let head_lives = MemberScenario {
        letters: 1,
        restarts: 1,
        ..MemberScenario::PAIR
    };
    let processes_live_twice = MemberScenario {
        lives: &[2, 1],
        ..MemberScenario::PAIR
    };
    for (mutant, scenario, property) in [
        (MemberMutant::LinksTwice, processes_live_twice, "one link"),
        (MemberMutant::BuriesSilently, processes_live_twice, "same members"),
        (MemberMutant::LeavesWaiting, processes_live_twice, "same members"),
        (MemberMutant::LinksNever, processes_live_twice, "answered"),
        (MemberMutant::Resurrects, processes_live_twice, "dead stay dead"),
        (
            MemberMutant::GivesNamesAgain,
            processes_live_twice,
            "same members",
        ),
        (MemberMutant::ForgetsSurvivors, head_lives, "same members"),
        (MemberMutant::TakesAwayForDead, head_lives, "same members"),
        (MemberMutant::ForgetsWanted, head_lives, "answered"),
    ] {
        let found = explore(MemberScenario { mutant, ..scenario }).unwrap_err();
        println!("{mutant:?}: {found}");
        assert!(found.starts_with(property), "{mutant:?}: {found}");
    }
}
