//! Managers: what they launch, and what they are told.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use selvedge::Worker;
use selvedge::hosts::{ClusterManager, LocalManager, ManageEvent, ProcessId, WorkerCommand, WorkerConfig};
use selvedge::prelude::*;

use crate::census::wait_until;
use crate::{beside_others, local, pid};

/// Events, each with the manager's own data that came with it.
type Events = Vec<(ManageEvent, u32)>;

/// The events of each worker.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<BTreeMap<ProcessId, Events>>>);

impl Record {
    fn note(&self, worker: ProcessId, config: &mut WorkerConfig, event: ManageEvent) {
        let data = config.user_data_mut::<u32>().copied().unwrap();
        self.0
            .lock()
            .unwrap()
            .entry(worker)
            .or_default()
            .push((event, data));
    }

    /// The events of all workers, in the order of their numbers.
    fn events(&self) -> Vec<Events> {
        self.0.lock().unwrap().values().cloned().collect()
    }

    fn of(&self, worker: ProcessId) -> Vec<ManageEvent> {
        let record = self.0.lock().unwrap();
        let events = record.get(&worker).cloned().unwrap_or_default();
        events.into_iter().map(|(event, _)| event).collect()
    }
}

/// Records what it is told, and panics.
struct Recording {
    launched: LocalManager,
    record: Record,
}

impl ClusterManager for Recording {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let mut data = 0_u32;
        self.launched.launch(&mut |config| {
            data += 1;
            out(config.user_data(data));
        })
    }

    fn manage(&self, worker: ProcessId, config: &mut WorkerConfig, event: ManageEvent) {
        self.record.note(worker, config, event);
        panic!("a manager that panics");
    }
}

const WHOLE: [ManageEvent; 3] = [
    ManageEvent::Register,
    ManageEvent::Deregister,
    ManageEvent::Finalize,
];

#[test]
fn jmgr_02_jmgr_16_jmgr_17_a_manager_is_told_of_each_process_once_and_in_order_whatever_it_does() {
    let _guard = beside_others();
    let record = Record::default();
    let runtime = Runtime::new();
    let workers = runtime
        .add(Recording {
            launched: local(2),
            record: record.clone(),
        })
        .unwrap();
    let registered: Vec<_> = (1..=2).map(|data| vec![(ManageEvent::Register, data)]).collect();
    assert_eq!(wait_until(&registered, || record.events()), registered);
    let numbers: Vec<_> = workers.iter().map(Worker::process).collect();
    workers[0].end(Duration::from_secs(60)).unwrap();
    assert_eq!(wait_until(&WHOLE.to_vec(), || record.of(numbers[0])), WHOLE);
    assert_eq!(record.of(numbers[1]), [ManageEvent::Register]);
    // The end of the runtime is one of its workers.
    drop((workers, runtime));
    let whole: Vec<_> = (1..=2)
        .map(|data| WHOLE.map(|event| (event, data)).to_vec())
        .collect();
    assert_eq!(wait_until(&whole, || record.events()), whole);
}

/// Restarts make processes of their own.
struct Waiting;

#[actor]
impl Waiting {
    pub fn new() -> Self {
        Waiting
    }

    pub fn pid(&mut self) -> u32 {
        std::process::id()
    }
}

#[test]
fn jmgr_17_a_worker_that_is_started_again_is_another_process() {
    let _guard = beside_others();
    let record = Record::default();
    let runtime = Runtime::new();
    let manager = Recording {
        launched: local(1),
        record: record.clone(),
    };
    let workers = runtime.add(manager).unwrap();
    let actor = runtime
        .spawn::<Waiting>("waiting", ())
        .restart(Restart::OnFailure { max: 1 })
        .in_worker(&workers[0])
        .unwrap();
    let first = actor.call().pid().wait().unwrap();
    crate::deaths::kill_9(first);
    let expected = [WHOLE.as_slice(), &[ManageEvent::Register]].concat();
    let number = workers[0].process();
    assert_eq!(wait_until(&expected, || record.of(number)), expected);
    drop((actor, workers, runtime));
    let expected = [WHOLE, WHOLE].concat();
    assert_eq!(wait_until(&expected, || record.of(number)), expected);
}

/// A program that is no worker.
struct Failing(Record);

impl ClusterManager for Failing {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        let command = WorkerCommand::new("false");
        out(WorkerConfig::default().command(command).user_data(7_u32));
        Ok(())
    }

    fn manage(&self, worker: ProcessId, config: &mut WorkerConfig, event: ManageEvent) {
        self.0.note(worker, config, event);
    }
}

#[test]
fn jmgr_18_a_worker_that_does_not_join_is_deregistered_and_finalized() {
    let _guard = beside_others();
    let record = Record::default();
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(30));
    runtime.add(Failing(record.clone())).unwrap_err();
    let expected = vec![vec![(ManageEvent::Deregister, 7), (ManageEvent::Finalize, 7)]];
    assert_eq!(wait_until(&expected, || record.events()), expected);
}

/// Launches the second worker once it was told that the first one has joined.
struct Overlapping {
    joined: Mutex<Receiver<()>>,
    tell: Mutex<Sender<()>>,
}

impl ClusterManager for Overlapping {
    fn launch(&self, out: &mut dyn FnMut(WorkerConfig)) -> Result<()> {
        local(1).launch(out)?;
        self.joined
            .lock()
            .unwrap()
            .recv_timeout(Duration::from_secs(60))?;
        local(1).launch(out)
    }

    fn manage(&self, _: ProcessId, _: &mut WorkerConfig, event: ManageEvent) {
        if event == ManageEvent::Register {
            let _ = self.tell.lock().unwrap().send(());
        }
    }
}

#[test]
fn jmgr_01_jmgr_06_jmgr_07_workers_join_while_others_are_launched_and_all_have_at_the_end() {
    let _guard = beside_others();
    let (tell, joined) = channel();
    let manager = Overlapping {
        joined: Mutex::new(joined),
        tell: Mutex::new(tell),
    };
    let runtime = Runtime::new().hello_timeout(Duration::from_secs(60));
    let workers = runtime.add(manager).unwrap();
    assert_eq!(workers.len(), 2);
    for worker in &workers {
        let found = runtime.call(pid::remote().on(worker)).wait().unwrap();
        assert_eq!(Some(found), worker.pid());
    }
}
