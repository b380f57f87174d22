//! The measurement of one point: all libraries that support it, in turns.

use selvedge_cli::args::{Mode, Placement, Wait};
use selvedge_cli::bench::limits::Limit;
use selvedge_cli::bench::measure::{REPEATS, Summary};
use selvedge_cli::bench::versus::median_ratio;

use crate::case::{Case, Sides};
use crate::processes::{self, Via};
use crate::threads::{self, Crossbeam, Either, Ours, Rtrb, Std, Tokio};

/// The name of selvedge's row.
pub(crate) const OURS: &str = "selvedge";

/// The result of one library, or of a limit.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) is_limit: bool,
    pub(crate) median: Summary,
    /// The time of selvedge over that of this row, turn by turn: below 1, selvedge is faster.
    pub(crate) ours_over: f64,
}

/// The results at one point.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) case: Case,
    pub(crate) rows: Vec<Row>,
}

type Measure = Box<dyn Fn(&Case) -> anyhow::Result<Summary>>;

struct Party {
    name: &'static str,
    is_limit: bool,
    measure: Measure,
}

/// Returns the parties of a point: selvedge, the other libraries, and the limit.
fn parties(case: &Case) -> Vec<Party> {
    let mut parties = Vec::new();
    let mut party = |name, measure: Measure| {
        parties.push(Party {
            name,
            is_limit: false,
            measure,
        })
    };
    match case.sides {
        Sides::Threads => {
            party(OURS, Box::new(threads::measure::<Ours>));
            party(
                "crossbeam-channel",
                Box::new(threads::measure::<Either<Crossbeam>>),
            );
            party("std mpsc", Box::new(threads::measure::<Either<Std>>));
            party("tokio mpsc", Box::new(threads::measure::<Either<Tokio>>));
            if case.spins() {
                party("rtrb", Box::new(threads::measure::<Rtrb>));
            }
        }
        Sides::Processes => {
            party(OURS, Box::new(processes::measure_ours));
            #[cfg(feature = "iceoryx2")]
            party(
                "iceoryx2",
                Box::new(|case| processes::measure(Via::Iceoryx2, case)),
            );
            if case.mode != Mode::Loan {
                party(
                    "Unix socket",
                    Box::new(|case| processes::measure(Via::Socket, case)),
                );
                party("pipe", Box::new(|case| processes::measure(Via::Pipe, case)));
            }
        }
    }
    if let Some(limit) = limit(case) {
        let measure = move |case: &Case| {
            let placement = match case.sides {
                Sides::Threads => Placement::Thread,
                Sides::Processes => Placement::Process,
            };
            limit.measure(placement, case.payload_bytes, case.budget)
        };
        parties.push(Party {
            name: limit.name(),
            is_limit: true,
            measure: Box::new(measure),
        });
    }
    parties
}

/// Returns the limit of the machine that applies to the case.
fn limit(case: &Case) -> Option<Limit> {
    match (case.mode, case.wait) {
        _ if case.readers > 1 => None,
        (Mode::Stream, _) => None,
        (Mode::Copy, Wait::Park) if case.is_number() => Some(Limit::FutexOneCore),
        (_, Wait::Park) => None,
        (Mode::Copy, _) if !case.is_number() => Some(Limit::HandOff),
        _ => Some(Limit::CacheLineTwoLines),
    }
}

/// Measures all parties in turns, [`REPEATS`] times. A party that fails is left out and reported on standard error.
pub(crate) fn measure(case: &Case) -> anyhow::Result<Point> {
    let mut parties = parties(case);
    let mut found: Vec<Vec<Summary>> = vec![Vec::new(); parties.len()];
    for turn in 0..REPEATS {
        for (party, found) in parties.iter().zip(&mut found) {
            match (party.measure)(case) {
                Ok(summary) => found.push(summary),
                Err(error) => eprintln!("{} at {} (turn {turn}): {error:#}", party.name, case.title()),
            }
        }
    }
    let ours = found.first().cloned().unwrap_or_default();
    let row = |(party, found): (Party, Vec<Summary>)| {
        let median = Summary::median(&found).filter(|_| found.len() == REPEATS)?;
        Some(Row {
            name: party.name,
            is_limit: party.is_limit,
            median,
            ours_over: median_ratio(&ours, &found),
        })
    };
    let rows = parties.drain(..).zip(found).filter_map(row).collect();
    Ok(Point { case: *case, rows })
}
