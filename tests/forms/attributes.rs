//! Attributes of methods and crates that generated code must respect: conditions, deprecation, no unsafe code.
#![forbid(unsafe_code)]
#![deny(warnings)]

use selvedge::collectives::{Backend, Capabilities, CommError, Communicator, Joining, Part};
use selvedge::{Compile, Contribute, Edge, Runtime, Tensor, TensorError, actor};
use serde::{Deserialize, Serialize};

/// An actor with a method that is not compiled: the methods after it have shifted numbers.
struct Conditional;

#[actor]
impl Conditional {
    pub fn new() -> Self {
        Conditional
    }

    #[cfg(target_os = "none")]
    pub fn left_out(&mut self, x: String) -> String {
        x
    }

    #[cfg(not(target_os = "none"))]
    pub fn either(&mut self, x: i64) -> i64 {
        x + 1
    }

    #[cfg(target_os = "none")]
    pub fn either(&mut self, x: i64, y: i64) -> i64 {
        x + y
    }

    pub fn always(&mut self, x: i64) -> i64 {
        x * 10
    }

    #[deprecated(note = "call `always`")]
    pub fn old(&mut self, x: i64) -> i64 {
        x * 100
    }
}

#[test]
fn methods_that_are_compiled_out_leave_the_others_their_numbers() {
    let runtime = Runtime::new();
    let actor = runtime.spawn::<Conditional>("a", ()).in_thread().unwrap();
    let graph = runtime
        .compile(|x: Edge<i64>| actor.always(&actor.either(&x)))
        .unwrap();
    assert_eq!(graph.run(1).unwrap(), 20);
    drop(graph);
    assert_eq!(actor.call().always(1).wait().unwrap(), 10);
}

#[test]
fn a_deprecated_method_is_deprecated_in_the_handle() {
    let runtime = Runtime::new();
    let actor = runtime.spawn::<Conditional>("a", ()).inline().unwrap();
    #[expect(deprecated)]
    let graph = runtime.compile(|x: Edge<i64>| actor.old(&x)).unwrap();
    assert_eq!(graph.run(1).unwrap(), 100);
}

/// A type that collectives accept, defined where unsafe code is forbidden.
#[derive(Clone, Serialize, Deserialize)]
pub struct Gradients(Vec<Tensor>);

impl Contribute for Gradients {
    fn parts(&self, read: &mut dyn FnMut(&[Part<'_>])) {
        self.0.parts(read);
    }

    fn from_parts(parts: Vec<Tensor>) -> Result<Self, TensorError> {
        Ok(Gradients(parts))
    }
}

selvedge::contributes!(Gradients);

#[cfg(feature = "cuda")]
selvedge::carries_tensors!(Gradients);

fn join(_: &Joining<'_>) -> Result<Box<dyn Communicator>, CommError> {
    Err(CommError::NoSuchPlan)
}

selvedge::communicator_backend!(Backend::new(
    "nobody's",
    || Capabilities::everything("nobody's"),
    join
));
