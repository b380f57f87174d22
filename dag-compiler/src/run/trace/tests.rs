use selvedge_channels::{Provider, Region, Segment};

use crate::ir::{OpKind, TaskId};
use crate::run::clock::ticks;
use crate::run::control::region;
use crate::run::layout::Span;
use crate::run::trace::read::{operations, read_record, so_far};
use crate::run::trace::recorder::{RECORD_BYTES, Recorder, What, ring_bytes};

const TASK: TaskId = TaskId(7);
type TracedOperation = (&'static str, u64, u64);

fn recorder(records: usize) -> (Recorder, Region) {
    let bytes = ring_bytes(records).unwrap();
    let segment = Segment::create(Provider::Heap, bytes).unwrap();
    let whole = Span {
        offset: 0,
        len: bytes,
    };
    let ring = region(&segment, whole).unwrap();
    (Recorder::new(ring.clone()), ring)
}

/// The operations in the ring's records, which are all of `TASK` with two arguments. Open records are read at the
/// latest possible time.
fn read_all(ring: &Region, finished: u64) -> Vec<(u64, Vec<TracedOperation>)> {
    let records =
        (0..ring.len_bytes() / RECORD_BYTES).filter_map(|index| read_record(ring, index * RECORD_BYTES));
    records
        .map(|(what, task, execution, times)| {
            assert_eq!(task, TASK);
            let (what, times, under_way) = so_far(what, times, execution < finished, u64::MAX);
            assert_eq!(under_way, what == What::Computed && times.end == u64::MAX);
            (execution, operations(what, 2, times))
        })
        .collect()
}

fn names(operations: &[TracedOperation]) -> Vec<&str> {
    operations.iter().map(|(name, ..)| *name).collect()
}

#[test]
fn a_task_in_one_go_is_one_record_of_all_its_operations() {
    let (mut recorder, ring) = recorder(4);
    let begun = recorder.ended;
    recorder.open(TASK, 5, false);
    recorder.close(TASK, true);
    let between = recorder.ended;
    recorder.open(TASK, 6, true);
    recorder.close(TASK, true);
    let told = read_all(&ring, 0);
    let [(5, first), (6, second)] = told.as_slice() else {
        panic!("{told:?}");
    };
    for operations in [first, second] {
        assert_eq!(names(operations), ["READ", "READ", "COMPUTE", "WRITE"]);
    }
    let (read, computed) = (first[1].2, first[2].2);
    assert!(begun <= read && read <= computed && computed == between);
    assert_eq!((first[0], first[1].1), (first[1], begun));
    assert_eq!((first[2].1, first[3]), (read, ("WRITE", between, between)));
    // A task that follows at once reads no clock before it ends.
    let ended = recorder.ended;
    let expected = [
        ("READ", between, between),
        ("READ", between, between),
        ("COMPUTE", between, ended),
        ("WRITE", ended, ended),
    ];
    assert_eq!(second.as_slice(), expected);
}

#[test]
fn a_value_that_was_looked_for_came_when_it_was_looked_last_if_nobody_slept_since() {
    let (mut recorder, ring) = recorder(4);
    recorder.looks();
    let looked = recorder.looked;
    recorder.open(TASK, 0, false);
    recorder.close(TASK, true);
    recorder.looks();
    let stale = recorder.looked;
    recorder.blocked();
    let woken = ticks();
    recorder.open(TASK, 1, false);
    recorder.close(TASK, true);
    let told = read_all(&ring, 0);
    assert_eq!(told[0].1[0].2, looked);
    assert!(told[1].1[0].2 >= woken && woken >= stale);
}

#[test]
fn what_is_under_way_is_found_and_has_been_written_where_its_execution_has_ended() {
    let (mut recorder, ring) = recorder(4);
    recorder.open(TASK, 3, false);
    for (finished, expected) in [
        (3, &["READ", "READ", "COMPUTE"][..]),
        (4, &["READ", "READ", "COMPUTE", "WRITE"]),
    ] {
        let told = read_all(&ring, finished);
        assert_eq!(names(&told[0].1), expected);
        assert_eq!(told[0].1[2].2, u64::MAX, "until it is looked at");
    }
    recorder.close(TASK, false);
    let told = read_all(&ring, 4);
    assert_eq!(names(&told[0].1), ["READ", "READ", "COMPUTE"]);
    assert_eq!(told[0].1[2].2, recorder.ended);
}

#[test]
fn a_write_that_has_to_wait_is_recorded_when_it_is_done() {
    let (mut recorder, ring) = recorder(4);
    recorder.open(TASK, 5, false);
    recorder.close(TASK, false);
    let computed = recorder.ended;
    recorder.record(TASK, std::iter::once(OpKind::Write), 5);
    let told = read_all(&ring, 6);
    assert_eq!(names(&told[0].1), ["READ", "READ", "COMPUTE"]);
    assert_eq!(told[1], (5, vec![("WRITE", computed, recorder.ended)]));
}

#[test]
fn the_newest_records_are_kept() {
    let (mut recorder, ring) = recorder(2);
    assert!(read_all(&ring, 9).is_empty());
    for execution in 0..7 {
        recorder.open(TASK, execution, false);
        recorder.close(TASK, true);
        let mut told: Vec<u64> = read_all(&ring, 9).iter().map(|(number, _)| *number).collect();
        told.sort_unstable();
        let first = execution.saturating_sub(1);
        assert_eq!(told, (first..=execution).collect::<Vec<_>>());
    }
}
