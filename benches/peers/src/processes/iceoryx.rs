//! iceoryx2, publish-subscribe: numbers as `u64`, payloads as slices that are copied into a loan or built in it. A
//! spinning side polls; any other side waits for events.

use std::hint::{black_box, spin_loop};
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use selvedge_cli::args::{Mode, Wait};

use super::{Answer, Ask, Other, ServeArgs, Via, read};
use crate::case::Case;

/// The time limit for waiting on the other side.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number, and the length of a slice, that end the other side.
const STOP: u64 = u64::MAX;
const STOP_BYTES: usize = 1;

type Ipc = ipc::Service;

enum Output {
    Number(Publisher<Ipc, u64, ()>),
    Bytes(Publisher<Ipc, [u8], ()>),
}

enum Input {
    Number(Subscriber<Ipc, u64, ()>),
    Bytes(Subscriber<Ipc, [u8], ()>),
}

/// The properties of a service, equal on both sides.
struct Shape<'a> {
    name: &'a str,
    room: usize,
    readers: usize,
}

macro_rules! service {
    ($node:expr, $shape:expr, $payload:ty) => {
        $node
            .service_builder(&ServiceName::new($shape.name)?)
            .publish_subscribe::<$payload>()
            .enable_safe_overflow(false)
            .max_publishers(1)
            .max_subscribers($shape.readers)
            .subscriber_max_buffer_size($shape.room)
            .open_or_create()?
    };
}

impl Output {
    fn number(node: &Node<Ipc>, shape: &Shape<'_>) -> anyhow::Result<Self> {
        let service = service!(node, shape, u64);
        Ok(Output::Number(service.publisher_builder().create()?))
    }

    fn bytes(node: &Node<Ipc>, shape: &Shape<'_>, most: usize) -> anyhow::Result<Self> {
        let service = service!(node, shape, [u8]);
        Ok(Output::Bytes(
            service.publisher_builder().initial_max_slice_len(most).create()?,
        ))
    }

    fn send(&self, number: u64, payload: &[u8], mode: Mode) -> anyhow::Result<()> {
        match self {
            Output::Number(publisher) => drop(publisher.send_copy(number)?),
            Output::Bytes(publisher) if mode == Mode::Loan && payload.len() > STOP_BYTES => {
                let mut sample = publisher.loan_slice_uninit(payload.len())?;
                if let (Some(to), Some(from)) = (sample.payload_mut().first_mut(), payload.first()) {
                    to.write(*from);
                }
                let _ = assume_written(sample).send()?;
            }
            Output::Bytes(publisher) => {
                let sample = publisher.loan_slice_uninit(payload.len())?;
                let _ = sample.write_from_slice(payload).send()?;
            }
        }
        Ok(())
    }
}

#[allow(unsafe_code)] // iceoryx2 requires it for a loan
fn assume_written(
    sample: iceoryx2::sample_mut_uninit::SampleMutUninit<Ipc, [std::mem::MaybeUninit<u8>], ()>,
) -> iceoryx2::sample_mut::SampleMut<Ipc, [u8], ()> {
    // SAFETY: the bytes lie in shared memory that the kernel has zeroed; any bytes are valid `u8`s.
    unsafe { sample.assume_init() }
}

impl Input {
    fn number(node: &Node<Ipc>, shape: &Shape<'_>) -> anyhow::Result<Self> {
        let service = service!(node, shape, u64);
        Ok(Input::Number(service.subscriber_builder().create()?))
    }

    fn bytes(node: &Node<Ipc>, shape: &Shape<'_>) -> anyhow::Result<Self> {
        let service = service!(node, shape, [u8]);
        Ok(Input::Bytes(service.subscriber_builder().create()?))
    }

    /// Returns the value read, or [`STOP`]; `None` if no message has arrived.
    fn try_read(&self, mode: Mode) -> anyhow::Result<Option<u64>> {
        Ok(match self {
            Input::Number(subscriber) => subscriber.receive()?.map(|sample| *sample),
            Input::Bytes(subscriber) => subscriber.receive()?.map(|sample| match sample.payload() {
                stop if stop.len() == STOP_BYTES => STOP,
                bytes => read(bytes, mode) & !(1 << 63),
            }),
        })
    }

    fn read(&self, mode: Mode, events: Option<&Listener<Ipc>>) -> anyhow::Result<u64> {
        let end = Instant::now() + PATIENCE;
        let mut turn = 0_u32;
        loop {
            if let Some(found) = self.try_read(mode)? {
                return Ok(found);
            }
            match events {
                Some(events) => drop(events.timed_wait(|_| (), PATIENCE)?),
                None => spin_loop(),
            }
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(1 << 16) {
                anyhow::ensure!(Instant::now() < end, "the other side does not answer");
            }
        }
    }
}

fn notifier(node: &Node<Ipc>, name: &str) -> anyhow::Result<Notifier<Ipc>> {
    let service = node
        .service_builder(&ServiceName::new(name)?)
        .event()
        .open_or_create()?;
    Ok(service.notifier_builder().create()?)
}

fn listener(node: &Node<Ipc>, name: &str) -> anyhow::Result<Listener<Ipc>> {
    let service = node
        .service_builder(&ServiceName::new(name)?)
        .event()
        .open_or_create()?;
    Ok(service.listener_builder().create()?)
}

fn node() -> anyhow::Result<Node<Ipc>> {
    iceoryx2::prelude::set_log_level(LogLevel::Error);
    Ok(NodeBuilder::new()
        .signal_handling_mode(SignalHandlingMode::Disabled)
        .create::<Ipc>()?)
}

const STREAM_ROOM: usize = 64;

const ROOM: usize = 8;

fn room(mode: Mode) -> usize {
    if mode == Mode::Stream { STREAM_ROOM } else { ROOM }
}

pub(super) struct Asking {
    there: Output,
    back: Vec<(Input, Option<Listener<Ipc>>)>,
    tell: Option<Notifier<Ipc>>,
    mode: Mode,
    others: Vec<Other>,
    _node: Node<Ipc>,
}

impl Asking {
    pub(super) fn start(case: &Case, core: Option<usize>) -> anyhow::Result<Self> {
        let node = node()?;
        let unique = format!("selvedge-peers/{}/{:?}", std::process::id(), Instant::now());
        let there = format!("{unique}/there");
        let shape = Shape {
            name: &there,
            room: room(case.mode),
            readers: case.readers,
        };
        let output = if case.is_number() {
            Output::number(&node, &shape)?
        } else {
            Output::bytes(&node, &shape, case.payload_bytes)?
        };
        let parks = !case.spins();
        let tell = parks
            .then(|| notifier(&node, &format!("{there}/event")))
            .transpose()?;
        let (mut back, mut others) = (Vec::new(), Vec::new());
        for index in 0..case.readers {
            let name = format!("{unique}/back/{index}");
            let input = Input::number(
                &node,
                &Shape {
                    name: &name,
                    room: ROOM,
                    readers: 1,
                },
            )?;
            let hear = parks
                .then(|| listener(&node, &format!("{name}/event")))
                .transpose()?;
            back.push((input, hear));
            let mut other = Other::start(
                Via::Iceoryx2,
                case,
                core,
                (index, &unique),
                (Stdio::null(), Stdio::piped()),
            )?;
            let mut ready = other
                .0
                .stdout
                .take()
                .context("no way to hear of the other side")?;
            ready
                .read_exact(&mut [0])
                .context("the other side did not start")?;
            others.push(other);
        }
        Ok(Asking {
            there: output,
            back,
            tell,
            mode: case.mode,
            others,
            _node: node,
        })
    }

    fn tell(&self) -> anyhow::Result<()> {
        self.tell.as_ref().map(Notifier::notify).transpose()?;
        Ok(())
    }
}

impl Ask for Asking {
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        self.there.send(7, payload, self.mode)?;
        self.tell()
    }

    fn collect(&mut self) -> anyhow::Result<()> {
        for (input, events) in &self.back {
            black_box(input.read(Mode::Copy, events.as_ref())?);
        }
        Ok(())
    }
}

impl Drop for Asking {
    /// Tells the readers to stop and waits for their ends, so that their nodes leave nothing in the file system.
    fn drop(&mut self) {
        let told = self
            .there
            .send(STOP, &[0; STOP_BYTES], Mode::Copy)
            .and_then(|()| self.tell());
        if told.is_ok() {
            for other in &mut self.others {
                let _ = other.0.wait();
            }
        }
    }
}

pub(super) struct Answering {
    there: Input,
    hear: Option<Listener<Ipc>>,
    back: Output,
    tell: Option<Notifier<Ipc>>,
    mode: Mode,
    _node: Node<Ipc>,
}

impl Answering {
    pub(super) fn start(args: &ServeArgs) -> anyhow::Result<Self> {
        let node = node()?;
        let (there, back) = (
            format!("{}/there", args.name),
            format!("{}/back/{}", args.name, args.index),
        );
        let shape = Shape {
            name: &there,
            room: room(args.mode),
            readers: 1,
        };
        let input = if args.payload == 8 {
            Input::number(&node, &shape)?
        } else {
            Input::bytes(&node, &shape)?
        };
        let output = Output::number(
            &node,
            &Shape {
                name: &back,
                room: ROOM,
                readers: 1,
            },
        )?;
        let parks = args.wait != Wait::Spin;
        let hear = parks
            .then(|| listener(&node, &format!("{there}/event")))
            .transpose()?;
        let tell = parks
            .then(|| notifier(&node, &format!("{back}/event")))
            .transpose()?;
        let mut stdout = std::io::stdout();
        stdout.write_all(b"!")?;
        stdout.flush()?;
        Ok(Answering {
            there: input,
            hear,
            back: output,
            tell,
            mode: args.mode,
            _node: node,
        })
    }
}

impl Answer for Answering {
    fn receive(&mut self) -> anyhow::Result<Option<u64>> {
        let found = self.there.read(self.mode, self.hear.as_ref())?;
        Ok((found != STOP).then_some(found))
    }

    fn answer(&mut self, sum: u64) -> anyhow::Result<()> {
        self.back.send(sum, &[], Mode::Copy)?;
        self.tell.as_ref().map(Notifier::notify).transpose()?;
        Ok(())
    }
}
