//! Lines of another program's output.

use super::printable::printable;

/// The bytes of a line. The rest of a longer line comes as further lines, each marked as a continuation.
pub const LINE_BYTES_MAX: usize = 4096;

/// One line of output, or a piece of a long one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// The text without its end of line. Bytes that are no UTF-8 are replaced, and control characters written out.
    pub text: String,
    /// Whether the text continues the line before.
    pub is_continuation: bool,
}

/// Bytes on their way to lines. The bytes may be anything, and come in pieces of any length; at most
/// [`LINE_BYTES_MAX`] + 1 of them are held.
#[derive(Debug, Default)]
pub struct Lines {
    held: Vec<u8>,
    is_continuation: bool,
}

impl Lines {
    /// Takes bytes from `input` until a line is complete or the input is empty.
    pub fn receive(&mut self, input: &mut &[u8]) -> Option<OutputLine> {
        let bytes = *input;
        let room = (LINE_BYTES_MAX + 1).saturating_sub(self.held.len());
        let (within, _) = bytes.split_at(room.min(bytes.len()));
        let end = within.iter().position(|byte| *byte == b'\n');
        let (taken, rest) = bytes.split_at(end.unwrap_or(within.len()));
        self.held.extend_from_slice(taken);
        *input = rest;
        if end.is_some() {
            input.split_off_first();
            return Some(self.end_line());
        }
        (self.held.len() > LINE_BYTES_MAX).then(|| self.cut())
    }

    /// The last line, if the output has ended in the middle of one.
    pub fn finish(&mut self) -> Option<OutputLine> {
        (!self.held.is_empty()).then(|| self.end_line())
    }

    fn end_line(&mut self) -> OutputLine {
        let bytes = std::mem::take(&mut self.held);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(&bytes);
        line(bytes, std::mem::replace(&mut self.is_continuation, false))
    }

    /// Cuts a long line between two characters.
    fn cut(&mut self) -> OutputLine {
        let (full, _) = self.held.split_at(LINE_BYTES_MAX.min(self.held.len()));
        let rest = self.held.split_off(full.len() - unfinished(full));
        let piece = std::mem::replace(&mut self.held, rest);
        line(&piece, std::mem::replace(&mut self.is_continuation, true))
    }
}

/// The number of bytes at the end that begin a character and do not end it; at most 3.
fn unfinished(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last();
    let invalid = last.map_or(&[][..], |chunk| chunk.invalid());
    match std::str::from_utf8(invalid) {
        Err(error) if error.error_len().is_none() => invalid.len(),
        _ => 0,
    }
}

fn line(bytes: &[u8], is_continuation: bool) -> OutputLine {
    OutputLine {
        text: printable(&String::from_utf8_lossy(bytes)),
        is_continuation,
    }
}
