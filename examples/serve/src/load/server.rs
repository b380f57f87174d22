//! The service under load: started for the measurement or already running, and its own figures.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::load::client::Client;

/// The time that a service may take to start.
const START: Duration = Duration::from_secs(120);
/// The time that a service may take to end.
const END: Duration = Duration::from_secs(60);

/// A started service, which ends when this is dropped.
pub struct Server {
    child: Child,
    /// The address on which it listens.
    pub address: String,
}

impl Server {
    /// Starts the program `serve` in the directory of this program.
    ///
    /// # Errors
    /// The service does not start, or prints no address.
    pub async fn start(arguments: &[String]) -> io::Result<Server> {
        let program = std::env::current_exe()?.with_file_name("serve");
        Server::start_program(&program, arguments).await
    }

    /// Starts the given program.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub async fn start_program(program: &Path, arguments: &[String]) -> io::Result<Server> {
        let mut command = Command::new(program);
        command.args(["--listen", "127.0.0.1:0"]).args(arguments);
        command.stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| {
            io::Error::other(format!(
                "{}: {error}; build it first: cargo build --release -p selvedge-serve",
                program.display()
            ))
        })?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        let mut lines = BufReader::new(stdout).lines();
        let greeting = timeout(START, lines.next_line()).await??.unwrap_or_default();
        // The rest of the output is read, so that the service never writes into a full pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let address = greeting
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let address = address.ok_or_else(|| io::Error::other("the service did not start"))?;
        Ok(Server {
            child,
            address: address.to_owned(),
        })
    }

    /// Asks the service to end, and waits. Returns whether it succeeded.
    ///
    /// # Errors
    /// The service does not end in time; it is then killed.
    pub async fn end(mut self) -> io::Result<bool> {
        self.child
            .id()
            .into_iter()
            .for_each(|pid| send(pid, Signal::TERM));
        let status = timeout(END, self.child.wait()).await??;
        Ok(status.success())
    }
}

/// Kills a process with a signal that no handler can catch.
pub fn kill(pid: u32) {
    send(pid, Signal::KILL);
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // The process may have ended by itself.
        let _ = kill_process(pid, signal);
    }
}

/// The samples of `/metrics`.
pub struct Samples(String);

impl Samples {
    /// Reads the samples.
    ///
    /// # Errors
    /// The error of the connection.
    pub async fn read(client: &Client) -> io::Result<Samples> {
        let (_, page) = client.get("/metrics").await?;
        Ok(Samples(page))
    }

    /// Returns a sample by its name and labels; 0 if there is none.
    pub fn get(&self, name: &str) -> f64 {
        let value = self
            .0
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// Returns the resident memory of the service and its workers, in MiB.
    pub fn memory(&self) -> f64 {
        let own = self.get("process_resident_memory_bytes");
        (own + self.get("selvedge_workers_resident_memory_bytes")) / f64::from(1 << 20)
    }
}

/// Returns the worker processes of the service.
///
/// # Errors
/// The error of the connection.
pub async fn workers(client: &Client) -> io::Result<Vec<u32>> {
    let (_, text) = client.get("/health").await?;
    let value: Value = serde_json::from_str(&text)?;
    let workers = value.get("workers").and_then(Value::as_array);
    Ok(workers
        .into_iter()
        .flatten()
        .filter_map(|pid| pid.as_u64()?.try_into().ok())
        .collect())
}

/// Returns the name of the first model.
///
/// # Errors
/// The error of the connection.
pub async fn model(client: &Client) -> io::Result<String> {
    let (_, text) = client.get("/v1/models").await?;
    let value: Value = serde_json::from_str(&text)?;
    let name = value.pointer("/data/0/id").and_then(Value::as_str);
    name.map(str::to_owned)
        .ok_or_else(|| io::Error::other("the service has no model"))
}
