//! Tests of the rules LEASE-1 to LEASE-4, one by one.

use super::*;

fn units(lanes: &[u32]) -> IdSet<Unit> {
    lanes.iter().map(|&lane| Unit::Lane(LaneId(lane))).collect()
}

fn grant(table: &mut LeaseTable, holder: &str, lanes: &[u32]) -> Result<LeaseId, Obstacle> {
    let actors = lanes.iter().map(|&lane| ActorId(lane)).collect();
    table.grant(holder, &units(lanes), actors)
}

fn held(lane: u32, holder: &str) -> Obstacle {
    Obstacle::Held {
        unit: Unit::Lane(LaneId(lane)),
        holder: holder.to_owned(),
    }
}

#[test]
fn lease_1_a_held_lane_is_refused_with_its_holder() {
    let mut table = LeaseTable::default();
    grant(&mut table, "first", &[1, 2]).unwrap();
    assert_eq!(grant(&mut table, "second", &[2, 3]), Err(held(2, "first")));
}

#[test]
fn lease_2_a_refused_lease_takes_nothing() {
    let mut table = LeaseTable::default();
    grant(&mut table, "first", &[2]).unwrap();
    assert!(grant(&mut table, "second", &[1, 2]).is_err());
    assert!(grant(&mut table, "third", &[1]).is_ok());
}

#[test]
fn lease_3_a_dropped_lease_keeps_what_still_runs() {
    let mut table = LeaseTable::default();
    let first = grant(&mut table, "first", &[1, 2]).unwrap();
    table.start(first, &[LaneId(1)]).unwrap();
    table.release(first);
    assert!(grant(&mut table, "second", &[2]).is_ok());
    let ending = Obstacle::Ending {
        unit: Unit::Lane(LaneId(1)),
        holder: "first".into(),
    };
    assert_eq!(grant(&mut table, "second", &[1]), Err(ending));
    table.ended(LaneId(1), None);
    assert!(grant(&mut table, "second", &[1]).is_ok());
}

#[test]
fn lease_4_a_lost_lane_is_never_granted_again_and_not_waited_for() {
    let mut table = LeaseTable::default();
    let first = grant(&mut table, "first", &[1]).unwrap();
    table.start(first, &[LaneId(1)]).unwrap();
    table.lose(LaneId(1));
    assert_eq!(table.running(first), Vec::new());
    table.release(first);
    table.ended(LaneId(1), None);
    assert_eq!(
        grant(&mut table, "next", &[1]),
        Err(Obstacle::Lost {
            unit: Unit::Lane(LaneId(1))
        })
    );
}

#[test]
fn an_ending_lease_is_worth_waiting_for_unless_something_else_is_held() {
    let mut table = LeaseTable::default();
    let first = grant(&mut table, "first", &[1]).unwrap();
    grant(&mut table, "second", &[2]).unwrap();
    assert_eq!(table.start(first, &[LaneId(1)]), Ok(()));
    table.ending(first);
    assert!(matches!(
        table.obstacle(&units(&[1])),
        Some(Obstacle::Ending { .. })
    ));
    assert_eq!(table.obstacle(&units(&[1, 2])), Some(held(2, "second")));
    // Once its program has ended, the lane is free, whether or not the holder has released the lease.
    table.ended(LaneId(1), None);
    assert_eq!(table.obstacle(&units(&[1])), None);
}

#[test]
fn a_program_starts_only_on_a_held_and_idle_lane() {
    let mut table = LeaseTable::default();
    let first = grant(&mut table, "first", &[1]).unwrap();
    assert_eq!(
        table.start(first, &[LaneId(1), LaneId(9)]),
        Err(NotStarted::NotHeld(LaneId(9)))
    );
    assert_eq!(table.start(first, &[LaneId(1)]), Ok(()));
    assert_eq!(
        table.start(first, &[LaneId(1)]),
        Err(NotStarted::Running(LaneId(1)))
    );
    table.ended(LaneId(1), Some("boom".into()));
    assert_eq!(table.panics(first), vec![(LaneId(1), "boom".to_owned())]);
    assert_eq!(table.start(first, &[LaneId(1)]), Ok(()));
}

#[test]
fn programs_on_their_way_reserve_the_idle_lanes_of_their_lease() {
    let mut table = LeaseTable::default();
    let first = grant(&mut table, "first", &[1, 2]).unwrap();
    grant(&mut table, "second", &[3]).unwrap();
    table.start(first, &[LaneId(1)]).unwrap();
    let worker = ProcessId(7);
    let reserved = table.reserve(first, worker, &[LaneId(1), LaneId(2), LaneId(3), LaneId(9)]);
    assert_eq!(reserved, vec![LaneId(2)]);
    assert_eq!(table.running(first), vec![LaneId(1), LaneId(2)]);
}

#[test]
fn the_programs_in_a_process_end_with_it_and_no_others() {
    let mut table = LeaseTable::default();
    let first = grant(&mut table, "first", &[1, 2, 3]).unwrap();
    table.start(first, &[LaneId(1)]).unwrap();
    table.reserve(first, ProcessId(7), &[LaneId(2)]);
    table.reserve(first, ProcessId(8), &[LaneId(3)]);
    table.ended_with(ProcessId(7));
    assert_eq!(table.running(first), vec![LaneId(1), LaneId(3)]);
    // The programs of a lease that was released end with the process too.
    table.release(first);
    table.ended_with(ProcessId(8));
    assert!(grant(&mut table, "second", &[2, 3]).is_ok());
}

#[test]
fn only_the_process_of_a_program_says_that_it_has_ended() {
    let mut table = LeaseTable::default();
    let first = grant(&mut table, "first", &[1, 2, 3]).unwrap();
    table.start(first, &[LaneId(1)]).unwrap();
    table.reserve(first, ProcessId(7), &[LaneId(2)]);
    let in_seven: Vec<_> = (1..=4)
        .filter(|lane| table.runs_in(ProcessId(7), LaneId(*lane)))
        .collect();
    assert_eq!(in_seven, [2]);
    assert!(!table.runs_in(ProcessId(8), LaneId(2)));
    table.ended(LaneId(2), Some("boom".into()));
    assert!(!table.runs_in(ProcessId(7), LaneId(2)), "a program ends once");
}
