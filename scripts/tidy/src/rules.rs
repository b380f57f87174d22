//! The rules that CONTRIBUTING.md lists, and the tools that enforce them: neither has one that the other lacks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::limits::Limits;
use crate::manifest::table;

/// The differences between the table of limits in CONTRIBUTING.md and the tools.
///
/// # Errors
/// A file cannot be read, or the page has no such table.
pub(crate) fn differences(root: &Path, limits: &Limits) -> anyhow::Result<Vec<String>> {
    let page = fs::read_to_string(root.join("CONTRIBUTING.md"))?;
    let (_, table) = page
        .split_once("| limit | goal | enforced by |\n")
        .context("CONTRIBUTING.md has no table of limits")?;
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let listed: BTreeSet<String> = rows.map(|row| row.trim_matches(['|', ' ']).to_owned()).collect();
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let measures = limits
        .goals()
        .map(|(name, goal)| format!("{name} | {goal} | tidy"));
    let enforced: BTreeSet<String> = measures.chain(lints(&manifest)).collect();
    let missing = enforced
        .difference(&listed)
        .map(|row| format!("CONTRIBUTING.md lacks: | {row} |"));
    let unknown = listed
        .difference(&enforced)
        .map(|row| format!("nothing enforces: | {row} |"));
    Ok(missing.chain(unknown).collect())
}

/// The lints of the workspace, each as a row of the table.
fn lints(manifest: &str) -> impl Iterator<Item = String> {
    let tables = [
        ("[workspace.lints.rust]", "rustc"),
        ("[workspace.lints.clippy]", "clippy"),
    ];
    tables.into_iter().flat_map(move |(name, tool)| {
        let names = table(manifest, name).filter_map(|line| line.split_once(" = "));
        names.map(move |(lint, _)| format!("`{lint}` | 0 | {tool}"))
    })
}
