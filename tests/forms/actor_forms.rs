//! The forms in which actors are written: several blocks and constructors, async constructors, states that are not `Send`,
//! generic types, traits, and parameters that borrow or own. Each runs inline, on a thread and in a worker process.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::AddAssign;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use selvedge::prelude::*;
use selvedge::{Lanes, SpawnError, WrongThread};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PLACES: [Placement; 3] = [Placement::Inline, Placement::Thread, Placement::Process];

#[derive(Clone, Serialize, Deserialize)]
pub struct Settings {
    scale: usize,
}

/// Takes each parameter in a form that borrows or owns.
struct Lengths;

#[actor]
impl Lengths {
    pub fn new(text: Cow<'_, str>) -> Self {
        assert_eq!(text, "start");
        Lengths
    }

    pub fn shout(&mut self, text: Cow<'_, str>, rest: Cow<'_, [u32]>) -> String {
        let mut text = text;
        if !text.ends_with('!') {
            text.to_mut().push('!');
        }
        format!("{text}{}", rest.len())
    }

    pub fn scaled(&mut self, x: usize, settings: std::borrow::Cow<'_, Settings>) -> usize {
        x * settings.scale
    }
}

#[test]
fn a_parameter_may_borrow_or_own() {
    let runtime = Runtime::new();
    for place in PLACES {
        let lengths = runtime
            .spawn::<Lengths>("lengths", ("start".to_owned(),))
            .place(place)
            .unwrap();
        let graph = runtime
            .compile(|(text, rest): (Edge<String>, Edge<Vec<u32>>)| lengths.shout(&text, &rest))
            .unwrap();
        assert_eq!(graph.run(("hey".into(), vec![1, 2])).unwrap(), "hey!2");
        let graph = {
            drop(graph);
            let scaled = |(x, by): (Edge<usize>, Edge<Settings>)| lengths.scaled(&x, &by);
            runtime.compile(scaled).unwrap()
        };
        assert_eq!(graph.run((2, Settings { scale: 21 })).unwrap(), 42);
        drop(graph);
        let called = lengths.call().shout("oh!".into(), Vec::new());
        assert_eq!(called.wait().unwrap(), "oh!0");
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("no layer {0}")]
struct NoLayer(u32);

#[derive(Debug, thiserror::Error)]
#[error("layer {0} is torn")]
struct Torn(u32);

/// Cannot be built, for reasons of its own.
struct Layer;

#[actor]
impl Layer {
    pub fn new(number: u32) -> std::result::Result<Self, NoLayer> {
        Err(NoLayer(number))
    }

    pub async fn later(number: u32) -> std::result::Result<Self, NoLayer> {
        Err(NoLayer(number))
    }

    pub fn torn(number: u32) -> Result<Self> {
        Err(Torn(number).into())
    }
}

#[test]
fn the_error_of_a_constructor_keeps_its_type() {
    let runtime = Runtime::new();
    for place in PLACES {
        for construction in [LayerHandle::new(7), LayerHandle::later(7)] {
            let error = runtime
                .spawn_from("layer", construction)
                .place(place)
                .unwrap_err();
            assert_eq!(error.downcast_ref(), Some(&NoLayer(7)), "{place:?}: {error}");
            assert!(std::error::Error::source(&error).is_none(), "its text says all");
            assert!(
                error.to_string().contains("`layer` failed: no layer 7"),
                "{error}"
            );
        }
        let torn = runtime.spawn_from("layer", LayerHandle::torn(8));
        let error = torn.place(place).unwrap_err();
        let own = error.downcast_ref::<Torn>();
        // Serde does not know it.
        assert_eq!(own.is_some(), place != Placement::Process, "{error}");
        assert!(error.to_string().contains("layer 8 is torn"), "{error}");
    }
    let closure = runtime.try_spawn_with::<Layer, _>("layer", || Err(NoLayer(9)));
    let error = closure.in_thread().unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&NoLayer(9)), "{error}");
}

/// Connects, answers and counts.
struct Client {
    stream: TcpStream,
    asked: u8,
}

#[actor]
impl Client {
    pub async fn new(address: String) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        Ok(Client { stream, asked: 0 })
    }

    /// Never connects.
    pub async fn never() -> Self {
        std::future::pending().await
    }

    pub async fn ask(&mut self, x: u8) -> Result<u8> {
        self.stream.write_all(&[x]).await?;
        let mut answer = [0];
        self.stream.read_exact(&mut answer).await?;
        self.asked += 1;
        Ok(answer[0])
    }

    pub fn asked(&self) -> u8 {
        self.asked
    }
}

/// Answers each byte with its successor, for as many clients as come.
fn successors() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(x) = stream.read_u8().await {
                        stream.write_all(&[x + 1]).await.unwrap();
                    }
                });
            }
        });
    });
    address
}

#[test]
fn an_async_constructor_makes_a_connection_that_methods_use_in_calls_and_graphs() {
    let address = successors().to_string();
    let runtime = Runtime::new();
    for place in PLACES {
        let client = runtime.spawn::<Client>("client", (address.clone(),));
        let client = client.place(place).unwrap();
        assert_eq!(client.call().ask(1).wait().unwrap(), 2, "{place:?}");
        let graph = runtime.compile(|x: Edge<u8>| client.ask(&x)).unwrap();
        assert_eq!(graph.run(5).unwrap(), 6, "{place:?}");
        drop(graph);
        assert_eq!(client.call().asked().wait().unwrap(), 2);
    }
    let nobody = runtime.spawn::<Client>("client", ("127.0.0.1:1".to_owned(),));
    let refused = nobody.in_thread().unwrap_err();
    assert!(matches!(refused, SpawnError::Constructor { .. }), "{refused}");
}

#[test]
fn an_async_constructor_has_the_time_limit_of_the_runtime() {
    let runtime = Runtime::new().build_timeout(Duration::from_millis(200));
    for place in PLACES {
        let late = runtime
            .spawn_from("client", ClientHandle::never())
            .place(place)
            .unwrap_err();
        let is_late = matches!(late, SpawnError::Timeout { .. } | SpawnError::Constructor { .. });
        assert!(is_late, "{late}");
    }
}

/// Has several constructors and several blocks.
struct Words {
    words: Vec<String>,
    listener: Option<Sender<String>>,
}

#[actor]
impl Words {
    pub fn new() -> Self {
        Words {
            words: Vec::new(),
            listener: None,
        }
    }

    /// Begins with these words.
    pub fn with(words: Vec<String>) -> Self {
        Words {
            words,
            ..Words::new()
        }
    }

    pub fn parse(text: &str) -> Result<Self, std::num::ParseIntError> {
        let count: usize = text.parse()?;
        Ok(Words::with(vec!["word".into(); count]))
    }

    pub fn told(listener: Sender<String>) -> Words {
        let listener = Some(listener);
        Words {
            words: Vec::new(),
            listener,
        }
    }

    pub fn add(&mut self, word: &str) -> usize {
        self.words.push(word.to_owned());
        if let Some(listener) = &self.listener {
            listener.send(word.to_owned()).unwrap();
        }
        self.words.len()
    }
}

#[actor(more)]
impl Words {
    /// Joins the words.
    pub fn joined(&self, by: &str) -> String {
        self.words.join(by)
    }

    pub fn fail(&mut self, word: String) -> Result<(), std::io::Error> {
        Err(std::io::Error::other(word))
    }
}

mod elsewhere {
    use selvedge::prelude::*;

    #[actor(more)]
    impl super::Words {
        pub async fn count(&self, #[constant] from: usize) -> usize {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            from + self.words.len()
        }
    }
}

#[test]
fn every_constructor_can_spawn() {
    let runtime = Runtime::new();
    for place in PLACES {
        let two = WordsHandle::with(vec!["a".into(), "b".into()]);
        let two = runtime.spawn_from("two", two).place(place).unwrap();
        assert_eq!(two.call().add("c".into()).wait().unwrap(), 3);
        let new = runtime
            .spawn_from("new", WordsHandle::new())
            .place(place)
            .unwrap();
        assert_eq!(new.call().add("c".into()).wait().unwrap(), 1);
        let five = runtime.spawn_from("five", WordsHandle::parse("5".into()));
        assert_eq!(
            five.place(place).unwrap().call().add("c".into()).wait().unwrap(),
            6
        );
        let none = runtime.spawn_from("none", WordsHandle::parse("five".into()));
        let none = none.place(place).unwrap_err();
        assert!(none.to_string().contains("invalid digit"), "{none}");
        let (listener, told) = std::sync::mpsc::channel();
        let heard = runtime.spawn_from("told", WordsHandle::told(listener));
        // For `in_process`, rustc refuses a `Sender`.
        let heard = match place {
            Placement::Inline => heard.inline(),
            Placement::Thread => heard.in_thread(),
            _ => heard.in_lane(&runtime.worker("w").unwrap().lane("told")),
        };
        if place == Placement::Process {
            assert!(matches!(heard.unwrap_err(), SpawnError::Arguments { .. }));
        } else {
            heard.unwrap().call().add("hush".into()).wait().unwrap();
            assert_eq!(told.recv().unwrap(), "hush");
        }
    }
}

#[test]
fn operations_of_further_blocks_are_methods_of_the_same_handle() {
    let runtime = Runtime::new();
    for place in PLACES {
        let words = runtime.spawn_from("words", WordsHandle::with(vec!["a".into()]));
        let words = words.place(place).unwrap();
        let graph = runtime
            .compile(|(word, by): (Edge<String>, Edge<String>)| {
                let added = words.add(&word);
                (added, words.joined(&by), words.count(10).after(&by))
            })
            .unwrap();
        let answer = graph.run(("b".into(), "-".into())).unwrap();
        assert_eq!(answer, (2, "a-b".to_owned(), 12), "{place:?}");
        drop(graph);
        assert_eq!(words.call().joined("+".into()).wait().unwrap(), "a+b");
        assert_eq!(words.call().count(0).wait().unwrap(), 2);
        let failed = words.call().fail("why".into()).wait().unwrap_err().to_string();
        assert!(
            failed.contains("words.fail") && failed.contains("why"),
            "{failed}"
        );
    }
}

/// Is not `Send`, and remembers which threads have touched it.
struct Local {
    count: Rc<Cell<u32>>,
    twin: Rc<Cell<u32>>,
    home: ThreadId,
}

#[actor]
impl Local {
    pub fn new() -> Self {
        let count = Rc::new(Cell::new(0));
        let twin = Rc::clone(&count);
        let home = std::thread::current().id();
        Local { count, twin, home }
    }

    pub fn add(&mut self, x: u32) -> u32 {
        assert_eq!(self.home, std::thread::current().id());
        assert!(x != 13, "unlucky");
        self.count.set(self.count.get() + x);
        self.twin.get()
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        assert_eq!(self.home, std::thread::current().id());
    }
}

#[test]
fn a_state_that_is_not_send_lives_everywhere_and_stays_on_its_thread() {
    let runtime = Runtime::new();
    for place in PLACES {
        let actors: Vec<_> = (0..3)
            .map(|i| {
                runtime
                    .spawn::<Local>(format!("local{i}"), ())
                    .place(place)
                    .unwrap()
            })
            .collect();
        let options = Options::default().lanes(Lanes::Auto);
        let graph = runtime
            .compile_with(options, |x: Edge<u32>| {
                actors.iter().fold(x, |x, local| local.add(&x))
            })
            .unwrap();
        assert_eq!(graph.run(1).unwrap(), 1);
        assert_eq!(graph.run(1).unwrap(), 4);
        drop(graph);
        assert_eq!(actors[0].call().add(0).wait().unwrap(), 2);
    }
    let rebuilt = runtime.spawn::<Local>("rebuilt", ()).on_panic(OnPanic::Rebuild);
    let rebuilt = rebuilt.in_thread().unwrap();
    assert_eq!(rebuilt.call().add(3).wait().unwrap(), 3);
    assert!(rebuilt.call().add(13).wait().is_err());
    assert_eq!(rebuilt.call().add(1).wait().unwrap(), 1);
    let closed = Rc::strong_count(&Rc::new(()));
    let built = runtime.spawn_with("built", move || {
        assert_eq!(closed, 1);
        Local::new()
    });
    assert_eq!(built.in_thread().unwrap().call().add(2).wait().unwrap(), 2);
}

#[test]
fn an_inline_actor_that_is_not_send_refuses_other_threads() {
    let runtime = Runtime::new();
    let local = runtime.spawn::<Local>("local", ()).inline().unwrap();
    assert_eq!(local.call().add(1).wait().unwrap(), 1);
    let graph = runtime.compile(|x: Edge<u32>| local.add(&x)).unwrap();
    assert_eq!(graph.run(1).unwrap(), 2);
    std::thread::scope(|scope| {
        let elsewhere = scope.spawn(|| {
            let refused = graph.run(1).unwrap_err();
            assert!(refused.downcast_ref::<WrongThread>().is_some(), "{refused}");
            let refused = local.call().add(1).wait().unwrap_err();
            assert!(refused.to_string().contains("is not `Send`"), "{refused}");
            assert!(refused.to_string().contains("in_thread"), "{refused}");
        });
        elsewhere.join().unwrap();
    });
    assert_eq!(graph.run(1).unwrap(), 3, "the state is as it was");
    // Dropped by another thread, the state is left for this one.
    let handles = (graph, local, runtime);
    std::thread::spawn(move || drop(handles)).join().unwrap();
}

/// Sums values of any type.
pub struct Sum<T>(T);

#[actor(for(Sum<u32>, Sum<f64>))]
impl<T> Sum<T>
where
    T: AddAssign + Wire,
{
    pub fn new(start: T) -> Self {
        Sum(start)
    }

    #[allow(dead_code)] // it only has to compile
    pub fn zero() -> Self
    where
        T: Default,
    {
        Sum(T::default())
    }

    pub fn add(&mut self, x: T) -> T {
        self.0 += x;
        self.0.clone()
    }

    pub fn all(&mut self, xs: &[T]) -> Vec<T> {
        xs.iter().cloned().map(|x| self.add(x)).collect()
    }
}

#[actor(more, for(Sum<u32>, Sum<f64>))]
impl<T: AddAssign + Wire> Sum<T> {
    pub fn peek(&self, _at: &str) -> T {
        self.0.clone()
    }
}

/// Has a number among its parameters.
struct Window<const N: usize> {
    last: [i64; N],
}

#[actor(local)]
impl<const N: usize> Window<N> {
    pub fn push(&mut self, x: i64) -> i64 {
        self.last.rotate_left(1);
        self.last[N - 1] = x;
        self.last.iter().sum()
    }
}

fn sums<T: AddAssign + Wire + PartialEq + std::fmt::Debug>(place: Placement, two: T, three: T) {
    let runtime = Runtime::new();
    let sum: SumHandle<T> = runtime
        .spawn::<Sum<T>>("sum", (two.clone(),))
        .place(place)
        .unwrap();
    let graph = runtime
        .compile(|(x, xs): (Edge<T>, Edge<Vec<T>>)| {
            let all = sum.all(&xs);
            (sum.add(&x), all, sum.peek(&constant("now".to_owned())))
        })
        .unwrap_err();
    assert!(graph.to_string().contains("edge"), "{graph}");
    let graph = runtime
        .compile(|(x, xs, at): (Edge<T>, Edge<Vec<T>>, Edge<String>)| {
            let all = sum.all(&xs);
            (sum.add(&x), all, sum.peek(&at))
        })
        .unwrap();
    let mut expected = two.clone();
    expected += two.clone();
    let all = vec![expected.clone()];
    expected += three.clone();
    let got = graph.run((three, vec![two], "now".into())).unwrap();
    assert_eq!(got, (expected.clone(), all, expected.clone()));
    drop(graph);
    assert_eq!(sum.call().peek("now".into()).wait().unwrap(), expected);
}

#[test]
fn a_generic_actor_has_a_generic_handle() {
    for place in PLACES {
        sums::<u32>(place, 2, 3);
        sums::<f64>(place, 2.0, 3.0);
    }
    sums::<i8>(Placement::Inline, 2, 3);
    sums::<i8>(Placement::Thread, 2, 3);
    let runtime = Runtime::new();
    let window = runtime.spawn_with("window", || Window::<2> { last: [0; 2] });
    let window: WindowHandle<2> = window.in_thread().unwrap();
    let graph = runtime.compile(|x: Edge<i64>| window.push(&x)).unwrap();
    assert_eq!([1, 2, 3].map(|x| graph.run(x).unwrap()), [1, 3, 5]);
}

#[test]
fn an_instance_that_worker_processes_cannot_find_is_refused_with_what_to_write() {
    let runtime = Runtime::new();
    let refused = runtime.spawn::<Sum<i8>>("sum", (1,)).in_process().unwrap_err();
    assert!(matches!(refused, SpawnError::Unregistered { .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("`#[actor(for(Sum<i8>))]`"), "{text}");
}

/// What the actors of `ops` have in common.
#[actor]
trait Op {
    fn apply(&mut self, x: i64) -> i64;

    /// Has a default.
    fn named(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.name())
    }

    fn name(&self) -> String;

    async fn later(&mut self, x: i64, #[constant] by: i64) -> Result<i64> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(self.apply(x) + by)
    }
}

struct Doubler;

#[actor]
impl Doubler {
    pub fn new() -> Self {
        Doubler
    }

    pub fn half(&mut self, x: i64) -> i64 {
        x / 2
    }
}

#[actor]
impl Op for Doubler {
    fn apply(&mut self, x: i64) -> i64 {
        2 * x
    }

    fn name(&self) -> String {
        "doubler".into()
    }
}

struct Adder(i64);

#[actor]
impl Adder {
    pub fn new(by: i64) -> Self {
        Adder(by)
    }
}

#[actor]
impl Op for Adder {
    fn apply(&mut self, x: i64) -> i64 {
        x + self.0
    }

    fn name(&self) -> String {
        "adder".into()
    }

    fn named(&self, prefix: &str) -> String {
        format!("{prefix} the {}", self.name())
    }
}

#[actor(for(Sum<u32>, Sum<f64>))]
impl<T: AddAssign + Wire> Op for Sum<T> {
    fn apply(&mut self, x: i64) -> i64 {
        -x
    }

    fn name(&self) -> String {
        "sum".into()
    }
}

#[test]
fn handles_of_a_trait_stand_for_different_actors() {
    let runtime = Runtime::new();
    for place in PLACES {
        let doubler = runtime.spawn::<Doubler>("doubler", ()).place(place).unwrap();
        let adder = runtime.spawn::<Adder>("adder", (5,)).place(place).unwrap();
        let sum = runtime.spawn::<Sum<u32>>("sum", (5,)).place(place).unwrap();
        let ops: Vec<OpHandle> = vec![doubler.as_op(), OpHandle::from(&adder), sum.into()];
        let graph = runtime
            .compile(|(x, prefix): (Edge<i64>, Edge<String>)| {
                let applied = ops.iter().fold(x.clone(), |x, op| op.apply(&x));
                let names: Vec<_> = ops.iter().map(|op| op.named(&prefix)).collect();
                (applied, names, ops[1].later(&x, 100), doubler.half(&x))
            })
            .unwrap();
        let (applied, names, later, half) = graph.run((4, "oh".into())).unwrap();
        assert_eq!((applied, later, half), (-13, 109, 2));
        assert_eq!(names, ["ohdoubler", "oh the adder", "ohsum"]);
        drop(graph);
        let called: Vec<_> = ops.iter().map(|op| op.call().apply(1).wait().unwrap()).collect();
        assert_eq!(called, [2, 6, -1]);
        assert_eq!(ops[0].actor(), doubler.actor());
    }
}

#[test]
fn arguments_are_cloned_for_a_rebuild_and_used_once_if_they_cannot_be_cloned() {
    static BUILT: AtomicUsize = AtomicUsize::new(0);

    struct Once(#[allow(dead_code, reason = "is dropped with the actor")] Mutex<u8>);

    #[actor]
    impl Once {
        pub fn of(x: Mutex<u8>) -> Self {
            BUILT.fetch_add(1, Ordering::Relaxed);
            Once(x)
        }

        pub fn many(x: Arc<u8>) -> Self {
            BUILT.fetch_add(1, Ordering::Relaxed);
            Once(Mutex::new(*x))
        }

        pub fn panics(&mut self, x: u8) -> u8 {
            panic!("{x}")
        }

        pub fn echo(&mut self, x: u8) -> u8 {
            x
        }
    }

    let runtime = Runtime::new();
    let many = runtime.spawn_from("many", OnceHandle::many(Arc::new(1)));
    let many = many.on_panic(OnPanic::Rebuild).in_thread().unwrap();
    assert!(many.call().panics(1).wait().is_err());
    assert_eq!(many.call().echo(1).wait().unwrap(), 1);
    assert_eq!(BUILT.load(Ordering::Relaxed), 2);
    let once = runtime.spawn_from("once", OnceHandle::of(Mutex::new(1)));
    // For `on_panic`, rustc refuses a `Mutex`.
    let once = once.in_thread().unwrap();
    assert!(once.call().panics(1).wait().is_err());
    assert_eq!(once.call().echo(1).wait().unwrap(), 1);
}

/// Serde knows nothing of it, and nothing clones it.
pub struct Config {
    scale: u32,
}

struct Scale(Config);

#[actor]
impl Scale {
    pub fn new(config: Config) -> Self {
        Scale(config)
    }

    pub fn scale(&mut self, x: u32) -> u32 {
        x * self.0.scale
    }
}

#[test]
fn arguments_of_a_constructor_need_serde_only_for_a_worker_process() {
    let runtime = Runtime::new();
    let scale = || runtime.spawn::<Scale>("scale", (Config { scale: 3 },));
    for scale in [scale().inline().unwrap(), scale().in_thread().unwrap()] {
        let graph = runtime.compile(|x: Edge<u32>| scale.scale(&x)).unwrap();
        assert_eq!(graph.run(2).unwrap(), 6);
    }
    let worker = runtime.worker("w").unwrap();
    let refused = scale().in_lane(&worker.lane("far")).unwrap_err();
    assert!(matches!(refused, SpawnError::Arguments { .. }), "{refused}");
    assert!(refused.to_string().contains("Config"), "{refused}");
}

/// Keeps a value of any type, about which it knows nothing.
struct Keep<T>(Option<T>);

#[actor]
impl<T> Keep<T> {
    pub fn of(first: T) -> Self {
        Keep(Some(first))
    }

    pub fn swap(&mut self, x: T) -> Option<T> {
        self.0.replace(x)
    }
}

#[test]
fn a_generic_actor_without_bounds_takes_what_can_move_between_threads() {
    let runtime = Runtime::new();
    let (first, firsts) = std::sync::mpsc::channel::<u8>();
    let (second, _seconds) = std::sync::mpsc::channel();
    let keep = runtime
        .spawn_from("keep", KeepHandle::of(first))
        .in_thread()
        .unwrap();
    let graph = runtime.compile(|x: Edge<Sender<u8>>| keep.swap(&x)).unwrap();
    graph.run(second).unwrap().unwrap().send(7).unwrap();
    assert_eq!(firsts.recv().unwrap(), 7);
}

selvedge::register_actor!(Sum<u16>);

#[test]
fn an_instance_may_be_registered_elsewhere_and_each_block_is_found_by_itself() {
    let runtime = Runtime::new();
    let sum = runtime.spawn::<Sum<u16>>("sum", (1,)).in_process().unwrap();
    let graph = runtime.compile(|x: Edge<u16>| sum.add(&x)).unwrap();
    assert_eq!(graph.run(2).unwrap(), 3);
    drop(graph);
    let refused = runtime
        .compile(|at: Edge<String>| sum.peek(&at))
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("Sum<u16>") && refused.contains("#[actor(for(..))]"),
        "{refused}"
    );
    let refused = sum.call().peek("now".into()).wait().unwrap_err().to_string();
    assert!(
        refused.contains("Sum<u16>") && refused.contains("#[actor(for(..))]"),
        "{refused}"
    );
    assert_eq!(sum.call().add(2).wait().unwrap(), 5);
}

struct Stamped;

/// Stamps out an actor, whose types come in the groups in which a macro by example passes them.
macro_rules! stamped {
    ($actor:ty, $text:ty, $number:ty, $numbers:ty, $result:ty) => {
        #[actor]
        impl $actor {
            pub fn new() -> $actor {
                Self
            }

            pub fn length(&mut self, text: &$text) -> $result {
                u32::try_from(text.len()).map_err(|error| error.to_string().into())
            }

            pub fn sum(&mut self, numbers: &[$number]) -> $number {
                numbers.iter().sum()
            }

            pub fn last(&mut self, numbers: $numbers) -> $number {
                numbers.last().copied().unwrap_or_default()
            }
        }
    };
}

stamped!(Stamped, str, u32, Vec<u32>, selvedge::Result<u32>);

#[test]
fn an_actor_may_be_made_by_a_macro() {
    let runtime = Runtime::new();
    let stamped = runtime.spawn::<Stamped>("stamped", ()).in_thread().unwrap();
    let graph = runtime
        .compile(|(x, text): (Edge<u32>, Edge<String>)| {
            let length: Edge<u32> = stamped.length(&text);
            let all = list([x.clone(), length]);
            (stamped.sum(&all), stamped.last(&list([x])))
        })
        .unwrap();
    assert_eq!(graph.run((2, "abc".into())).unwrap(), (5, 2));
}

/// An actor that is also data: its signatures name it as `Self`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    marks: [u32; 2],
}

#[actor]
impl Tally {
    pub const SIZE: usize = 2;

    pub fn new() -> Self {
        Tally { marks: [0; 2] }
    }

    pub fn of(marks: [u32; Self::SIZE]) -> Self {
        Tally { marks }
    }

    /// Not a constructor: it takes what it returns.
    pub fn join(one: Self, other: &Self) -> Self {
        let [first, second] = one.marks;
        Tally::of([first + other.marks[0], second + other.marks[1]])
    }

    pub fn merge(&mut self, other: &Self, marks: [u32; Self::SIZE]) -> Option<Self> {
        *self = Tally::join(Tally::join(self.clone(), other), &Tally::of(marks));
        Some(self.clone())
    }
}

#[test]
fn an_actor_may_name_itself_in_its_signatures() {
    for place in PLACES {
        let runtime = Runtime::new();
        let tally = runtime.spawn_from("tally", TallyHandle::of([1, 2]));
        let tally = tally.place(place).unwrap();
        let graph = runtime
            .compile(|(other, marks): (Edge<Tally>, Edge<[u32; 2]>)| tally.merge(&other, &marks))
            .unwrap();
        let sum = graph.run((Tally::of([10, 20]), [100, 200])).unwrap();
        assert_eq!(sum, Some(Tally::of([111, 222])), "{place}");
    }
}
