use crate::manager::{
    ManageEvent, OutOfTurn, SetUpAction, Stage, StartUp, StartUpEvent, WorkerPlace, WorkerSetUp,
};

const REGISTER: Told = SetUpAction::Manage(ManageEvent::Register);
const INTERRUPT: Told = SetUpAction::Manage(ManageEvent::Interrupt);
const DEREGISTER: Told = SetUpAction::Manage(ManageEvent::Deregister);
const FINALIZE: Told = SetUpAction::Manage(ManageEvent::Finalize);

type Told = SetUpAction<&'static str>;
type Happening = fn(&mut WorkerSetUp) -> Result<Vec<Told>, OutOfTurn>;

const HAPPENINGS: [Happening; 6] = [
    |worker| worker.announced().map(|()| Vec::new()),
    WorkerSetUp::connected,
    |worker| worker.failed("refused"),
    WorkerSetUp::interrupt,
    WorkerSetUp::remove,
    |worker| worker.exited(|| "ended"),
];

fn connecting() -> WorkerSetUp {
    let mut worker = WorkerSetUp::launched();
    worker.announced().unwrap();
    worker
}

fn registered() -> WorkerSetUp {
    let mut worker = connecting();
    assert_eq!(worker.connected(), Ok(vec![REGISTER]));
    worker
}

#[test]
fn jmgr_02_the_address_comes_before_the_link_and_the_link_before_the_membership() {
    let (mut worker, mut start_up) = (WorkerSetUp::launched(), StartUp::default());
    assert!(worker.connected::<&str>().is_err(), "no address is known");
    let address = WorkerPlace::Address("10.0.0.7:4711".parse().unwrap());
    let event = start_up.receive(&mut address.announcement().as_bytes()).unwrap();
    assert_eq!(event, Some(StartUpEvent::Announced(address)));
    worker.announced().unwrap();
    assert_eq!(worker.connected(), Ok(vec![REGISTER]));
    assert!(worker.announced().is_err() && worker.connected::<&str>().is_err());
}

#[test]
fn jmgr_17_a_manager_is_told_of_registration_interrupts_removal_and_end() {
    let mut worker = registered();
    assert_eq!(worker.interrupt(), Ok(vec![INTERRUPT]));
    assert_eq!(worker.interrupt(), Ok(vec![INTERRUPT]));
    assert_eq!(worker.remove(), Ok(vec![DEREGISTER, SetUpAction::Kill]));
    assert_eq!(worker.exited(|| ""), Ok(vec![FINALIZE]));
    assert_eq!(
        registered().exited(|| ""),
        Ok(vec![DEREGISTER, FINALIZE]),
        "a death is no failure to join"
    );
}

#[test]
fn jmgr_18_a_worker_that_cannot_be_connected_is_deregistered_and_killed_and_the_error_told() {
    for mut worker in [WorkerSetUp::launched(), connecting()] {
        let actions = worker.failed("refused");
        assert_eq!(
            actions,
            Ok(vec![DEREGISTER, SetUpAction::Kill, SetUpAction::Fail("refused")])
        );
        assert_eq!(worker.exited(|| ""), Ok(vec![FINALIZE]));
    }
    for mut worker in [WorkerSetUp::launched(), connecting()] {
        let actions = worker.exited(|| "ended");
        assert_eq!(
            actions,
            Ok(vec![DEREGISTER, FINALIZE, SetUpAction::Fail("ended")]),
            "nothing is left to kill"
        );
    }
}

#[test]
fn jmgr_17_a_step_out_of_turn_names_the_step_and_the_stage() {
    let error = connecting().interrupt::<&str>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a worker cannot be interrupted when it is being connected"
    );
}

/// Every order of happenings, up to a length.
#[test]
fn jmgr_17_events_come_in_order_whatever_happens() {
    let mut reached = Vec::new();
    let mut pending = vec![(WorkerSetUp::launched(), Vec::<Told>::new())];
    for _ in 0..8 {
        for (worker, told) in std::mem::take(&mut pending) {
            for happening in HAPPENINGS {
                let mut next = worker.clone();
                match happening(&mut next) {
                    Ok(actions) => pending.push((next, [told.clone(), actions].concat())),
                    Err(error) => {
                        assert_eq!((error.stage, &next), (worker.stage(), &worker), "nothing changes")
                    }
                }
            }
        }
        pending.iter().for_each(|(worker, told)| check(worker, told));
        reached.extend(pending.iter().map(|(worker, _)| worker.stage()));
    }
    let stages = [
        Stage::Connecting,
        Stage::Registered,
        Stage::Deregistered,
        Stage::Finalized,
    ];
    assert!(stages.iter().all(|stage| reached.contains(stage)));
}

fn check(worker: &WorkerSetUp, told: &[Told]) {
    let place = |action: &Told| told.iter().position(|it| it == action);
    let count = |action: &Told| told.iter().filter(|it| *it == action).count();
    let fails: Vec<_> = told
        .iter()
        .filter(|it| matches!(it, SetUpAction::Fail(_)))
        .collect();
    let joined = place(&REGISTER).is_some();
    let is_over = matches!(worker.stage(), Stage::Deregistered | Stage::Finalized);
    let has_ended = worker.stage() == Stage::Finalized;
    assert!(count(&REGISTER) <= 1, "{told:?}");
    assert_eq!(count(&DEREGISTER), usize::from(is_over), "{told:?}");
    assert_eq!(count(&FINALIZE), usize::from(has_ended), "{told:?}");
    assert_eq!(
        fails.len(),
        usize::from(is_over && !joined),
        "an error, or a member: {told:?}"
    );
    for (at, action) in told.iter().enumerate() {
        if *action == INTERRUPT {
            assert!(
                place(&REGISTER).unwrap() < at && place(&DEREGISTER).is_none_or(|it| at < it),
                "{told:?}"
            );
        }
        if let SetUpAction::Manage(_) = action {
            assert!(
                place(&FINALIZE).is_none_or(|it| at <= it),
                "nothing comes after the end: {told:?}"
            );
        }
    }
    let has_kill = count(&SetUpAction::Kill) == 1;
    assert!(
        has_kill || !is_over || has_ended,
        "a process that lives on is killed: {told:?}"
    );
}
