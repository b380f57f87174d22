//! Runs the program as a user does.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use std::process::{Command, Output};

use made::{CONFIG, Made};

/// Makes a model over 64 characters, with a tokenizer that has one token per character.
fn model(name: &str) -> Made {
    let made = Made::new(
        name,
        &CONFIG.replace("\"eos_token_id\": 2", "\"eos_token_id\": 99"),
    );
    let characters = ('a'..='z').chain('A'..='Z').chain('0'..='9').chain([' ', '.']);
    let vocabulary: serde_json::Map<String, serde_json::Value> = characters
        .enumerate()
        .map(|(token, character)| (character.to_string(), token.into()))
        .collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "added_tokens": [],
        "pre_tokenizer": {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": false},
        "post_processor": null, "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "."}
    });
    std::fs::write(made.path.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    made
}

fn llama(made: &Made, arguments: &[&str]) -> Output {
    prompted(made, "hello", arguments)
}

fn prompted(made: &Made, prompt: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llama"));
    command
        .env_remove("RAYON_NUM_THREADS")
        .arg("--model")
        .arg(&made.path);
    command
        .args(["--prompt", prompt])
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_text_is_the_same_however_the_model_is_cut_and_placed() {
    let made = model("program");
    let mut texts = Vec::new();
    for arguments in [
        &["--placement", "inline"][..],
        &["--placement", "thread", "--pipeline", "2", "--stats"],
        &["--pipeline", "2"],
        &["--pipeline", "2", "--tensor", "2"],
    ] {
        let output = llama(&made, &[arguments, &["--max-tokens", "24"]].concat());
        let (text, report) = said(&output);
        assert!(output.status.success(), "{report}");
        for line in ["tokens       24 in ", "first token  ", "stage 0"] {
            assert!(
                report.lines().any(|found| found.starts_with(line)),
                "{line}: {report}"
            );
        }
        texts.push(text);
    }
    assert_eq!(texts[0].trim_end().chars().count(), 24, "{texts:?}");
    assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
}

/// A single step for a long prompt takes unbounded time and memory, so the prompt is cut.
#[test]
fn a_long_prompt_goes_through_the_model_in_pieces() {
    let made = model("pieces");
    let prompt = "a long prompt ".repeat(20);
    let run = |arguments: &[&str]| {
        let (text, report) = said(&prompted(
            &made,
            &prompt,
            &[arguments, &["--max-tokens", "8"]].concat(),
        ));
        // The report leaves out the first step, which has the prompt, if there are others.
        let steps = report
            .lines()
            .find_map(|line| line.strip_prefix("stage 0")?.rsplit(' ').next());
        (text, steps.map(str::to_owned))
    };
    let (text, steps) = run(&["--placement", "thread", "--step-tokens", "280"]);
    assert_eq!((text.chars().count(), steps.as_deref()), (9, Some("7")));
    for (arguments, expected) in [
        (&["--placement", "thread"][..], "8"),
        (&["--placement", "thread", "--step-tokens", "40"], "13"),
        (&["--pipeline", "2", "--tensor", "2", "--step-tokens", "100"], "9"),
    ] {
        let (again, steps) = run(arguments);
        assert_eq!(
            (again, steps.as_deref()),
            (text.clone(), Some(expected)),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_seed_gives_its_text_again() {
    let made = model("seeds");
    let hot = |seed| {
        said(&llama(
            &made,
            &["--placement", "inline", "--temperature", "1.5", "--seed", seed],
        ))
        .0
    };
    assert_eq!(hot("1"), hot("1"));
    assert_ne!(hot("1"), hot("2"));
}

#[test]
fn mistakes_are_one_line_and_a_code() {
    let made = model("mistakes");
    let output = llama(&made, &["--tensor", "3"]);
    let (text, error) = said(&output);
    assert_eq!((output.status.code(), text.as_str()), (Some(1), ""));
    assert!(
        error.starts_with("error: `num_attention_heads` of ") && error.lines().count() == 1,
        "{error}"
    );
    for arguments in [
        ["--step-tokens", "0"],
        ["--temperature", "-1"],
        ["--top-p", "1.5"],
        ["--top-p", "NaN"],
    ] {
        assert_eq!(llama(&made, &arguments).status.code(), Some(2));
    }
    let (_, error) = said(&prompted(&made, &"a".repeat(321), &["--placement", "inline"]));
    assert_eq!(
        error,
        "error: the prompt has 321 tokens, the model has room for 320\n"
    );
}
