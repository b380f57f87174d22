//! Texts at which an answer ends. They are not part of the answer, so text that may become a stop text is held back.

/// Searches a growing text for the earliest of several stop texts.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    stops: Vec<String>,
    held: String,
}

/// The result of adding text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Text that is certainly not part of a stop.
    Text(String),
    /// The text before a stop, which was found.
    Stop(String),
}

impl Stops {
    /// Creates a search for these texts; empty ones never match.
    pub fn new(stops: Vec<String>) -> Stops {
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        Stops {
            stops,
            held: String::new(),
        }
    }

    /// Adds text.
    pub fn push(&mut self, text: &str) -> Heard {
        self.held.push_str(text);
        let found = self
            .stops
            .iter()
            .filter_map(|stop| self.held.find(stop.as_str()))
            .min();
        if let Some(at) = found {
            self.held.truncate(at);
            return Heard::Stop(std::mem::take(&mut self.held));
        }
        let free = self.held.len() - self.pending();
        let rest = self.held.split_off(free);
        Heard::Text(std::mem::replace(&mut self.held, rest))
    }

    /// Returns the text held back, when no more text follows.
    pub fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Returns the length of the longest suffix of the held text that begins a stop.
    fn pending(&self) -> usize {
        let begins = |end: &str| self.stops.iter().any(|stop| stop.starts_with(end));
        let ends = self.held.char_indices().filter_map(|(at, _)| self.held.get(at..));
        ends.filter(|end| begins(end)).map(str::len).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut stops = Stops::new(stops.iter().map(|it| (*it).to_owned()).collect());
        let mut all = String::new();
        for piece in pieces {
            match stops.push(piece) {
                Heard::Text(text) => all.push_str(&text),
                Heard::Stop(text) => return (all + &text, true),
            }
        }
        (all + &stops.finish(), false)
    }

    #[test]
    fn a_stop_is_found_across_pieces_and_is_no_part_of_the_text() {
        assert_eq!(said(&["END"], &["abE", "N", "Dcd"]), ("ab".into(), true));
        assert_eq!(said(&["END", "b"], &["abEND"]), ("a".into(), true));
    }

    #[test]
    fn what_only_begins_like_a_stop_is_said_in_the_end() {
        assert_eq!(said(&["END"], &["abE", "N"]), ("abEN".into(), false));
        assert_eq!(said(&["äöü"], &["xä", "öy"]), ("xäöy".into(), false));
        assert_eq!(said(&["", "aab"], &["aaa", "b"]), ("a".into(), true));
    }
}
