//! The `selvedge` command.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    selvedge::init(); // a worker process of a measured graph is this program as well
    match selvedge_cli::run(selvedge_cli::args::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
