//! Checkpoints: what an actor's next state has after each death of its process, and after a panic.

use crate::actors::{PLACEMENTS, until};
use selvedge::prelude::*;
use selvedge::{CheckpointError, Exit, Profile, Restart};

/// What a tally does at its next checkpoint or restoration.
#[derive(Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
enum Mishap {
    None,
    DiesInSave,
    FailsToSave,
    PanicsInSave,
    FailsToRestore,
    DiesInRestore,
}

struct Tally {
    total: i64,
    /// What nobody saves.
    restored: u32,
    mishap: Mishap,
}

fn die() -> ! {
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).expect("kill");
    loop {
        std::thread::park();
    }
}

#[actor]
impl Tally {
    pub fn new(start: i64) -> Self {
        let (restored, mishap) = (0, Mishap::None);
        Tally {
            total: start,
            restored,
            mishap,
        }
    }

    pub fn add(&mut self, x: i64) -> i64 {
        self.total += x;
        self.total
    }

    pub fn total(&self) -> i64 {
        self.total
    }

    pub fn restored(&self) -> u32 {
        self.restored
    }

    pub fn add_and_die(&mut self, x: i64) {
        self.total += x;
        die();
    }

    pub fn add_and_fail(&mut self, x: i64) -> Result<i64> {
        self.total += x;
        Err("as asked".into())
    }

    pub fn add_and_panic(&mut self, x: i64) {
        self.total += x;
        panic!("as asked");
    }

    pub fn add_and_meet(&mut self, x: i64, mishap: Mishap) -> i64 {
        self.mishap = mishap;
        self.add(x)
    }
}

impl Checkpoint for Tally {
    type State = (i64, Mishap);

    fn save(&self) -> Result<Self::State> {
        match self.mishap {
            Mishap::DiesInSave => die(),
            Mishap::FailsToSave => Err("the disk of the tests is full".into()),
            Mishap::PanicsInSave => panic!("the disk of the tests has gone"),
            _ => Ok((self.total, self.mishap)),
        }
    }

    fn restore(&mut self, (total, mishap): Self::State) -> Result<()> {
        match mishap {
            Mishap::FailsToRestore => return Err("a state of the tests that nobody wants".into()),
            Mishap::DiesInRestore => die(),
            _ => {}
        }
        self.total = total;
        self.restored += 1;
        Ok(())
    }
}

#[actor]
trait Doubles {
    fn double(&mut self) -> i64;
}

#[actor]
impl Doubles for Tally {
    fn double(&mut self) -> i64 {
        self.total *= 2;
        self.total
    }
}

#[actor(more)]
impl Tally {
    pub async fn negate(&mut self) -> i64 {
        self.total = -self.total;
        self.total
    }
}

/// A generic actor, whose checkpoints need what its block does not say of `T`.
struct Last<T>(T);

#[actor(for(Last<u32>))]
impl<T: Wire> Last<T> {
    pub fn new(start: T) -> Self {
        Last(start)
    }

    pub fn swap(&mut self, x: T) -> T {
        std::mem::replace(&mut self.0, x)
    }
}

impl<T: Wire> Checkpoint for Last<T> {
    type State = T;

    fn save(&self) -> Result<T> {
        Ok(self.0.clone())
    }

    fn restore(&mut self, last: T) -> Result<()> {
        self.0 = last;
        Ok(())
    }
}

struct Picky<T>(T);

#[actor(for(Picky<u32>))]
impl<T: Wire> Picky<T> {
    pub fn new(start: T) -> Self {
        Picky(start)
    }
}

impl<T: Wire + Copy> Checkpoint for Picky<T> {
    type State = T;

    fn save(&self) -> Result<T> {
        Ok(self.0)
    }

    fn restore(&mut self, last: T) -> Result<()> {
        self.0 = last;
        Ok(())
    }
}

const RESTART: Restart = Restart::OnFailure { max: 8 };

fn tally(runtime: &Runtime, every: u32) -> Result<TallyHandle> {
    let spawn = runtime.spawn::<Tally>("tally", (100,)).restart(RESTART);
    Ok(spawn.checkpoint_every(every).in_process()?)
}

/// Kills the actor's process, and waits for the next one.
fn kill(actor: &selvedge::ActorRef) {
    let pid = actor.pid().expect("a process");
    let id = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    rustix::process::kill_process(id, rustix::process::Signal::KILL).expect("kill");
    until("a restart", || actor.pid().filter(|again| *again != pid));
}

#[test]
fn rft_06_a_restarted_actor_continues_from_its_last_checkpoint_twice_in_a_row() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 1)?;
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 100, "there is no checkpoint yet");
    assert_eq!(tally.call().restored().wait()?, 0);
    for round in 1..=3 {
        for _ in 0..10 {
            tally.call().add(1).wait()?;
        }
        // An answered call is in the checkpoint, also if the next death comes before another call.
        kill(tally.actor());
        kill(tally.actor());
        assert_eq!(tally.call().total().wait()?, 100 + 10 * round);
        assert_eq!(tally.call().restored().wait()?, 1, "nobody saves how often");
    }
    Ok(())
}

#[test]
fn rft_06_the_calls_after_the_last_checkpoint_are_lost_and_no_others() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 3)?;
    for _ in 0..8 {
        tally.call().add(1).wait()?;
        // A method that changes nothing is not counted.
        tally.call().total().wait()?;
    }
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 106, "6 of 8 are saved");
    // The count begins anew with the process.
    for _ in 0..3 {
        tally.call().add(1).wait()?;
    }
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 109);
    Ok(())
}

#[test]
fn rft_06_a_death_between_a_method_and_its_checkpoint_loses_that_call_alone() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 1)?;
    tally.call().add(1).wait()?;
    assert!(tally.call().add_and_die(10).wait().is_err());
    assert_eq!(tally.call().total().wait()?, 101);
    assert!(tally.call().add_and_meet(10, Mishap::DiesInSave).wait().is_err());
    assert_eq!(
        tally.call().total().wait()?,
        101,
        "the checkpoint before is the last one"
    );
    tally.call().add(1).wait()?;
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 102);
    Ok(())
}

#[test]
fn rft_06_a_method_that_fails_is_saved_like_any_other() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 1)?;
    let error = tally.call().add_and_fail(5).wait().unwrap_err();
    assert!(error.to_string().contains("as asked"), "{error}");
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 105);
    // A panic leaves the state as it is, and the next method saves it.
    assert!(tally.call().add_and_panic(5).wait().is_err());
    tally.call().add(0).wait()?;
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 110);
    Ok(())
}

#[test]
fn rft_06_a_checkpoint_that_fails_is_a_typed_error_and_the_next_method_tries_again() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 2)?;
    for (mishap, text) in [
        (Mishap::FailsToSave, "the disk of the tests is full"),
        (Mishap::PanicsInSave, "the disk of the tests has gone"),
    ] {
        tally.call().add(1).wait()?;
        let error = tally.call().add_and_meet(1, mishap).wait().unwrap_err();
        let Some(CheckpointError::NotSaved { actor, reason }) = error.downcast_ref() else {
            panic!("{error}")
        };
        assert_eq!(actor, "tally");
        assert!(reason.contains(text), "{reason}");
        tally.call().add_and_meet(1, Mishap::None).wait()?;
    }
    let graph =
        runtime.compile(|x: Edge<i64>| tally.add_and_meet(&x, &selvedge::constant(Mishap::FailsToSave)))?;
    graph.execute(0).wait()?;
    let error = graph.execute(0).wait().unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(CheckpointError::NotSaved { .. })),
        "{error}"
    );
    drop(graph);
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 106);
    Ok(())
}

#[test]
fn rft_06_a_checkpoint_that_is_refused_ends_the_actor_and_says_why() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 1)?;
    tally.call().add_and_meet(1, Mishap::FailsToRestore).wait()?;
    let pid = tally.actor().pid().expect("a process");
    let id = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    rustix::process::kill_process(id, rustix::process::Signal::KILL)?;
    let exit = until("the end", || {
        let death = tally.actor().last_death()?;
        matches!(death.exit, Exit::NotRestored(_)).then_some(death.exit)
    });
    assert!(exit.to_string().contains("that nobody wants"), "{exit}");
    let error = tally.call().total().wait().unwrap_err();
    assert!(error.to_string().contains("that nobody wants"), "{error}");
    Ok(())
}

#[test]
fn rft_06_a_death_while_a_checkpoint_is_restored_is_one_of_the_restarts() -> Result<()> {
    let runtime = Runtime::new();
    let spawn = runtime.spawn::<Tally>("tally", (100,));
    let spawn = spawn.restart(Restart::OnFailure { max: 2 });
    let tally = spawn.checkpoint_every(1).in_process()?;
    tally.call().add_and_meet(1, Mishap::DiesInRestore).wait()?;
    let pid = tally.actor().pid().expect("a process");
    let id = rustix::process::Pid::from_raw(pid as i32).expect("pid");
    rustix::process::kill_process(id, rustix::process::Signal::KILL)?;
    // Each of the two processes dies of the same checkpoint.
    let error = tally.call().total().wait().unwrap_err();
    assert!(error.to_string().contains("SIGKILL"), "{error}");
    assert!(!tally.actor().is_alive());
    Ok(())
}

#[test]
fn rft_06_a_state_after_a_panic_is_the_last_checkpoint_in_every_place() -> Result<()> {
    let runtime = Runtime::new();
    for place in PLACEMENTS {
        let spawn = runtime.spawn::<Tally>("tally", (100,)).on_panic(OnPanic::Rebuild);
        let tally = spawn.checkpoint_every(1).place(place)?;
        assert!(tally.call().add_and_panic(10).wait().is_err());
        assert_eq!(
            tally.call().total().wait()?,
            100,
            "{place}: the constructor's state"
        );
        tally.call().add(1).wait()?;
        for _ in 0..2 {
            assert!(tally.call().add_and_panic(10).wait().is_err());
            assert_eq!(tally.call().total().wait()?, 101, "{place}");
        }
        tally.call().add_and_meet(1, Mishap::FailsToRestore).wait()?;
        assert!(tally.call().add_and_panic(10).wait().is_err());
        let error = tally.call().total().wait().unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(CheckpointError::NotRestored { .. })),
            "{place}: {error}"
        );
    }
    Ok(())
}

#[test]
fn rft_06_executions_of_a_graph_are_saved_before_their_results_leave() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 1)?;
    let mut total = 100;
    for round in 0..3 {
        let graph = runtime.compile(|x: Edge<i64>| tally.add(&tally.add(&x)))?;
        for _ in 0..5 {
            // Both methods of the execution add, and both are saved.
            total = graph.execute(1).wait()?;
        }
        let pid = tally.actor().pid();
        kill(tally.actor());
        assert_eq!(tally.call().total().wait()?, total, "round {round}");
        let graph = graph.recompile(&Profile::default())?;
        total = graph.execute(1).wait()?;
        drop(graph);
        assert_ne!(tally.actor().pid(), pid);
    }
    Ok(())
}

#[test]
fn rft_06_methods_of_other_blocks_of_traits_and_of_generic_actors_are_saved() -> Result<()> {
    let runtime = Runtime::new();
    let tally = tally(&runtime, 1)?;
    tally.as_doubles().call().double().wait()?;
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, 200);
    tally.call().negate().wait()?;
    kill(tally.actor());
    assert_eq!(tally.call().total().wait()?, -200);

    let spawn = runtime.spawn::<Last<u32>>("last", (1,)).restart(RESTART);
    let last = spawn.checkpoint_every(1).in_process()?;
    assert_eq!(last.call().swap(2).wait()?, 1);
    kill(last.actor());
    assert_eq!(last.call().swap(3).wait()?, 2);
    Ok(())
}

#[test]
fn rft_06_checkpoints_that_nobody_would_read_or_make_are_refused() -> Result<()> {
    let runtime = Runtime::new();
    let spawn = || runtime.spawn::<Tally>("tally", (100,));
    let refused = [
        (spawn().checkpoint_every(1).in_process().map(drop), "add `restart"),
        (
            spawn()
                .restart(RESTART)
                .checkpoint_every(0)
                .in_process()
                .map(drop),
            "set it to 1",
        ),
        (
            spawn()
                .restart(Restart::OnFailure { max: 0 })
                .checkpoint_every(1)
                .in_process()
                .map(drop),
            "add `restart",
        ),
        (
            spawn().restart(RESTART).checkpoint_every(1).in_thread().map(drop),
            "in a worker process",
        ),
        (
            spawn().restart(RESTART).checkpoint_every(1).inline().map(drop),
            "in a worker process",
        ),
        (
            runtime
                .spawn::<Picky<u32>>("picky", (1,))
                .restart(RESTART)
                .checkpoint_every(1)
                .in_process()
                .map(drop),
            "bounds",
        ),
    ];
    for (refused, help) in refused {
        let error = refused.unwrap_err();
        assert!(
            matches!(error, selvedge::SpawnError::Checkpoint { .. }),
            "{error}"
        );
        assert!(error.to_string().contains(help), "{error}");
    }
    Ok(())
}

/// A state that takes a while to send.
struct Large {
    calls: u64,
    bulk: Vec<u64>,
}

#[actor]
impl Large {
    pub fn new() -> Self {
        Large {
            calls: 0,
            bulk: vec![0; 1 << 18],
        }
    }

    pub fn fill(&mut self) -> u64 {
        self.calls += 1;
        self.bulk.fill(self.calls);
        self.calls
    }

    pub fn is_whole(&self) -> bool {
        self.bulk.iter().all(|number| *number == self.calls)
    }
}

impl Checkpoint for Large {
    type State = (u64, Vec<u64>);

    fn save(&self) -> Result<Self::State> {
        Ok((self.calls, self.bulk.clone()))
    }

    fn restore(&mut self, (calls, bulk): Self::State) -> Result<()> {
        (self.calls, self.bulk) = (calls, bulk);
        Ok(())
    }
}

#[test]
fn rft_06_a_death_at_any_moment_leaves_a_whole_checkpoint_of_all_answered_calls() -> Result<()> {
    let runtime = Runtime::new();
    let spawn = runtime.spawn::<Large>("large", ());
    let spawn = spawn.restart(Restart::OnFailure { max: u32::MAX });
    let large = spawn.checkpoint_every(1).in_process()?;
    let mut answered = 0;
    for round in 0..12 {
        let pid = large.actor().pid().expect("a process");
        let killer = std::thread::spawn(move || {
            // Somewhere in a call, in its checkpoint, or in its answer.
            (0..round * 40_000).for_each(|_| std::hint::spin_loop());
            let id = rustix::process::Pid::from_raw(pid as i32).expect("pid");
            rustix::process::kill_process(id, rustix::process::Signal::KILL).expect("kill");
        });
        let mut unanswered = 0;
        while large.actor().pid() == Some(pid) || unanswered > 0 {
            match large.call().fill().wait() {
                Ok(calls) => {
                    let least = answered + 1;
                    assert!(
                        (least..=least + unanswered).contains(&calls),
                        "{calls} after {answered}"
                    );
                    (answered, unanswered) = (calls, 0);
                }
                Err(_) => unanswered += 1,
            }
        }
        killer.join().expect("the killer");
        assert!(large.call().is_whole().wait()?);
    }
    Ok(())
}

/// An actor whose state has a reference, which means nothing outside the running processes.
struct Holder {
    held: Option<Ref<i64>>,
}

#[actor]
impl Holder {
    pub fn new() -> Self {
        Holder { held: None }
    }

    pub fn hold(&mut self, held: Ref<i64>) {
        self.held = Some(held);
    }

    pub fn read(&self) -> Result<i64> {
        let held = self.held.as_ref().ok_or("nothing is held")?;
        Ok(*held.fetch()?)
    }
}

impl Checkpoint for Holder {
    type State = Option<Ref<i64>>;

    fn save(&self) -> Result<Self::State> {
        Ok(self.held.clone())
    }

    fn restore(&mut self, held: Self::State) -> Result<()> {
        self.held = held;
        Ok(())
    }
}

#[test]
fn rft_06_a_reference_in_a_checkpoint_is_refused_and_the_actor_goes_on() -> Result<()> {
    let runtime = Runtime::new();
    let spawn = runtime.spawn::<Holder>("holder", ()).restart(RESTART);
    let holder = spawn.checkpoint_every(1).in_process()?;
    let graph = runtime.compile(|held: Edge<Ref<i64>>| holder.hold(&held))?;
    let error = graph.execute(runtime.put(7)?).wait().unwrap_err();
    let Some(CheckpointError::NotSaved { reason, .. }) = error.downcast_ref() else {
        panic!("{error}");
    };
    assert!(reason.contains("reference"), "{reason}");
    assert_eq!(holder.call().read().wait()?, 7);
    Ok(())
}
