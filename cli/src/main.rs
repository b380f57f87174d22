//! The `selvedge` command.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    selvedge::init(); // this program is also the worker process of a measured graph
    match selvedge_cli::run(selvedge_cli::args::Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
