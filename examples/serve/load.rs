//! Puts a service under load and prints the results.
//!
//! `cargo run --release -p selvedge-serve --bin load -- --overload [--kill] [--seconds S] [-- ARGUMENTS OF SERVE]`

use std::process::ExitCode;

use clap::Parser;
use selvedge_serve::load::arguments::Arguments;
use selvedge_serve::load::trial;
use selvedge_serve::process::allow_descriptors;

fn main() -> ExitCode {
    allow_descriptors();
    let arguments = Arguments::parse();
    // One thread, because the service needs the cores.
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let verdict = threads.and_then(|threads| threads.block_on(trial::run(&arguments)));
    match verdict {
        Ok(verdict) => {
            match arguments.json {
                true => println!("{}", verdict.value),
                false => println!("{}", verdict.text),
            }
            if verdict.good {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
