//! A canvas for time lines in SVG: a row per lane, boxes on it, arrows between them. The caller decides their meaning.

use std::fmt::Write;

const LEFT: f64 = 150.0;
const WIDTH: f64 = 1000.0;
const ROW: f64 = 46.0;
const TOP: f64 = 34.0;

/// A palette that most readers can tell apart (Okabe and Ito). Each actor has one colour in turn.
const COLOURS: [&str; 7] = [
    "#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#0072b2", "#d55e00",
];

/// Escapes a text for XML. Characters that XML cannot represent are replaced.
fn escaped(text: &str) -> String {
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let text: String = text
        .chars()
        .map(|c| {
            if allowed(c) {
                c
            } else {
                char::REPLACEMENT_CHARACTER
            }
        })
        .collect();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// A point in time on a row.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) row: usize,
    pub(super) us: f64,
}

/// A picture under construction.
pub(super) struct Canvas {
    svg: String,
    /// Pixels per microsecond.
    scale: f64,
    height: f64,
}

fn y(row: usize) -> f64 {
    TOP + row as f64 * ROW
}

impl Canvas {
    /// Creates a canvas with one row per name and a width of `us` microseconds.
    pub(super) fn new(title: &str, rows: &[String], us: f64) -> Self {
        let (width, height) = (LEFT + WIDTH + 20.0, y(rows.len()) + 24.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<defs><marker id=\"tip\" viewBox=\"0 0 6 6\" refX=\"5\" refY=\"3\" markerWidth=\"6\" \
             markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#555\"/></marker></defs>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text x=\"10\" y=\"20\" font-weight=\"bold\">{}</text>\n",
            escaped(title)
        );
        for (row, name) in rows.iter().enumerate() {
            let (top, name) = (y(row), escaped(name));
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{}\" fill=\"#f4f4f4\"/>\
                 <text x=\"10\" y=\"{}\">{name}</text>",
                ROW - 8.0,
                top + 22.0
            );
        }
        Canvas {
            svg,
            scale: WIDTH / us.max(f64::MIN_POSITIVE),
            height,
        }
    }

    fn x(&self, us: f64) -> f64 {
        LEFT + us * self.scale
    }

    /// Draws a box from `from` to `until_us`. `colour` is an index into the palette, modulo its length. The hint is
    /// shown under the pointer.
    pub(super) fn work(&mut self, from: At, until_us: f64, colour: usize, label: &str, hint: &str) {
        let fill = COLOURS.get(colour % COLOURS.len()).copied().unwrap_or("#ccc");
        let (left, top) = (self.x(from.us), y(from.row));
        let wide = ((until_us - from.us) * self.scale).max(1.5);
        let _ = write!(
            self.svg,
            "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" \
             height=\"{}\" rx=\"2\" fill=\"{fill}\" stroke=\"#333\" stroke-width=\"0.5\"/>",
            escaped(hint),
            top + 2.0,
            ROW - 12.0
        );
        let room = (wide / 7.0) as usize;
        if room >= 3 {
            let short: String = label.chars().take(room).collect();
            let _ = write!(
                self.svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left + 3.0,
                top + 22.0,
                escaped(&short)
            );
        }
        self.svg.push_str("</g>\n");
    }

    /// Draws a thin bar for time without computation, or nothing if the bar would be too narrow to see.
    pub(super) fn waiting(&mut self, from: At, until_us: f64, fill: &str, hint: &str) {
        let wide = (until_us - from.us) * self.scale;
        if wide < 0.5 {
            return;
        }
        let _ = writeln!(
            self.svg,
            "<g><title>{}</title><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"6\" fill=\"{fill}\"/></g>",
            escaped(hint),
            self.x(from.us),
            y(from.row) + 16.0
        );
    }

    pub(super) fn arrow(&mut self, from: At, to: At) {
        let _ = writeln!(
            self.svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#555\" stroke-width=\"1\" \
             marker-end=\"url(#tip)\"/>",
            self.x(from.us),
            y(from.row) + 19.0,
            self.x(to.us),
            y(to.row) + 19.0
        );
    }

    /// Returns the picture, with a line of text under it.
    pub(super) fn finish(mut self, text: &str) -> String {
        let _ = writeln!(
            self.svg,
            "<text x=\"{LEFT}\" y=\"{}\">{}</text>\n</svg>",
            self.height - 8.0,
            escaped(text)
        );
        self.svg
    }
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn characters_that_xml_does_not_have_are_not_written() {
        assert_eq!(
            escaped("a\0\u{1}\u{1b}[1m<b>\u{ffff}\té"),
            "a\u{fffd}\u{fffd}\u{fffd}[1m&lt;b&gt;\u{fffd}\té"
        );
    }
}
