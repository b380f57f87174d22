//! Tests that this machine cannot run say so where the gate sees it.

use std::path::Path;

use crate::conformance::sources;

/// The harness keeps what the macros print in a test that passes, so whoever leaves something out writes to standard error itself.
#[test]
fn what_a_test_leaves_out_is_printed_past_the_capture_of_the_harness() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(root, &mut files);
    let mut written = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut rest = text.as_str();
        while let Some((before, behind)) = rest.split_once("left out: ") {
            let begun = before.trim_end_matches("\\n").trim_end_matches('"').trim_end();
            let kept = ["println!(", "print!("].iter().any(|name| begun.ends_with(name));
            assert!(
                !kept,
                "{}: prints by a macro: left out: {behind:.60}",
                file.display()
            );
            written += usize::from(before.ends_with("\"\\n"));
            rest = behind;
        }
    }
    assert!(written >= 10, "{written} places say what is left out");
}
