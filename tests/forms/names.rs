//! Actor types of one name are told apart, or refused with both source locations.

use selvedge::{Compile, Edge, Placement, Runtime, SpawnError, actor};

fn doubled(runtime: &Runtime, place: Placement, x: i64) -> i64 {
    struct Step;
    #[actor]
    impl Step {
        pub fn new() -> Self {
            Step
        }
        pub fn apply(&mut self, x: i64) -> i64 {
            x * 2
        }
    }
    let step = runtime.spawn::<Step>("double", ()).place(place).unwrap();
    let graph = runtime.compile(|x: Edge<i64>| step.apply(&x)).unwrap();
    graph.run(x).unwrap()
}

/// Uses another type `Step`, with another constructor and the methods in another order.
fn squared(runtime: &Runtime, place: Placement, x: i64) -> i64 {
    struct Step(i64);
    #[actor]
    impl Step {
        pub fn new(power: i64) -> Self {
            Step(power)
        }
        pub fn power(&mut self) -> i64 {
            self.0
        }
        pub fn apply(&mut self, x: i64) -> i64 {
            x.pow(self.0 as u32)
        }
    }
    let step = runtime.spawn::<Step>("square", (2,)).place(place).unwrap();
    assert_eq!(step.call().power().wait().unwrap(), 2);
    let graph = runtime.compile(|x: Edge<i64>| step.apply(&x)).unwrap();
    graph.run(x).unwrap()
}

#[test]
fn two_types_of_one_name_are_two_types_wherever_they_live() {
    let runtime = Runtime::new();
    for place in [Placement::Inline, Placement::Thread, Placement::Process] {
        assert_eq!(doubled(&runtime, place, 10), 20, "{place:?}");
        assert_eq!(squared(&runtime, place, 10), 100, "{place:?}");
    }
}

macro_rules! twins {
    () => {
        fn first(runtime: &Runtime) -> Result<(), SpawnError> {
            struct Twin;
            #[actor]
            impl Twin {
                pub fn new() -> Self {
                    Twin
                }
            }
            runtime.spawn::<Twin>("first", ()).in_process().map(drop)
        }
        fn second(runtime: &Runtime) -> Result<(), SpawnError> {
            struct Twin;
            #[actor]
            impl Twin {
                pub fn new() -> Self {
                    Twin
                }
            }
            runtime.spawn::<Twin>("second", ()).in_process().map(drop)
        }
    };
}

twins!();

#[test]
fn types_that_only_their_contents_tell_apart_are_refused_with_both_places() {
    let runtime = Runtime::new();
    let mut refused = [first(&runtime), second(&runtime)]
        .into_iter()
        .filter_map(Result::err);
    let error = refused.next().unwrap();
    assert!(matches!(error, SpawnError::AmbiguousType { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("names::Twin") && text.matches("tests/forms/names.rs:").count() == 2,
        "{text}"
    );
    assert!(refused.next().is_none(), "one of them is found by its name");
}
