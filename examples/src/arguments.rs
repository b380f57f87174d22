//! The digits example's command line.

use std::path::PathBuf;

use clap::Parser;
use selvedge::Placement;

use crate::weights::shipped_weights;

/// Recognises the held-out handwritten digits with a graph of actors.
#[derive(Clone, Debug, Parser)]
#[command(name = "digits")]
pub struct Arguments {
    /// The place of the actors: inline, thread or process; the predictions are equal
    #[arg(long, default_value_t = Placement::Thread)]
    pub placement: Placement,
    /// A safetensors file with the weights; see `data/README.md` for names and shapes
    #[arg(long, value_name = "PATH", default_value_os_t = shipped_weights())]
    pub model: PathBuf,
    /// Executions under way at the same time, from 1
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub inflight: u32,
    /// How often to go through the held-out digits
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Show no progress bar; where standard error is no terminal there is none anyway
    #[arg(long)]
    pub no_progress: bool,
}
