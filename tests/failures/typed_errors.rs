//! Errors of user code keep their type in every place, if serde knows the type.

use std::fmt;

use selvedge::prelude::*;
use selvedge::{CallError, Cause, Failure, TaskError};
use serde::{Deserialize, Serialize};

const PLACEMENTS: [Placement; 3] = [Placement::Inline, Placement::Thread, Placement::Process];

/// An error that serde knows, with a source that is no field of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Refusal {
    TooLarge { most: u64, tags: Vec<String> },
    Busy,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooLarge { most, .. } => write!(f, "more than {most}"),
            Refusal::Busy => f.write_str("busy"),
        }
    }
}

impl std::error::Error for Refusal {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&fmt::Error)
    }
}

/// An error whose bytes are read as another one: serde leaves a field out.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[error("it left {left:?}")]
struct LeavesOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<u8>,
    after: u8,
}

/// An error whose own code panics.
#[derive(Debug, Deserialize, thiserror::Error)]
#[error("it panics when it is encoded")]
struct Explosive;

impl Serialize for Explosive {
    fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
        panic!("no bytes of mine")
    }
}

/// An error that serde does not know.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("opaque")]
struct Opaque;

fn refused(x: u64) -> std::result::Result<u64, Refusal> {
    match x {
        0 => Err(Refusal::Busy),
        1..=9 => Ok(x),
        _ => Err(Refusal::TooLarge {
            most: 9,
            tags: vec![x.to_string(), "large".to_owned()],
        }),
    }
}

#[derive(Default)]
struct Checker;

#[actor]
impl Checker {
    pub fn new() -> Self {
        Checker
    }

    pub fn check(&mut self, x: u64) -> std::result::Result<u64, Refusal> {
        refused(x)
    }

    pub async fn check_later(&mut self, x: &u64) -> std::result::Result<u64, Refusal> {
        std::future::ready(()).await;
        refused(*x)
    }

    pub fn leave_out(&mut self, x: u64) -> std::result::Result<u64, LeavesOut> {
        let left = (x > 0).then_some(3);
        Err(LeavesOut { left, after: 4 })
    }

    pub fn explode(&mut self, _x: u64) -> std::result::Result<u64, Explosive> {
        Err(Explosive)
    }

    pub fn opaque(&mut self, _x: u64) -> std::result::Result<u64, Opaque> {
        Err(Opaque)
    }

    pub fn boxed(&mut self, x: u64) -> Result<u64> {
        Ok(refused(x)?)
    }

    pub fn pass(&mut self, x: u64) -> u64 {
        x
    }
}

fn checker(runtime: &Runtime, placement: Placement) -> CheckerHandle {
    runtime.spawn::<Checker>("checker", ()).place(placement).unwrap()
}

fn task_error(graph: &Graph<u64, u64>, x: u64) -> TaskError {
    match graph.run(x) {
        Err(ExecError::Task(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn large() -> Refusal {
    refused(10).unwrap_err()
}

#[test]
fn an_error_of_a_task_comes_back_as_itself_from_every_place() {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let (maker, reader) = (
            checker(&runtime, placement),
            checker(&runtime, Placement::Process),
        );
        // The fault passes through another process, whose task is skipped.
        let graph = runtime
            .compile(|x: Edge<u64>| reader.pass(&maker.check(&x)))
            .unwrap();
        assert_eq!(graph.run(4).unwrap(), 4);
        for (x, expected) in [(10, large()), (0, Refusal::Busy)] {
            let error = task_error(&graph, x);
            assert_eq!(error.downcast_ref::<Refusal>(), Some(&expected), "{placement}");
            assert!(error.downcast_ref::<Opaque>().is_none());
            assert!(error.to_string().contains(&expected.to_string()), "{error}");
            assert!(matches!(error.cause(), Cause::Error { sources, .. } if sources.len() == 1));
            assert!(std::error::Error::source(&error).is_none(), "its text says all");
        }
        assert_eq!(graph.run(5).unwrap(), 5, "the graph goes on");
        drop(graph);
        let graph = runtime.compile(|x: Edge<u64>| maker.check_later(&x)).unwrap();
        assert_eq!(task_error(&graph, 10).downcast_ref::<Refusal>(), Some(&large()));
    }
}

#[test]
fn an_error_of_a_call_comes_back_as_itself_from_every_place() {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let checker = checker(&runtime, placement);
        let error = checker.call().check(10).wait().unwrap_err();
        assert_eq!(error.downcast_ref::<Refusal>(), Some(&large()), "{placement}");
        assert!(
            !error.is_panic() && error.to_string().contains("more than 9"),
            "{error}"
        );
        let CallError::Failed {
            failure: Failure::Error { type_name, .. },
            ..
        } = &error
        else {
            panic!("{error:?}")
        };
        assert!(type_name.ends_with("Refusal"), "{type_name}");
        let later = checker.call().check_later(0).wait().unwrap_err();
        assert_eq!(
            later.downcast_ref::<Refusal>(),
            Some(&Refusal::Busy),
            "{placement}"
        );
    }
}

#[test]
fn an_error_that_would_not_arrive_as_itself_arrives_as_its_texts() {
    let runtime = Runtime::new();
    let there = checker(&runtime, Placement::Process);
    let here = checker(&runtime, Placement::Thread);
    let graph = runtime.compile(|x: Edge<u64>| there.leave_out(&x)).unwrap();
    assert_eq!(
        task_error(&graph, 1)
            .downcast_ref::<LeavesOut>()
            .map(|it| it.after),
        Some(4)
    );
    let cut = task_error(&graph, 0);
    assert!(
        cut.downcast_ref::<LeavesOut>().is_none() && cut.to_string().contains("it left None"),
        "{cut}"
    );
    drop(graph);

    for (there, texts) in [(&there, true), (&here, false)] {
        let error = there.call().explode(1).wait().unwrap_err();
        assert_eq!(error.downcast_ref::<Explosive>().is_none(), texts);
        assert!(
            error.to_string().contains("it panics when it is encoded"),
            "{error}"
        );
        let error = there.call().opaque(1).wait().unwrap_err();
        assert_eq!(error.downcast_ref::<Opaque>().is_none(), texts);
        let error = there.call().boxed(10).wait().unwrap_err();
        assert_eq!(
            error.downcast_ref::<Refusal>().is_none(),
            texts,
            "a box hides the type"
        );
        assert!(error.to_string().contains("more than 9"), "{error}");
        assert_eq!(there.call().check(3).wait().unwrap(), 3, "the actor goes on");
    }
}
