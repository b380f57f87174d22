//! The load generator's command line.

use std::path::PathBuf;

use clap::Parser;

/// Puts a service under load and says how it did.
#[derive(Clone, Debug, Parser)]
#[command(name = "load")]
pub struct Arguments {
    /// The service; without it, one is started, with the arguments after `--`
    #[arg(long, value_name = "HOST:PORT")]
    pub address: Option<String>,
    /// Clients who send the next request when they have the answer
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    pub clients: Option<usize>,
    /// Requests a second, at random moments
    #[arg(long, value_name = "R", value_parser = positive)]
    pub rate: Option<f64>,
    /// Measures the capacity, then loads with twice as much, and judges: failures, throughput, memory
    #[arg(long, conflicts_with_all = ["clients", "rate"])]
    pub overload: bool,
    /// The number of clients that go away in the middle of their answers; then shows whether work is left behind
    #[arg(long, value_name = "N", conflicts_with_all = ["clients", "rate", "overload"])]
    pub leave: Option<usize>,
    /// How many seconds to send
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// Kill one worker process of the service half-way
    #[arg(long)]
    pub kill: bool,
    /// A prompt to complete; else chats ask for drawings of digits
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Tokens of an answer at most
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u32>,
    /// Write a picture of the run
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Arguments of the service that is started
    #[arg(last = true, value_name = "ARGUMENTS OF SERVE")]
    pub serve: Vec<String>,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number.is_finite() && number > 0.0 {
        Ok(number)
    } else {
        Err("must be more than 0".into())
    }
}
