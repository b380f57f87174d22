//! Payloads of every size arrive whole, in every placement.

use crate::actors::{PLACEMENTS, Text};
use selvedge::prelude::*;

const SLOT: usize = 4096;

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(31) ^ (i >> 8) ^ seed) as u8)
        .collect()
}

#[test]
fn chan_16_sizes_around_the_slot_and_far_above_it() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let t = runtime.spawn::<Text>("t", ()).place(placement)?;
        let options = Options::new().buffer_bytes(SLOT).max_inflight(2);
        let graph = runtime.compile_with(options, |x: Edge<Vec<u8>>| t.echo_bytes(&x))?;
        for len in [0, 1, SLOT - 1, SLOT, SLOT + 1, 64 << 20, 0, SLOT + 1, 1] {
            let sent = pattern(len, len);
            assert!(
                graph.execute(sent.clone()).wait()? == sent,
                "{len} bytes, {placement}"
            );
        }
    }
    Ok(())
}

#[test]
fn chan_14_a_payload_above_the_cap_is_the_tasks_error_and_the_graph_goes_on() -> Result<()> {
    let runtime = Runtime::new();
    let t = runtime.spawn::<Text>("t", ()).place(Placement::Process)?;
    let options = Options::new().buffer_bytes(SLOT).max_payload_bytes(1 << 20);
    let graph = runtime.compile_with(options, |x: Edge<String>| t.bytes(&x))?;
    for _ in 0..3 {
        let error = graph.execute("x".repeat(2 << 20)).wait().expect_err("too large");
        assert!(matches!(&error, ExecError::Task(_)), "{error:?}");
        assert!(
            error.to_string().contains("max_payload_bytes") || error.to_string().contains("1048576"),
            "{error}"
        );
        assert_eq!(graph.execute("ab".into()).wait()?, b"ab");
    }
    Ok(())
}

#[test]
fn chan_14_a_result_above_the_cap_is_the_tasks_error_too() -> Result<()> {
    for trace in [0, 100] {
        let runtime = Runtime::new();
        let t = runtime.spawn::<Text>("t", ()).place(Placement::Process)?;
        let options = Options::new()
            .buffer_bytes(SLOT)
            .max_payload_bytes(1 << 20)
            .trace(trace);
        let graph = runtime.compile_with(options, |count: Edge<u64>| t.zeros(&count))?;
        for _ in 0..3 {
            for result in [graph.run(2 << 20), graph.execute(2 << 20).wait()] {
                let error = result.expect_err("too large");
                assert!(matches!(&error, ExecError::Task(_)), "{error:?}");
                assert!(error.to_string().contains("t.zeros"), "{error}");
            }
            assert_eq!(graph.run(3)?, [0; 3]);
            assert_eq!(
                graph.execute(1 << 19).wait()?.len(),
                1 << 19,
                "in a larger segment"
            );
        }
    }
    Ok(())
}

/// A request with the serde attributes that users write.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Request {
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u32>,
    level: u32,
    tokens: Vec<u32>,
    #[serde(flatten)]
    kind: Tagged,
    rest: serde_json::Value,
    any: Option<Untagged>,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type")]
pub enum Tagged {
    A { x: i64 },
    B,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Untagged {
    Narrow(u8),
    Wide(u16),
    Text(String),
}

/// An actor that keeps a request.
pub struct Keeper {
    made_of: Request,
}

#[actor]
impl Keeper {
    pub fn new(made_of: Request) -> Self {
        Keeper { made_of }
    }

    pub fn argument(&mut self, request: &Request) -> Request {
        request.clone()
    }

    pub fn owned(&mut self, request: Request) -> Request {
        request
    }

    pub fn constant(&mut self, _x: &Request, #[constant] constant: Request) -> Request {
        constant
    }

    pub fn constructed(&mut self, _x: &Request) -> Request {
        self.made_of.clone()
    }

    pub fn untagged(&mut self, value: &Untagged) -> String {
        format!("{value:?}")
    }
}

fn request(seed: Option<u32>, kind: Tagged) -> Request {
    Request {
        seed,
        level: 0,
        tokens: vec![1, 5],
        kind,
        rest: serde_json::json!({"a": [1, -2, 0.5, null, {"b": true}]}),
        any: seed.map(|_| Untagged::Text("x".to_owned())),
    }
}

#[test]
fn rser_01_fields_left_out_arrive_so_as_arguments_constants_and_in_constructors() -> Result<()> {
    for placement in PLACEMENTS {
        let value = request(None, Tagged::A { x: 1 });
        let runtime = Runtime::new();
        let keeper = runtime.spawn::<Keeper>("k", (value.clone(),)).place(placement)?;
        let graph = runtime.compile(|x: Edge<Request>| {
            (
                keeper.argument(&x),
                keeper.owned(&x),
                keeper.constant(&x, value.clone()),
                keeper.constructed(&x),
            )
        })?;
        for sent in [value.clone(), request(Some(7), Tagged::B), value.clone()] {
            let (argument, owned, constant, constructed) = graph.run(sent.clone())?;
            assert_eq!((&argument, &owned), (&sent, &sent), "{placement}");
            assert_eq!((&constant, &constructed), (&value, &value), "{placement}");
        }
        assert_eq!(keeper.call().owned(value.clone()).wait()?, value, "{placement}");
    }
    Ok(())
}

#[test]
fn rser_01_a_value_that_would_arrive_as_another_is_the_tasks_error_by_name() -> Result<()> {
    for placement in PLACEMENTS {
        let runtime = Runtime::new();
        let value = request(None, Tagged::B);
        let keeper = runtime.spawn::<Keeper>("k", (value,)).place(placement)?;
        let graph = runtime.compile(|x: Edge<Untagged>| keeper.untagged(&x))?;
        for _ in 0..3 {
            assert_eq!(graph.run(Untagged::Narrow(1))?, "Narrow(1)");
            match graph.run(Untagged::Wide(1)) {
                Ok(text) => assert_eq!(text, "Wide(1)", "{placement}"),
                Err(error) => assert!(error.to_string().contains("Untagged` cannot travel"), "{error}"),
            }
        }
    }
    Ok(())
}

/// A type that decodes in the process that encoded it, and in no other process.
#[derive(Clone, Debug)]
pub struct OneWay;

impl serde::Serialize for OneWay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_u32(std::process::id())
    }
}

impl<'de> serde::Deserialize<'de> for OneWay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let at_home = u32::deserialize(deserializer)? == std::process::id();
        at_home
            .then_some(OneWay)
            .ok_or_else(|| serde::de::Error::custom("there is no way back"))
    }
}

struct Ways;

#[actor]
impl Ways {
    pub fn new() -> Self {
        Ways
    }

    pub fn make(&mut self, _x: i64) -> OneWay {
        OneWay
    }

    pub fn take(&mut self, _way: OneWay) -> i64 {
        1
    }
}

#[test]
fn task_08_an_argument_that_cannot_be_read_is_not_called_a_result_that_cannot_travel() -> Result<()> {
    let runtime = Runtime::new();
    let a = runtime.spawn::<Ways>("a", ()).in_thread()?;
    let b = runtime.spawn::<Ways>("b", ()).in_process()?;
    let graph = runtime.compile(|x: Edge<i64>| b.take(&a.make(&x)))?;
    for _ in 0..3 {
        let error = graph.run(1).expect_err("it cannot be decoded");
        let task = error.as_task().expect("the task's failure");
        assert_eq!(task.info().task, "b.take");
        let selvedge::Cause::Argument { message } = task.cause() else {
            panic!("{error}")
        };
        assert!(message.contains("no way back"), "{error}");
        assert!(
            error.to_string().contains("an argument of it cannot be read"),
            "{error}"
        );
    }
    Ok(())
}
