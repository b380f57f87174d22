//! Measures the source of the library's packages and holds it against limits: `cargo run -p selvedge-tidy`.
//!
//! - `source`: the modules of a package, parsed, with their tests apart.
//! - `names`: type names that stand in two modules; `words`: doc comments that begin with a pronoun; `docs`: public items.
//! - `sizes`: lengths of files and functions; `cycles`: circles of modules.
//! - `orderings`: atomic orderings without a reason; `exits`: indices that end a function silently.
//! - `lines`: lines that a rule forbids; `floors`: dependencies between the packages.
//! - `rules`: the table of limits in CONTRIBUTING.md, which names every measure and every lint, and nothing else.
//!
//! Each measure prints a figure and its limit. A figure above its limit fails, and so does a limit that could be lower: the limits in
//! `limits.rs` only ever go down. With `--list` each finding is printed with its place.

mod limits;
mod manifest;

mod source;

mod cycles;
mod docs;
mod exits;
mod floors;
mod lines;
mod names;
mod orderings;
mod sizes;
mod words;

mod rules;

use std::path::Path;
use std::process::ExitCode;

use crate::limits::Limits;
use crate::source::Package;

/// The packages that are measured, each a folder of the repository, the lowest floor first.
const PACKAGES: [&str; 10] = [
    "macros",
    "channels",
    "collectives",
    "cluster",
    "objects",
    "actor-core",
    "dag-compiler",
    "batching",
    "parallel",
    ".",
];

/// One measure of the source.
pub(crate) struct Measure {
    /// Its name in the table and in `limits.rs`.
    pub(crate) name: &'static str,
    /// The figure; smaller is better.
    pub(crate) found: usize,
    /// The places that make up the figure, or the largest of them.
    pub(crate) places: Vec<String>,
}

impl Measure {
    /// A measure that counts its places.
    pub(crate) fn count(name: &'static str, places: Vec<String>) -> Self {
        Measure {
            name,
            found: places.len(),
            places,
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let list = std::env::args().any(|arg| arg == "--list");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = PACKAGES
        .iter()
        .map(|folder| Package::read(&root, folder))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut measures = vec![
        names::doubled(&packages),
        words::beginnings(&packages),
        docs::missing(&packages),
        orderings::unexplained(&packages),
        cycles::largest(&packages),
        exits::silent(&packages),
        lines::unsafe_without_reason(&packages),
        lines::sleeps(&packages),
        lines::doubled_sources(&packages),
        lines::chance(&packages),
        lines::systems(&packages),
        floors::upwards(&root, &PACKAGES)?,
        sizes::readme(&root)?,
    ];
    measures.extend(sizes::files(&packages));
    measures.extend(sizes::functions(&packages));
    let limits = Limits::default();
    let mut verdict = ExitCode::SUCCESS;
    println!("{:40} {:>7} {:>7} {:>7}", "measure", "found", "limit", "goal");
    for measure in &measures {
        let (limit, goal) = limits.of(measure.name)?;
        println!("{:40} {:>7} {limit:>7} {goal:>7}", measure.name, measure.found);
        if list {
            measure.places.iter().for_each(|place| println!("    {place}"));
        }
        if measure.found > limit {
            println!("    above its limit; `--list` shows where");
            verdict = ExitCode::FAILURE;
        } else if measure.found < limit && limit > goal {
            println!(
                "    below its limit: lower it in scripts/tidy/src/limits.rs to {}",
                measure.found.max(goal)
            );
            verdict = ExitCode::FAILURE;
        }
    }
    for difference in rules::differences(&root, &limits)? {
        println!("{difference}");
        verdict = ExitCode::FAILURE;
    }
    Ok(verdict)
}
