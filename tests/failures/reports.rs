//! Errors that `main` returns print readably: `Debug` is the report of the error, with its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::actors::{self, counter};
use selvedge::prelude::*;

/// The environment variable that makes [`a_program`] fail.
const ENV_PROGRAM: &str = "SELVEDGE_TEST_REPORTS";

/// Ends like a `main` that returns a `Result`: the same trait of the standard library prints the error.
#[test]
fn a_program() -> Result<()> {
    let Ok(kind) = std::env::var(ENV_PROGRAM) else {
        return Ok(());
    };
    let runtime = Runtime::new();
    let a = counter(&runtime, "a", Placement::Thread);
    let graph = runtime.compile(|x: Edge<i64>| a.fail_if_negative(&x))?;
    match kind.as_str() {
        "execution" => drop(graph.run(-3)?),
        "refused" => drop(runtime.compile(|x: Edge<i64>| a.inc(&x))?),
        "batch" => {
            return Err(Box::new(selvedge::batching::BatchError::Failed(
                graph.run(-3).unwrap_err(),
            )));
        }
        "call" => {
            drop(graph);
            a.call().fail_if_negative(-3).wait()?;
        }
        "spawn" => drop(
            runtime
                .spawn::<actors::Counter>("b", (0,))
                .env("A=B", "")
                .in_process()?,
        ),
        other => panic!("{other}"),
    }
    Ok(())
}

#[test]
fn what_main_returns_is_printed_as_a_text_and_not_as_a_structure() {
    for (kind, begin) in [
        ("execution", "Error: `a.fail_if_negative` (actor `a`, thread"),
        ("refused", "Error: error[D0105]"),
        ("batch", "Error: `a.fail_if_negative` (actor `a`, thread"),
        ("call", "Error: `a.fail_if_negative` failed: -3 is negative"),
        ("spawn", "Error: environment variable `A=B`"),
    ] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "reports::a_program", "--nocapture", "--test-threads=1"])
            .env(ENV_PROGRAM, kind)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{kind}");
        assert!(printed.contains(begin), "{kind}: {printed}");
        assert!(
            printed.matches("-3 is negative").count() <= 1,
            "{kind}: said twice: {printed}"
        );
        assert!(!printed.contains(" { "), "{kind}: {printed}");
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The public errors in the text of a file: types that derive `Error`, and types with an `impl` of `Error`.
fn errors(text: &str) -> Vec<String> {
    let name = |rest: &str| -> String {
        rest.chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
            .collect()
    };
    let public = |keyword: &str, text: &str| {
        text.find(keyword)
            .map(|at| (at, name(&text[at + keyword.len()..])))
    };
    let derived = text.split("#[derive(").skip(1).filter_map(|item| {
        let (derives, rest) = item.split_once(")]")?;
        if !derives
            .split(", ")
            .any(|derive| derive == "Error" || derive == "thiserror::Error")
        {
            return None;
        }
        // The keyword that comes first begins the item. An item that is not public has neither keyword before its end.
        let body = rest.find("\n}").unwrap_or(rest.len());
        let item = &rest[..body];
        let found = [public("\npub enum ", item), public("\npub struct ", item)];
        found.into_iter().flatten().min().map(|(_, name)| name)
    });
    let written = text.match_indices("Error for ").filter_map(|(at, matched)| {
        let line = text[..at].rfind('\n').map_or(0, |begin| begin + 1);
        text[line..]
            .starts_with("impl")
            .then(|| name(&text[at + matched.len()..]))
    });
    let public = |error: &String| {
        ["\npub enum ", "\npub struct "].iter().any(|keyword| {
            let mut declared = text
                .match_indices(keyword)
                .map(|(at, _)| name(&text[at + keyword.len()..]));
            declared.any(|declared| declared == *error)
        })
    };
    derived.chain(written).filter(public).collect()
}

#[test]
fn every_public_error_prints_as_its_report() {
    let mut files = Vec::new();
    for member in [
        "channels",
        "collectives",
        "actor-core",
        "dag-compiler",
        "batching",
    ] {
        sources(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join(member).join("src"),
            &mut files,
        );
    }
    let mut checked = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for error in errors(&text) {
            let reported = text.contains(&format!("debug_is_report!({error})"))
                // An error that holds the refused value prints as the error inside it.
                || text.contains(&format!("fmt::Debug for {error}<"));
            assert!(
                reported,
                "{}: `Debug` of {error} is not its report",
                file.display()
            );
            checked += 1;
        }
    }
    assert!(checked >= 28, "{checked} errors found");
}
