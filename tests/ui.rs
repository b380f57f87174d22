//! Programs that must not compile, each with the message that the user sees. `TRYBUILD=overwrite cargo test --test ui`
//! refreshes the messages; a person reads the difference.
#![allow(missing_docs)]

#[test]
fn dag_24_what_the_types_refuse() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
