//! How an error prints where `main` returns it, or where somebody unwraps it: as people are to read it, with its sources.

use std::error::Error;
use std::fmt;

/// A chain longer than this is cut: a `source` that goes in a circle must not hang who prints it.
const SOURCES_MAX: usize = 16;

/// Writes an error's text, and below it those of its sources that it does not say itself.
///
/// # Errors
/// Those of the formatter.
#[doc(hidden)]
pub fn report(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut said = error.to_string();
    f.write_str(&said)?;
    let mut next = error.source();
    for _ in 0..SOURCES_MAX {
        let Some(source) = next else { break };
        let text = source.to_string();
        if !said.contains(&text) {
            write!(f, "\n  caused by: {text}")?;
            said.push_str(&text);
        }
        next = source.source();
    }
    Ok(())
}

/// Gives errors a `Debug` that is their report: what `main() -> Result` and `unwrap` print.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_is_report {
    ($($error:ty),+ $(,)?) => {$(
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::report(self, f)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    #[derive(thiserror::Error)]
    #[error("the outer{}", if *.names { format!(": {source}") } else { String::new() })]
    struct Outer {
        names: bool,
        source: Inner,
    }
    crate::debug_is_report!(Outer);

    #[derive(thiserror::Error)]
    #[error("the inner")]
    struct Inner;
    crate::debug_is_report!(Inner);

    #[test]
    fn each_source_is_told_once() {
        let told = |names| format!("{:?}", Outer { names, source: Inner });
        assert_eq!(told(false), "the outer\n  caused by: the inner");
        assert_eq!(told(true), "the outer: the inner");
    }
}
