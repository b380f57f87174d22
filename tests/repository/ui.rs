//! Programs that must not compile, each with the message that the user sees.
//! `BLESS=1 cargo test --test repository ui` writes the messages anew; a person reads the difference.
//!
//! rustc compiles each program against the library that the tests were built with, so nothing is built for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The compiled library of this package. Cargo has built it for this very test, and tells where.
fn library() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let built = Command::new(env!("CARGO"))
        .args([
            "test",
            "--no-run",
            "--quiet",
            "--test",
            "repository",
            "--features",
            "parallel",
        ])
        .args(["--message-format", "json", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let messages = String::from_utf8_lossy(&built.stdout).into_owned();
    let artifacts = messages
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut files = artifacts
        .filter(|message| message["target"]["name"] == "selvedge" && message["target"]["kind"][0] == "lib")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from));
    files
        .find(|file| file.extension().is_some_and(|it| it == "rlib"))
        .unwrap()
}

/// What rustc says about a program that it must refuse.
fn refusal(program: &str, library: &Path) -> String {
    let dependencies = library.parent().unwrap();
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(rustc)
        .args(["--edition", "2024", "--emit", "metadata", "-A", "dead_code"])
        .arg("--extern")
        .arg(format!("selvedge={}", library.display()))
        .arg("-L")
        .arg(format!("dependency={}", dependencies.display()))
        .arg("--out-dir")
        .arg(env!("CARGO_TARGET_TMPDIR"))
        .arg(program)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(!compiled.status.success(), "{program} compiles");
    normal(&String::from_utf8(compiled.stderr).unwrap())
}

/// The message without its last lines, which say that there was an error, and without what other changes move: how wide
/// the numbers of lines are, the lines of the library, and how many types are not listed.
fn normal(message: &str) -> String {
    let (mut normal, mut width, mut of_the_program) = (String::new(), 0, true);
    for line in message
        .lines()
        .take_while(|line| !line.starts_with("error: aborting"))
    {
        let mut line = line.to_owned();
        if line.starts_with(char::is_alphabetic) {
            of_the_program = true;
            // Notes and hints have the width of their error.
            width *= usize::from(line.starts_with("note") || line.starts_with("help"));
        }
        if let Some((margin, place)) = line
            .split_once("--> ")
            .filter(|(margin, _)| margin.trim().is_empty())
        {
            (width, of_the_program) = (margin.len(), place.starts_with("tests/ui/"));
            if !of_the_program {
                line.truncate(line.find(".rs:").unwrap() + ".rs".len());
            }
        }
        let margin = line.get(..width).unwrap_or_default().trim();
        if width > 0 && line.len() > width && margin.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = if of_the_program { margin } else { "" };
            line = format!("{number:>2}{}", &line[width..]);
        }
        if line.trim_start().starts_with("and ") && line.ends_with(" others") {
            line = line
                .replace(|c: char| c.is_ascii_digit(), "")
                .replace("and ", "and some");
        }
        normal += line.trim_end();
        normal.push('\n');
    }
    normal.truncate(normal.trim_end().len());
    normal + "\n"
}

#[test]
fn dag_24_what_the_types_refuse() {
    let library = library();
    let mut wrong = Vec::new();
    let mut programs: Vec<PathBuf> = fs::read_dir("tests/ui")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    programs.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    programs.sort();
    for program in programs {
        let said = refusal(program.to_str().unwrap(), &library);
        let file = program.with_extension("stderr");
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if said == expected {
            continue;
        }
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, said).unwrap();
        } else {
            wrong.push(format!(
                "{}: rustc says\n{said}\ninstead of\n{expected}",
                program.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_refusal_is_one_error_of_at_most_25_lines() {
    for entry in fs::read_dir("tests/ui").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "stderr") {
            continue;
        }
        let message = fs::read_to_string(&path).unwrap();
        let errors = message.lines().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, 1, "{}", path.display());
        let lines = message.lines().count();
        assert!(lines <= 25, "{}: {lines} lines", path.display());
    }
}
