//! The text of errors that `main` returns or `unwrap` prints: the error's message and its sources.

use std::error::Error;
use std::fmt;

/// The number of sources at which a chain is cut: a cycle of sources must not make the formatter loop forever.
const SOURCES_MAX: usize = 16;

/// Writes the text of an error, and below it the texts of the sources that it does not contain already.
///
/// # Errors
/// The errors of the formatter.
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

/// Implements `Debug` for error types as their report, which `main() -> Result` and `unwrap` print.
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
    struct OuterError {
        names: bool,
        source: InnerError,
    }
    crate::debug_is_report!(OuterError);

    #[derive(thiserror::Error)]
    #[error("the inner")]
    struct InnerError;
    crate::debug_is_report!(InnerError);

    #[test]
    fn each_source_is_told_once() {
        let told = |names| {
            format!(
                "{:?}",
                OuterError {
                    names,
                    source: InnerError
                }
            )
        };
        assert_eq!(told(false), "the outer\n  caused by: the inner");
        assert_eq!(told(true), "the outer: the inner");
    }
}
