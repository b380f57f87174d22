//! `docs/conformance.md` says which test shows which requirement: those tests exist.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of functions in the whole tree.
fn functions() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(Path::new(env!("CARGO_MANIFEST_DIR")), &mut files);
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let names = |text: String| -> Vec<String> {
        let after = text.split("fn ").skip(1);
        let name = |rest: &str| {
            rest.chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect()
        };
        after.map(name).collect()
    };
    texts.flat_map(names).collect()
}

/// Texts between backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[test]
fn every_test_that_the_conformance_table_names_exists() {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/conformance.md");
    let (table, functions) = (fs::read_to_string(table).unwrap(), functions());
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (id, tests) = (cells[1], cells[2]);
        for test in quoted(tests) {
            assert!(functions.contains(test), "{id}: there is no test `{test}`");
            named += 1;
        }
        // In remarks a test's name may be cut short: `rw_13_…`.
        for remark in cells.iter().skip(3).flat_map(|cell| quoted(cell)) {
            if let Some(start) = remark.strip_suffix('…') {
                let found = functions.iter().any(|name| name.starts_with(start));
                assert!(found, "{id}: no test begins with `{start}`");
            }
        }
    }
    assert!(named > 150, "{named} tests named");
}
