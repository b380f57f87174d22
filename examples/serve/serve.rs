//! Serves a language model over HTTP, in the shape of OpenAI's interface.
//!
//! `cargo run --release -p selvedge-serve -- [--listen HOST:PORT] [--model DIR] [--pipeline P] [--tensor T] [--slots N]`
//!
//! SIGINT and SIGTERM end the service: it accepts no more requests and lets requests in flight end; a second signal
//! ends it at once. While the model is loaded, the first signal ends it at once.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use selvedge::{BoxError, Runtime};
use selvedge_examples::weights::shipped_weights;
use selvedge_serve::arguments::Arguments;
use selvedge_serve::process::allow_descriptors;
use selvedge_serve::service::{ClassifierBuild, Model, Service};
use selvedge_serve::{classify, folder, listen};
use selvedge_training::one_thread::keep_candle_to_one_thread;
use tokio::net::TcpSocket;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The time that threads and workers get to end after all requests are answered.
const CLOSE: Duration = Duration::from_secs(2);

/// The connections that may wait until they are accepted.
const BACKLOG: u32 = 1024;

/// The two signals that end a service.
struct Ending(Signal, Signal);

impl Ending {
    fn new() -> std::io::Result<Ending> {
        Ok(Ending(
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        ))
    }

    async fn come(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// Takes an address, on which nobody can connect yet: a taken address is an error before the model is loaded, and no
/// client waits for the model in vain.
fn take(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of an earlier service, which the system keeps for a while after their end, do not block the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// Loads the model and starts its service. It blocks.
fn load(arguments: &Arguments, runtime: &Runtime) -> Result<Arc<Service>, BoxError> {
    let (vocabulary, most) = folder::vocabulary(&arguments.model)?;
    let positions = arguments.positions.map_or(most, |asked| (asked as u32).min(most));
    let its = runtime.clone();
    let classifier: ClassifierBuild = Arc::new(move || classify::build(&its, shipped_weights()));
    let model = Model {
        name: arguments.name(),
        vocabulary,
        template: arguments.template(),
        positions,
        build: folder::build(runtime, arguments.model.clone(), arguments.layout()),
        classifier: arguments.is_shipped().then_some(classifier),
    };
    Service::start(model, arguments.limits())
}

async fn run(arguments: Arguments, runtime: Runtime) -> Result<(), BoxError> {
    let mut ending = Ending::new()?;
    let taken = |error: std::io::Error| format!("{}: {error}", arguments.listen);
    let socket = take(arguments.listen).map_err(taken)?;
    let its = arguments.clone();
    let service = tokio::select! {
        loaded = tokio::task::spawn_blocking(move || load(&its, &runtime)) => loaded??,
        () = ending.come() => {
            eprintln!("ended while the model was loaded");
            return Ok(());
        }
    };
    let listener = socket.listen(BACKLOG).map_err(taken)?;
    println!("{}", arguments.greeting(&listener.local_addr()?.to_string()));
    let draining = Arc::clone(&service);
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let stop = async move {
        ending.come().await;
        eprintln!("draining for at most {} s", arguments.grace);
        draining.drain();
        tokio::spawn(async move {
            tokio::select! {
                () = ending.come() => std::process::exit(1),
                _ = end => {}
            }
        });
    };
    let closing = Arc::clone(&service);
    let last_word = async move {
        // The call fails only if `close` panics; the connections are then cut off.
        let _ = tokio::task::spawn_blocking(move || closing.close(Duration::ZERO)).await;
    };
    let left = listen::serve(
        listener,
        service.router(),
        arguments.connections(),
        stop,
        arguments.grace(),
        last_word,
    )
    .await;
    drop(ended);
    tokio::task::spawn_blocking(move || service.close(CLOSE)).await?;
    eprintln!("ended, {left} connections cut off");
    Ok(())
}

fn main() -> ExitCode {
    keep_candle_to_one_thread();
    selvedge::init();
    allow_descriptors();
    let arguments = Arguments::parse();
    let runtime = Runtime::new();
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = threads.map_err(BoxError::from).and_then(|threads| {
        let ended = threads.block_on(run(arguments, runtime.clone()));
        threads.shutdown_timeout(CLOSE);
        ended
    });
    for worker in runtime.shutdown(CLOSE).killed_workers {
        eprintln!("warning: worker {worker} did not end by itself and was killed");
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
