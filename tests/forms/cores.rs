//! Actors whose threads are pinned to a core.

use selvedge::prelude::*;
use selvedge::{SpawnError, cores};

pub struct Seat;

#[actor]
impl Seat {
    pub fn new() -> Self {
        Seat
    }

    /// The cores that the actor's thread may run on.
    pub fn seen(&mut self, _tick: ()) -> Vec<u32> {
        cores()
    }
}

const APART: [Placement; 2] = [Placement::Thread, Placement::Process];

#[test]
fn an_actor_keeps_to_the_core_it_was_told_and_its_plan_says_so() -> Result<()> {
    for placement in APART {
        for core in cores() {
            let runtime = Runtime::new();
            let kept = runtime.spawn::<Seat>("kept", ()).on_core(core).place(placement)?;
            let free = runtime.spawn::<Seat>("free", ()).place(placement)?;
            let graph = runtime.compile(|x: Edge<()>| (kept.seen(&x), free.seen(&x)))?;
            assert_eq!(graph.execute(()).wait()?, (vec![core], cores()), "{placement}");
            let described = graph.describe();
            assert!(described.contains(&format!(", core {core}")), "{described}");
        }
    }
    Ok(())
}

#[test]
fn a_core_that_cannot_be_had_is_named_with_those_that_can() {
    for placement in APART {
        let runtime = Runtime::new();
        let refused = runtime
            .spawn::<Seat>("s", ())
            .on_core(1023)
            .place(placement)
            .unwrap_err();
        assert!(matches!(refused, SpawnError::Core { .. }), "{refused:?}");
        let (text, first) = (refused.to_string(), cores()[0]);
        assert!(text.contains("actor `s`") && text.contains("core 1023"), "{text}");
        assert!(text.contains(&format!(
            "it may run on core{} {first}",
            if cores().len() > 1 { "s" } else { "" }
        )));
    }
    let inline = Runtime::new()
        .spawn::<Seat>("s", ())
        .on_core(0)
        .inline()
        .unwrap_err();
    assert!(matches!(inline, SpawnError::Core { .. }), "{inline:?}");
    assert!(inline.to_string().contains("give it a thread"), "{inline}");
}

#[test]
fn actors_that_share_a_lane_agree_on_its_core() -> Result<()> {
    let all = cores();
    let (first, other) = (all[0], all.get(1).copied().unwrap_or(1023));
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    for lane in [runtime.lane("l"), worker.lane("l")] {
        let a = runtime.spawn::<Seat>("a", ()).on_core(first).in_lane(&lane)?;
        let same = runtime.spawn::<Seat>("same", ()).on_core(first).in_lane(&lane)?;
        let any = runtime.spawn::<Seat>("any", ()).in_lane(&lane)?;
        let refused = runtime
            .spawn::<Seat>("b", ())
            .on_core(other)
            .in_lane(&lane)
            .unwrap_err();
        assert!(
            refused.to_string().contains(&format!("keeps to core {first}")),
            "{refused}"
        );
        let graph = runtime.compile(|x: Edge<()>| (a.seen(&x), same.seen(&x), any.seen(&x)))?;
        let kept = vec![first];
        assert_eq!(graph.execute(()).wait()?, (kept.clone(), kept.clone(), kept));
    }
    Ok(())
}

#[test]
fn an_actor_that_is_built_anew_keeps_to_its_core() -> Result<()> {
    let core = cores()[0];
    let runtime = Runtime::new();
    let spawn = runtime.spawn::<Seat>("s", ()).on_core(core);
    let seat = spawn.restart(Restart::OnFailure { max: 1 }).in_process()?;
    let pid = seat.actor().pid().unwrap();
    let graph = runtime.compile(|x: Edge<()>| seat.seen(&x))?;
    assert_eq!(graph.execute(()).wait()?, [core]);
    let killed = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(killed, rustix::process::Signal::KILL)?;
    while graph.execute(()).wait().is_ok() {}
    drop(graph);
    assert_eq!(seat.call().seen(()).wait()?, [core]);
    assert_ne!(seat.actor().pid(), Some(pid));
    Ok(())
}

pub struct Picky;

#[actor]
impl Picky {
    pub fn new(fails: bool) -> Result<Self> {
        if fails { Err("no".into()) } else { Ok(Picky) }
    }

    pub fn seen(&mut self, _tick: ()) -> Vec<u32> {
        cores()
    }
}

#[test]
fn a_lane_is_free_again_when_nobody_on_it_wants_a_core() -> Result<()> {
    let core = cores()[0];
    let runtime = Runtime::new();
    let worker = runtime.worker("w")?;
    for (lane, in_worker) in [(runtime.lane("l"), false), (worker.lane("l"), true)] {
        let picky = |fails| runtime.spawn::<Picky>("p", (fails,)).on_core(core);
        let failed = picky(true).in_lane(&lane).unwrap_err();
        assert!(matches!(failed, SpawnError::Constructor { .. }), "{failed:?}");
        let free = runtime.spawn::<Seat>("free", ()).in_lane(&lane)?;
        assert_eq!(free.call().seen(()).wait()?, cores());
        let kept = picky(false).in_lane(&lane)?;
        assert_eq!(free.call().seen(()).wait()?, [core]);
        if !in_worker {
            // In a worker, the kill would end the whole worker.
            kept.actor().kill();
            assert_eq!(free.call().seen(()).wait()?, cores());
        }
    }
    Ok(())
}

#[test]
fn lanes_of_different_cores_are_not_merged() -> Result<()> {
    let core = cores()[0];
    let runtime = Runtime::new();
    let spawn = |name: &str| runtime.spawn::<Seat>(name, ());
    let seats = [
        spawn("a").on_core(core).in_thread()?,
        spawn("b").in_thread()?,
        spawn("c").in_thread()?,
        spawn("d").in_thread()?,
    ];
    let options = Options::new().lanes(Lanes::Auto);
    let graph = runtime.compile_with(options, |x: Edge<()>| {
        [0, 1, 2, 3].map(|seat: usize| seats[seat].seen(&x))
    })?;
    let [a, b, c, d] = graph.execute(()).wait()?;
    assert_eq!(a, [core]);
    for free in [b, c, d] {
        assert_eq!(free, cores());
    }
    Ok(())
}
