//! The answer of a program to a flag, after which the program ends.

use std::io::{ErrorKind, Write};

/// Writes the answer to standard output, or the error to standard error. Returns the exit code.
#[must_use]
pub fn answer(found: Result<String, String>) -> i32 {
    let written = found.and_then(|text| written(std::io::stdout(), &text));
    match written {
        Ok(()) => 0,
        Err(error) => {
            // If standard error cannot be written, the exit code still reports the error.
            let _ = writeln!(std::io::stderr(), "{error}");
            1
        }
    }
}

/// Writes to standard output, `out`. Output that the program printed before must come first, so the text goes through the same buffer. The
/// reader of a closed pipe has read enough; any other failure, such as a full disk, has lost what somebody needs.
fn written(mut out: impl Write, text: &str) -> Result<(), String> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output takes no more: {error}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output whose every write fails in this way.
    struct Fails(ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_text_that_a_full_disk_does_not_take_is_an_error_and_a_closed_pipe_is_none() {
        let lost = written(Fails(ErrorKind::StorageFull), "text").unwrap_err();
        assert!(lost.contains("takes no more"), "{lost}");
        assert_eq!(written(Fails(ErrorKind::BrokenPipe), "text"), Ok(()));
    }
}
