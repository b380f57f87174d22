use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;

use proptest::prelude::*;
use selvedge_cluster::peer::{Incarnation, Peer};
use selvedge_objects::names::{NameChange, NamedObject, NamingId};
use selvedge_objects::refs::RefId;

use super::error::{HeadLogCause, HeadLogError};
use super::replay::{Replayed, batch, beginning};
use super::{HeadLog, HeadRecord, HeadState, LogFile, LogHeader, MemberPart};
use crate::testing::peer;

fn header(cluster: &str) -> LogHeader {
    LogHeader {
        cluster: cluster.to_owned(),
        build: "1a2b".to_owned(),
        registry: 7,
        cluster_id: "0123456789abcdef0123456789abcdef".to_owned(),
    }
}

/// Reads a log, whosever it is.
fn replay(bytes: &[u8]) -> Result<Replayed, HeadLogCause> {
    super::replay::replay(bytes, |_| Ok(()))
}

fn joined(number: u32, part: MemberPart) -> HeadRecord {
    let name = format!("guest {number}");
    HeadRecord::Joined {
        peer: peer(number),
        part,
        name,
    }
}

/// An object with one of a few names.
fn named(head: Incarnation, number: u8) -> NamedObject {
    let head = Peer {
        incarnation: head,
        ..peer(1)
    };
    let id = RefId {
        owner: peer(2),
        creator: peer(3),
        number: number.into(),
    };
    NamedObject {
        name: format!("name {}", number % 4),
        naming: NamingId {
            head,
            number: number.into(),
        },
        id,
        type_name: "u32".to_owned(),
        namer: peer(3),
    }
}

/// Whatever a head may decide next, by two numbers.
fn decision(state: &HeadState, what: u8, whom: u8) -> HeadRecord {
    let members: Vec<Peer> = state
        .of_part(MemberPart::Guest)
        .chain(state.of_part(MemberPart::Job))
        .map(|(peer, _)| peer)
        .collect();
    let member = members.get(usize::from(whom) % members.len().max(1)).copied();
    match (what % 10, member) {
        (8, _) => HeadRecord::Name(NameChange::Named(named(state.head, whom))),
        (9, _) => HeadRecord::Name(NameChange::Unnamed {
            name: format!("name {}", whom % 4),
        }),
        (0 | 1, Some(member)) => HeadRecord::Died(member),
        (2 | 3, Some(peer)) => HeadRecord::Located {
            peer,
            host: format!("host {whom}"),
        },
        (4, _) => HeadRecord::Began(Incarnation(state.head.0 + 1)),
        // Other runtimes of the process take numbers, too.
        (5, _) => joined(state.next + u32::from(whom), MemberPart::Guest),
        (6, _) => joined(state.next, MemberPart::Job),
        (_, _) => joined(state.next, MemberPart::Guest),
    }
}

/// A log of batches, with the state and the length after each of them, the beginning first.
fn log_of(choices: &[(u8, u8, bool)]) -> (Vec<u8>, Vec<(usize, HeadState)>) {
    let mut bytes = beginning(&header("lab")).unwrap();
    let mut state = HeadState::new();
    let mut after = vec![(bytes.len(), state.clone())];
    let mut records = Vec::new();
    for (what, whom, ends_batch) in choices {
        let record = decision(&state, *what, *whom);
        state.step(record.clone()).unwrap();
        records.push(record);
        if *ends_batch {
            bytes.extend(batch(&std::mem::take(&mut records)).unwrap());
            after.push((bytes.len(), state.clone()));
        }
    }
    (bytes, after)
}

fn choices() -> impl Strategy<Value = Vec<(u8, u8, bool)>> {
    prop::collection::vec(any::<(u8, u8, bool)>(), 0..40)
}

proptest! {
    #[test]
    fn rfn_01_a_log_that_ends_anywhere_has_all_decisions_that_are_whole_and_no_others(choices in choices()) {
        let (bytes, after) = log_of(&choices);
        for length in 0..=bytes.len() {
            let (first, _) = after[0];
            let replayed = replay(&bytes[..length]);
            if length < first {
                prop_assert!(replayed.is_err(), "a log has a beginning");
                continue;
            }
            let (whole, state) = after.iter().rev().find(|(end, _)| *end <= length).unwrap();
            let replayed = replayed.unwrap();
            prop_assert_eq!((&replayed.state, replayed.whole_bytes), (state, *whole));
            prop_assert_eq!(&replayed.header, &header("lab"));
        }
    }

    #[test]
    fn rfn_01_a_changed_byte_of_a_log_is_an_error_or_leaves_whole_decisions(
        choices in choices(), at in any::<prop::sample::Index>(), flip in 1_u8..,
    ) {
        let (mut bytes, after) = log_of(&choices);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        match replay(&bytes) {
            Ok(replayed) => {
                // Only what was written last may be taken for torn.
                let [.., (end, state), _] = &after[..] else { panic!("the beginning was changed") };
                prop_assert!(at >= *end, "{at} of {}", bytes.len());
                prop_assert_eq!((&replayed.state, replayed.whole_bytes), (state, *end));
            }
            Err(HeadLogCause::NoLog | HeadLogCause::Format { .. } | HeadLogCause::Damaged { .. }) => {}
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn a_log_with_zeros_behind_it_has_all_its_decisions(choices in choices(), zeros in 1_usize..100) {
        let (mut bytes, after) = log_of(&choices);
        bytes.resize(bytes.len() + zeros, 0);
        prop_assert_eq!(&replay(&bytes).unwrap().state, &after.last().unwrap().1);
    }

    #[test]
    fn a_log_whose_last_bytes_are_zeros_and_not_what_was_being_written_has_the_decisions_before(
        choices in choices(), written in 0_usize..13, more in 0_usize..40,
    ) {
        let (mut bytes, after) = log_of(&choices);
        let frame = batch(&[joined(9_999, MemberPart::Guest)]).unwrap();
        let length = bytes.len() + frame.len() + more;
        bytes.extend(&frame[..written]);
        bytes.resize(length, 0);
        let replayed = replay(&bytes);
        // A whole prefix says how long the frame is. Nobody writes behind it before it is on the disk.
        if written == 12 && more > 0 {
            prop_assert!(replayed.is_err());
        } else {
            prop_assert_eq!(&replayed.unwrap().state, &after.last().unwrap().1);
        }
    }

    #[test]
    fn bytes_that_are_no_log_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(replay(&bytes).is_err());
        let behind = [&beginning(&header("lab")).unwrap()[..], &bytes].concat();
        // It may begin with a torn frame; nothing is made of it.
        if let Ok(replayed) = replay(&behind) {
            prop_assert_eq!(replayed.state, HeadState::new());
        }
    }

    #[test]
    fn a_number_is_given_once_and_a_summary_says_all(choices in choices()) {
        let (_, after) = log_of(&choices);
        let (_, state) = after.last().unwrap();
        for number in 2..state.next {
            let again = state.clone().step(joined(number, MemberPart::Guest));
            prop_assert!(again.is_err());
        }
        let mut again = HeadState::new();
        again.step(HeadRecord::Summary(state.clone())).unwrap();
        prop_assert_eq!(&again, state);
    }
}

#[test]
fn a_life_of_a_head_ends_its_jobs_and_a_decision_out_of_place_changes_nothing() {
    let mut state = HeadState::new();
    for record in [
        HeadRecord::Began(Incarnation(1)),
        joined(2, MemberPart::Guest),
        joined(4, MemberPart::Job),
        HeadRecord::Began(Incarnation(2)),
    ] {
        state.step(record).unwrap();
    }
    assert_eq!(state.members.len(), 1);
    assert_eq!(state.next, 5);
    let before = state.clone();
    for record in [
        HeadRecord::Began(Incarnation(2)),
        HeadRecord::Died(peer(4)),
        joined(3, MemberPart::Guest),
        HeadRecord::Summary(HeadState::new()),
        HeadRecord::Located {
            peer: Peer {
                incarnation: Incarnation(2),
                ..peer(2)
            },
            host: "b".to_owned(),
        },
    ] {
        state.step(record).unwrap_err();
        assert_eq!(state, before);
    }
}

/// A folder that the drop removes.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("selvedge-head-log-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn open(&self, header: LogHeader) -> Result<LogFile, HeadLogError> {
        LogFile::open(&self.0.join("log"), header)
    }

    fn bytes(&self) -> u64 {
        std::fs::metadata(self.0.join("log")).unwrap().len()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn rfn_01_a_log_goes_on_where_its_head_has_ended_also_in_the_middle_of_a_write() {
    let folder = Folder::new();
    let mut file = folder.open(header("lab")).unwrap();
    file.append(vec![joined(2, MemberPart::Guest), joined(3, MemberPart::Job)])
        .unwrap();
    drop(file);
    let torn = batch(&[joined(4, MemberPart::Guest)]).unwrap();
    let path = folder.0.join("log");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, [&whole[..], &torn[..torn.len() - 1]].concat()).unwrap();
    std::fs::write(folder.0.join("log.new"), "left by a head that was killed").unwrap();
    let other = LogHeader {
        cluster_id: "of another".to_owned(),
        ..header("lab")
    };
    let mut file = folder.open(other).unwrap();
    assert_eq!(file.header(), &header("lab"), "it keeps its id");
    assert_eq!((file.state().head, file.state().next), (Incarnation(2), 4));
    let members: Vec<Peer> = file.state().of_part(MemberPart::Guest).map(|it| it.0).collect();
    assert_eq!(members, [peer(2)]);
    file.append(vec![joined(4, MemberPart::Guest)]).unwrap();
    drop(file);
    assert_eq!(folder.open(header("lab")).unwrap().state().members.len(), 2);
    assert!(!folder.0.join("log.new").exists());
}

#[test]
fn a_log_of_another_cluster_or_build_or_of_a_living_head_is_refused_by_name() {
    let folder = Folder::new();
    let first = folder.open(header("lab")).unwrap();
    let cause = |header: LogHeader| folder.open(header).err().unwrap().cause;
    assert!(matches!(cause(header("lab")), HeadLogCause::InUse));
    drop(first);
    let HeadLogCause::OtherCluster { found, wanted } = cause(header("farm")) else {
        panic!("it is of another cluster");
    };
    assert_eq!((&*found, &*wanted), ("lab", "farm"));
    let other = LogHeader {
        build: "3c4d".to_owned(),
        ..header("lab")
    };
    assert!(matches!(cause(other.clone()), HeadLogCause::OtherBuild { .. }));
    // The records of another build may be of another form.
    let unknown = [1_u8, 250, 0];
    let mut log = beginning(&other).unwrap();
    let mut prefix = [3_u32.to_le_bytes(), crc32fast::hash(&unknown).to_le_bytes()].concat();
    prefix.extend(crc32fast::hash(&prefix).to_le_bytes());
    log.extend([&prefix[..], &unknown].concat());
    std::fs::write(folder.0.join("log"), &log).unwrap();
    assert!(matches!(cause(header("lab")), HeadLogCause::OtherBuild { .. }));
    assert!(matches!(cause(other), HeadLogCause::Damaged { .. }));
    std::fs::write(folder.0.join("log"), "notes").unwrap();
    assert!(matches!(cause(header("lab")), HeadLogCause::NoLog));
    let error = folder.open(header("lab")).err().unwrap().to_string();
    assert!(error.contains("log`: the file is no log of a head"), "{error}");
}

#[test]
fn a_log_is_summed_up_and_does_not_grow_with_the_processes_that_have_come_and_gone() {
    let folder = Folder::new();
    let mut file = folder.open(header("lab")).unwrap();
    let mut longest = 0;
    for first in (2..10_000).step_by(50) {
        let come_and_gone = |number| [joined(number, MemberPart::Guest), HeadRecord::Died(peer(number))];
        let numbers = first..10_000.min(first + 50);
        file.append(numbers.flat_map(come_and_gone).collect()).unwrap();
        longest = longest.max(folder.bytes());
    }
    assert!(longest <= (64 << 10) + 4096, "{longest}");
    drop(file);
    assert_eq!(folder.open(header("lab")).unwrap().state().next, 10_000);
}

#[test]
fn numbers_that_threads_give_at_once_are_in_the_log_in_their_order() {
    let folder = Folder::new();
    let file = folder.open(header("lab")).unwrap();
    let log = HeadLog::start(file, |error| panic!("{error}")).unwrap();
    let numbers = AtomicU32::new(2);
    let (tells, told) = mpsc::channel();
    std::thread::scope(|scope| {
        for tells in [tells.clone(), tells.clone(), tells] {
            let (log, numbers) = (&log, &numbers);
            scope.spawn(move || {
                for _ in 0..1_000 {
                    let tells = tells.clone();
                    log.decide(|| {
                        let number = numbers.fetch_add(1, Ordering::Relaxed);
                        let then = move |logged: Result<(), _>| tells.send(logged.is_ok()).unwrap();
                        (joined(number, MemberPart::Guest), Box::new(then))
                    });
                }
            });
        }
    });
    assert_eq!(told.iter().filter(|is_logged| *is_logged).count(), 3_000);
}

#[test]
fn whoever_asks_is_told_when_a_decision_is_on_the_disk_and_all_when_none_is_any_more() {
    let folder = Folder::new();
    let path = folder.0.join("log");
    let (fails, failed) = mpsc::channel();
    let file = folder.open(header("lab")).unwrap();
    let log = HeadLog::start(file, move |error| fails.send(error.to_string()).unwrap()).unwrap();
    let (tells, told) = mpsc::channel();
    for number in 2..50 {
        let (tells, path) = (tells.clone(), path.clone());
        log.note_then(joined(number, MemberPart::Guest), move |logged| {
            let members = replay(&std::fs::read(path).unwrap()).unwrap().state.members;
            let is_there = members.contains_key(&peer(number).process);
            tells.send(logged.is_ok() && is_there).unwrap();
        });
    }
    for _ in 2..50 {
        assert_eq!(told.recv(), Ok(true));
    }
    // A decision that is a bug, as a disk that takes no more would: from then on nothing counts as logged.
    for _ in 0..2 {
        let tells = tells.clone();
        log.note_then(joined(2, MemberPart::Guest), move |logged| {
            tells.send(logged.is_ok()).unwrap();
        });
        assert_eq!(told.recv(), Ok(false));
    }
    assert!(failed.recv().unwrap().contains("given before"));
    log.end();
    log.note_then(joined(60, MemberPart::Guest), move |logged| {
        tells.send(logged.is_ok()).unwrap();
    });
    assert_eq!(told.recv(), Ok(false));
    assert!(failed.recv().is_err(), "it is told once");
}
