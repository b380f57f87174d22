//! Payloads that serde does not know: between threads a value moves as it is, and only a process asks for more.

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use selvedge::prelude::*;
use selvedge::{CompileError, SpawnError};

type Callback = Box<dyn Fn(u32) -> u32 + Send>;

/// A value of one owner: it cannot be cloned, shared or encoded.
pub struct Ticket(Cell<u32>);

/// A value that can be cloned, and that one thread at a time may read.
#[derive(Clone)]
pub struct Tally(Cell<u32>);

/// A value like [`Tally`] that has a destructor.
#[derive(Clone)]
pub struct Ledger(Tally, Box<u32>);

/// A value that no actor names.
#[derive(Clone)]
pub struct Stranger;

struct Maker;

#[actor]
impl Maker {
    pub fn new() -> Self {
        Maker
    }

    pub fn pipe(&mut self, _: u32) -> (Sender<u32>, Receiver<u32>) {
        channel()
    }

    pub fn callback(&mut self, by: u32) -> Callback {
        Box::new(move |x| x * by)
    }

    pub fn file(&mut self, _: u32) -> Result<File> {
        Ok(File::open("/dev/zero")?)
    }

    pub fn ticket(&mut self, x: u32) -> Ticket {
        Ticket(Cell::new(x))
    }

    pub fn tally(&mut self, x: u32) -> Tally {
        Tally(Cell::new(x))
    }

    pub fn ledger(&mut self, x: u32) -> Ledger {
        Ledger(Tally(Cell::new(x)), Box::new(x))
    }

    pub fn shared(&mut self, x: u32) -> Arc<Mutex<u32>> {
        Arc::new(Mutex::new(x))
    }
}

struct User;

#[actor]
impl User {
    pub fn new() -> Self {
        User
    }

    pub fn send(&mut self, to: Sender<u32>, x: u32) -> u32 {
        to.send(x).unwrap();
        x
    }

    pub fn receive(&mut self, from: &Receiver<u32>, _after: u32) -> u32 {
        from.recv().unwrap()
    }

    pub fn run(&mut self, callback: &Callback, x: u32) -> u32 {
        callback(x)
    }

    pub fn byte(&mut self, mut file: File) -> Result<u8> {
        let mut bytes = [7];
        file.read_exact(&mut bytes)?;
        Ok(bytes[0])
    }

    pub fn spend(&mut self, ticket: Ticket) -> u32 {
        ticket.0.get()
    }

    pub fn count(&mut self, tally: Tally) -> u32 {
        tally.0.get()
    }

    pub fn post(&mut self, ledger: Ledger) -> u32 {
        assert_eq!(ledger.0.0.get(), *ledger.1);
        *ledger.1
    }

    pub fn look(&mut self, ledger: &Ledger) -> u32 {
        *ledger.1
    }

    pub fn spend_all(&mut self, tickets: Vec<Ticket>) -> u32 {
        tickets.iter().map(|ticket| ticket.0.get()).sum()
    }

    pub fn add(&mut self, sum: &Mutex<u32>) -> u32 {
        let mut sum = sum.lock().unwrap();
        *sum += 1;
        *sum
    }

    pub fn bump(&mut self, sum: Arc<Mutex<u32>>, _after: u32) -> u32 {
        let mut sum = sum.lock().unwrap();
        *sum += 1;
        *sum
    }

    pub fn twice(&mut self, x: u32) -> u32 {
        2 * x
    }

    pub fn scale(&mut self, x: u32, #[constant] by: Arc<AtomicU32>) -> u32 {
        x * by.load(Ordering::Relaxed)
    }
}

fn diagnosed<T>(compiled: std::result::Result<T, CompileError>) -> (String, String) {
    let error = compiled.err().expect("a refusal");
    let [diagnostic] = error.diagnostics.as_slice() else {
        panic!("one mistake: {error}");
    };
    (diagnostic.code.to_string(), diagnostic.message.clone())
}

#[test]
fn what_serde_does_not_know_moves_between_threads() -> Result<()> {
    let runtime = Runtime::new();
    for (there, here) in [
        (Placement::Thread, Placement::Thread),
        (Placement::Inline, Placement::Thread),
        (Placement::Thread, Placement::Inline),
        (Placement::Inline, Placement::Inline),
    ] {
        let maker = runtime.spawn::<Maker>("maker", ()).place(there)?;
        let user = runtime.spawn::<User>("user", ()).place(here)?;
        let graph = runtime.compile(|x: Edge<u32>| {
            let (to, from) = maker.pipe(&x).split();
            let sent = user.send(&to, &x);
            let received = user.receive(&from, &sent);
            let ran = user.run(&maker.callback(&x), &received);
            (ran, user.byte(&maker.file(&x)), user.spend(&maker.ticket(&x)))
        })?;
        for x in [3, 4] {
            assert_eq!(graph.run(x)?, (x * x, 0, x));
        }
    }
    Ok(())
}

#[test]
fn inputs_outputs_and_lists_need_no_serde() -> Result<()> {
    let runtime = Runtime::new();
    let maker = runtime.spawn::<Maker>("maker", ()).in_thread()?;
    let user = runtime.spawn::<User>("user", ()).in_thread()?;
    let graph = runtime.compile(|(ticket, x): (Edge<Ticket>, Edge<u32>)| {
        let made = maker.ticket(&x);
        (user.spend_all(&list([ticket, made])), maker.callback(&x))
    })?;
    let (sum, callback) = graph.run((Ticket(Cell::new(40)), 2))?;
    assert_eq!((sum, callback(21)), (42, 42));
    Ok(())
}

#[test]
fn calls_need_no_serde_in_a_process() -> Result<()> {
    let runtime = Runtime::new();
    let user = runtime.spawn::<User>("user", ()).in_thread()?;
    assert_eq!(user.call().spend(Ticket(Cell::new(5))).wait()?, 5);
    let maker = runtime.spawn::<Maker>("maker", ()).in_thread()?;
    let (to, from) = maker.call().pipe(0).wait()?;
    assert_eq!(user.call().send(to, 9).wait()?, 9);
    assert_eq!(from.recv()?, 9);
    // A call to another process fails, and says what its type lacks.
    let far = runtime.spawn::<User>("far", ()).in_process()?;
    let refused = far.call().spend(Ticket(Cell::new(5))).wait().unwrap_err();
    assert!(refused.to_string().contains("Ticket"), "{refused}");
    assert!(
        refused.to_string().contains("cannot cross a process"),
        "{refused}"
    );
    assert_eq!(far.call().bump(Arc::new(Mutex::new(1)), 0).wait()?, 2);
    Ok(())
}

#[test]
fn an_arc_is_shared_and_never_copied() -> Result<()> {
    struct Keeper(Arc<Mutex<Vec<u32>>>);

    #[actor]
    impl Keeper {
        pub fn new(kept: Arc<Mutex<Vec<u32>>>) -> Self {
            Keeper(kept)
        }

        pub fn keep(&mut self, x: u32) {
            self.0.lock().unwrap().push(x);
        }
    }

    let runtime = Runtime::new();
    let kept = Arc::new(Mutex::new(Vec::new()));
    for place in [Placement::Thread, Placement::Inline] {
        let keeper = runtime
            .spawn::<Keeper>("keeper", (Arc::clone(&kept),))
            .place(place)?;
        keeper.call().keep(3).wait()?;
    }
    assert_eq!(*kept.lock().unwrap(), [3, 3]);
    // A constant, an argument and an edge share it too.
    let (maker, user) = (
        runtime.spawn::<Maker>("maker", ()).in_thread()?,
        runtime.spawn::<User>("user", ()).in_thread()?,
    );
    let by = Arc::new(AtomicU32::new(2));
    let graph = runtime.compile(|x: Edge<u32>| {
        let sum = maker.shared(&x);
        let once = user.bump(&sum, &x);
        (user.bump(&sum, &once), user.scale(&x, Arc::clone(&by)), sum)
    })?;
    let (twice, scaled, sum) = graph.run(5)?;
    assert_eq!((twice, scaled, *sum.lock().unwrap()), (7, 10, 7));
    by.store(3, Ordering::Relaxed);
    assert_eq!(graph.run(5)?.1, 15);
    Ok(())
}

#[test]
fn arguments_of_a_constructor_need_no_serde_in_this_process() -> Result<()> {
    struct Log(Sender<u32>, Receiver<u32>);

    #[actor]
    impl Log {
        /// The first argument can be cloned, and the second one only moved.
        pub fn new(to: Sender<u32>, from: Receiver<u32>) -> Self {
            Log(to, from)
        }

        pub fn pass_on(&mut self) -> Result<u32> {
            let x = self.1.try_recv()?;
            self.0.send(x)?;
            Ok(x)
        }
    }

    let runtime = Runtime::new();
    let lane = runtime.lane("shared");
    for place in 0..3 {
        let ((to, passed), (given, from)) = (channel(), channel());
        let spawn = runtime.spawn::<Log>("log", (to, from));
        let log = match place {
            0 => spawn.inline(),
            1 => spawn.in_thread(),
            _ => spawn.in_lane(&lane),
        }?;
        given.send(7)?;
        assert_eq!((log.call().pass_on().wait()?, passed.recv()?), (7, 7));
        assert!(
            log.call()
                .pass_on()
                .wait()
                .unwrap_err()
                .to_string()
                .contains("empty channel")
        );
    }
    // The lane of a worker process is not known as one before the program runs.
    let worker = runtime.worker("w")?;
    let refused = runtime
        .spawn::<Log>("far", (channel().0, channel().1))
        .in_lane(&worker.lane("l"));
    let refused = refused.map(drop).unwrap_err();
    assert!(matches!(refused, SpawnError::Arguments { .. }), "{refused}");
    assert!(refused.to_string().contains("Sender<u32>"), "{refused}");
    Ok(())
}

#[test]
fn an_edge_to_another_process_is_refused_at_its_line() -> Result<()> {
    let runtime = Runtime::new();
    let maker = runtime.spawn::<Maker>("maker", ()).in_thread()?;
    let far = runtime.spawn::<User>("far", ()).in_process()?;
    let (line, bind) = (line!(), |x: Edge<u32>| far.spend(&maker.ticket(&x)));
    let refused = runtime.compile(bind).err().unwrap();
    let diagnostic = &refused.diagnostics[0];
    assert_eq!(diagnostic.code.as_str(), "D0120");
    assert_eq!(diagnostic.location.line, line);
    let text = refused.to_string();
    for part in [
        "`maker.ticket`",
        "Ticket",
        "`far.spend`",
        "derive(Clone, Serialize, Deserialize)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // An input and an output too.
    let (code, _) = diagnosed(runtime.compile(|ticket: Edge<Ticket>| far.spend(&ticket)));
    assert_eq!(code, "D0120");
    let away = runtime.spawn::<Maker>("away", ()).in_process()?;
    let (code, _) = diagnosed(runtime.compile(|x: Edge<u32>| away.ticket(&x)));
    assert_eq!(code, "D0120");
    // And a constant.
    let (code, _) = diagnosed(runtime.compile(|x: Edge<u32>| {
        let _ = &x;
        far.spend(&constant(Ticket(Cell::new(1)))).after(&x)
    }));
    assert_eq!(code, "D0114");
    Ok(())
}

#[test]
fn readers_that_cannot_share_a_value_are_refused() -> Result<()> {
    let runtime = Runtime::new();
    let maker = runtime.spawn::<Maker>("maker", ()).in_thread()?;
    let one = runtime.spawn::<User>("one", ()).in_thread()?;
    let other = runtime.spawn::<User>("other", ()).in_thread()?;
    let (code, message) = diagnosed(runtime.compile(|x: Edge<u32>| {
        let ticket = maker.ticket(&x);
        (one.spend(&ticket), one.spend(&ticket))
    }));
    assert_eq!(code, "D0121");
    assert!(message.contains("is not `Clone`"), "{message}");
    let (code, message) = diagnosed(runtime.compile(|x: Edge<u32>| {
        let tally = maker.tally(&x);
        (one.count(&tally), other.count(&tally))
    }));
    assert_eq!(code, "D0121");
    assert!(message.contains("`Sync`"), "{message}");
    // One lane may clone it.
    let graph = runtime.compile(|x: Edge<u32>| {
        let tally = maker.tally(&x);
        (one.count(&tally), one.count(&tally))
    })?;
    assert_eq!(graph.run(4)?, (4, 4));
    drop(graph);
    // So it may if the value has a destructor, and therefore stays in its slot while it is read.
    let graph = runtime.compile(|x: Edge<u32>| {
        let ledger = maker.ledger(&x);
        (one.post(&ledger), one.post(&ledger), one.look(&ledger))
    })?;
    assert_eq!(graph.run(4)?, (4, 4, 4));
    drop(graph);
    // A tuple as a whole and in parts is copied too.
    let (code, _) = diagnosed(runtime.compile(|x: Edge<u32>| {
        let pipe = maker.pipe(&x);
        let (to, _) = pipe.split();
        (one.send(&to, &x), pipe)
    }));
    assert_eq!(code, "D0121");
    Ok(())
}

#[test]
fn an_input_that_no_task_reads_may_be_several_outputs() -> Result<()> {
    let runtime = Runtime::new();
    let user = runtime.spawn::<User>("user", ()).in_thread()?;
    type Inputs = (Edge<u32>, Edge<u32>, Edge<Tally>);
    let graph =
        runtime.compile(|(x, y, tally): Inputs| (user.twice(&x), y.clone(), y, tally.clone(), tally))?;
    let (x, y, also_y, tally, also_tally) = graph.run((2, 3, Tally(Cell::new(4))))?;
    assert_eq!((x, y, also_y, tally.0.get(), also_tally.0.get()), (4, 3, 3, 4, 4));
    drop(graph);
    // Whether this type is `Clone`, no actor of the graph knows.
    let (code, message) =
        diagnosed(runtime.compile(|(x, y): (Edge<u32>, Edge<Stranger>)| (user.twice(&x), y.clone(), y)));
    assert_eq!(code, "D0121");
    assert!(
        message.contains("no method of the graph's actors names it"),
        "{message}"
    );
    Ok(())
}

#[test]
fn task_12_a_constant_that_cannot_be_encoded_is_refused_where_it_crosses() {
    struct Needy;

    #[derive(Clone, serde::Deserialize)]
    pub struct Stubborn;

    impl serde::Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> std::result::Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }

    struct Taker;

    #[actor]
    impl Taker {
        pub fn new() -> Self {
            Taker
        }

        pub fn take(&mut self, x: u32, #[constant] _by: Stubborn) -> u32 {
            x
        }
    }

    #[actor]
    impl Needy {
        pub fn new(_: Stubborn) -> Self {
            Needy
        }

        pub fn nothing(&mut self, x: u32, #[constant] _by: Stubborn) -> u32 {
            x
        }
    }

    let runtime = Runtime::new();
    let needy = runtime.spawn::<Needy>("needy", (Stubborn,)).in_thread().unwrap();
    assert_eq!(
        runtime
            .compile(|x: Edge<u32>| needy.nothing(&x, Stubborn))
            .unwrap()
            .run(1)
            .unwrap(),
        1
    );
    let refused = runtime
        .spawn::<Needy>("needy", (Stubborn,))
        .in_process()
        .unwrap_err();
    assert!(matches!(refused, SpawnError::Arguments { .. }), "{refused}");
    let far = runtime.spawn::<Taker>("far", ()).in_process().unwrap();
    let (code, message) = diagnosed(runtime.compile(|x: Edge<u32>| far.take(&x, Stubborn)));
    assert_eq!(code, "D0114");
    assert!(
        message.contains("Stubborn") && message.contains("no"),
        "{message}"
    );
}
