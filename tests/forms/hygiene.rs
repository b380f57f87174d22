//! User-defined names that generated code must not take for its own.

use std::convert::Infallible;

use selvedge::{Compile, Edge, Runtime, actor, remote};
use serde::{Deserialize, Serialize};

/// A type with a name that generated code uses too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure(i64);

/// A type that shadows the one in the prelude.
#[allow(dead_code)]
pub struct Box;
#[allow(dead_code)]
pub struct Ok;
#[allow(dead_code)]
pub struct Vec;

/// A constant in the type of a parameter.
pub const ENTRY: usize = 4;
pub const REGISTERED: usize = 2;
pub const fn create() -> usize {
    3
}

pub struct Any {
    bytes: i64,
}

#[actor]
impl Any {
    pub fn new(bytes: i64, args: i64, arg_0: i64) -> Result<Self, Infallible> {
        Result::Ok(Any {
            bytes: bytes * 100 + args * 10 + arg_0,
        })
    }

    pub fn receiver(&mut self, receiver: i64, invocation: i64, result: &i64, driver: i64) -> Failure {
        Failure(receiver * 1000 + invocation * 100 + result * 10 + driver)
    }

    pub fn lengths(&mut self, x: [u8; ENTRY]) -> [u8; REGISTERED] {
        [x[0], x[3]]
    }

    pub fn length(&mut self, x: [u8; create()]) -> u8 {
        x[2]
    }

    pub async fn create(&mut self, actor: &Failure, arguments: i64, kind: &str) -> Result<i64, Infallible> {
        let arg_1 = arguments;
        Result::Ok(actor.0 + arg_1 + kind.len() as i64 + self.bytes)
    }
}

#[test]
fn names_of_the_users_stay_the_users() {
    let runtime = Runtime::new();
    let any = runtime.spawn::<Any>("any", (7, 8, 9)).in_thread().unwrap();
    let graph = runtime
        .compile(|(x, text): (Edge<i64>, Edge<String>)| any.create(&any.receiver(&x, &x, &x, &x), &x, &text))
        .unwrap();
    assert_eq!(
        graph.execute((2, "abc".into())).wait().unwrap(),
        2222 + 2 + 3 + 789
    );
    drop(graph);
    let lengths = runtime.compile(|x: Edge<[u8; ENTRY]>| any.lengths(&x)).unwrap();
    assert_eq!(lengths.run([1, 2, 3, 4]).unwrap(), [1, 4]);
    drop(lengths);
    assert_eq!(any.call().length([1, 2, 3]).wait().unwrap(), 3);
    assert_eq!(any.call().receiver(1, 2, 3, 4).wait().unwrap(), Failure(1234));
    assert_eq!(
        any.call().create(Failure(1), 2, "abc".into()).wait().unwrap(),
        6 + 789
    );
}

/// A remote function whose parameters have names that generated code uses too.
#[remote]
fn greet(actor: String, mistake: &str) -> String {
    format!("{actor}, {mistake}")
}

#[test]
fn parameters_of_a_remote_function_stay_the_users() {
    let runtime = Runtime::new();
    let graph = runtime
        .compile(|(name, text): (Edge<String>, Edge<String>)| greet::bind(&name, &text))
        .unwrap();
    assert_eq!(graph.run(("you".into(), "hello".into())).unwrap(), "you, hello");
}
