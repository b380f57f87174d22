//! The programs that the tests of `selvedge-test-hosts` run. Each says what happens to it in lines on its standard output.
//!
//! - `listen ADDRESS`, `dial ADDRESS`: the two ends of a link (`link`).
//! - `hold`: makes hosts, and holds them until its input ends. `come-and-go`: makes hosts and ends them, and counts what is
//!   left (`holder`).

#[cfg(target_os = "linux")]
#[path = "../../../../tests/census/mod.rs"]
mod census;
#[cfg(target_os = "linux")]
mod holder;
mod link;

use std::io::Write;

use anyhow::bail;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["listen", address] => link::listen(address.parse()?),
        ["dial", address] => link::dial(address),
        #[cfg(target_os = "linux")]
        ["hold"] => holder::hold(),
        #[cfg(target_os = "linux")]
        ["come-and-go"] => holder::come_and_go(),
        _ => bail!("no such program: {words:?}"),
    }
}

/// Prints a line at once. Ends the program if nobody reads it.
fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
