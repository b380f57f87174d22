//! `tests/conformance.md` names the tests that show each requirement: the gate runs those tests, and no row is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Adds the sources in a folder and in the folders in it.
pub(crate) fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != "target" && !name.to_string_lossy().starts_with('.') {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of the functions that run as tests, each with the files that contain it.
fn tests() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(root, &mut files);
    let manifests =
        ["Cargo.toml", "channels/Cargo.toml"].map(|file| fs::read_to_string(root.join(file)).unwrap());
    let mut found: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for file in files {
        let (text, path) = (
            fs::read_to_string(&file).unwrap(),
            file.strip_prefix(root).unwrap(),
        );
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        // A `main` in place of the harness's own calls the tests of its file.
        let own_main = manifests.iter().any(|manifest| {
            let stem = path.file_stem().unwrap().to_string_lossy();
            manifest.contains(&format!("name = \"{stem}\"\nharness = false"))
        });
        let macros = [
            "macro_rules! communicator_contract",
            "macro_rules! transport_contract",
            "for_every_channel!(",
        ];
        let lists = macros.iter().any(|name| text.contains(name));
        for (at, line) in lines.iter().enumerate() {
            let attributes = || {
                let above = lines[..at].iter().rev();
                // An attribute may have several lines.
                above.take_while(|line| !line.is_empty() && !line.ends_with(['{', '}', ';']))
            };
            let is_test = || {
                attributes().any(|line| line.starts_with("#[test]"))
                    && !attributes().any(|line| line.starts_with("#[ignore"))
            };
            let name = match line.split_once("fn ") {
                Some((_, rest)) if is_test() => identifier(rest),
                // A call in such a `main`.
                None if own_main => identifier(line),
                // An entry in a macro's list of functions, each of which becomes a test.
                None if lists => line.strip_suffix(',').unwrap_or(line),
                None => continue,
                Some(_) => continue,
            };
            if !name.is_empty() && identifier(name) == name {
                found.entry(name.to_owned()).or_default().insert(path.to_owned());
            }
        }
    }
    found
}

fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// Whether the gate runs the tests of `file`. The gate must name a file that a feature or a model checker enables.
fn runs_in_the_gate(file: &Path, gate: &str) -> bool {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let switches = text.lines().filter(|line| line.starts_with("#![cfg("));
    let switched = switches.into_iter().any(|line| {
        line.contains("feature")
            || line
                .replace("not(loom)", "")
                .replace("not(any(miri, loom))", "")
                .contains("loom")
    });
    // Unit tests of a library's device modules: the gate names their package.
    let of_devices = [
        "channels/src/device",
        "collectives/src/nccl",
        "collectives/src/gpu",
    ];
    if of_devices.iter().any(|folder| file.starts_with(folder)) {
        let package = format!("-p selvedge-{} ", file.iter().next().unwrap().to_string_lossy());
        return gate.lines().any(|line| {
            line.starts_with("over_simulated") && line.contains(&package) && line.contains(" --lib ")
        });
    }
    let stem = file.file_stem().unwrap().to_string_lossy();
    !switched || gate.contains(&format!("--test {stem}"))
}

/// The number of rows of each kind of requirement. The rows of a kind are numbered from 1.
const ROWS: [(&str, usize); 12] = [
    ("TASK", 15),
    ("DAG", 54),
    ("GRAPH", 28),
    ("CHAN", 26),
    ("CACHE", 7),
    ("INTRA", 4),
    ("BUF", 7),
    ("COMP", 7),
    ("RW", 13),
    ("COMM", 23),
    ("ACC", 21),
    ("TYPE", 12),
];

/// Texts between backquotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn rows() -> Vec<Vec<String>> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance.md");
    let table = fs::read_to_string(table).unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

#[test]
fn every_test_that_the_conformance_table_names_is_one_that_the_gate_runs() {
    let (tests, mut named) = (tests(), 0);
    let gate = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/run")).unwrap();
    for cells in rows() {
        let id = &cells[1];
        for test in quoted(&cells[2]) {
            let files = tests.get(test);
            let files = files.unwrap_or_else(|| panic!("{id}: there is no test `{test}`, or it is ignored"));
            let runs = files.iter().any(|file| runs_in_the_gate(file, &gate));
            assert!(runs, "{id}: the gate does not run `{test}`, in {files:?}");
            named += 1;
        }
        // A remark may cut the name of a test short: `rw_13_…`.
        for remark in cells.iter().skip(3).flat_map(|cell| quoted(cell)) {
            if let Some(start) = remark.strip_suffix('…') {
                let found = tests.keys().any(|name| name.starts_with(start));
                assert!(found, "{id}: no test begins with `{start}`");
            }
        }
    }
    assert!(named > 150, "{named} tests named");
}

#[test]
fn every_row_of_the_requirements_is_in_the_table_once_with_a_test_or_a_remark() {
    let rows = rows();
    for (kind, count) in ROWS {
        for number in 1..=count {
            let id = format!("{kind}-{number:02}");
            let of_id: Vec<_> = rows.iter().filter(|cells| cells[1] == id).collect();
            let [cells] = of_id.as_slice() else {
                panic!("{id} is in the table {} times", of_id.len());
            };
            assert!(!cells[2].is_empty() || !cells[3].is_empty(), "{id} says nothing");
        }
        let beyond = rows
            .iter()
            .filter(|cells| cells[1].starts_with(&format!("{kind}-")))
            .count();
        assert_eq!(beyond, count, "rows of {kind} that the requirements do not have");
    }
}
