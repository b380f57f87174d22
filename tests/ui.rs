//! Programs that must not compile, each with the message that the user sees. `TRYBUILD=overwrite cargo test --test ui`
//! refreshes the messages; a person reads the difference.
#![allow(missing_docs, clippy::unwrap_used)]

#[test]
fn dag_24_what_the_types_refuse() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}

#[test]
fn each_refusal_is_one_error_of_at_most_25_lines() {
    for entry in std::fs::read_dir("tests/ui").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "stderr") {
            continue;
        }
        let message = std::fs::read_to_string(&path).unwrap();
        let errors = message.lines().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, 1, "{}", path.display());
        let lines = message.lines().count();
        assert!(lines <= 25, "{}: {lines} lines", path.display());
    }
}
