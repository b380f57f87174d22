//! The losses as a picture: two lines over the steps, as SVG.

use std::fmt::Write;

use super::course::Losses;

const WIDTH: f32 = 720.0;
const HEIGHT: f32 = 320.0;
/// The space for the numbers beside the axes.
const MARGIN: f32 = 44.0;
/// The most points of a line; a point is the mean of the steps around it.
const POINTS: usize = 180;

/// Draws the losses of a course.
pub fn svg(losses: &[Losses]) -> String {
    let lines = [
        (
            "drawing, for each token",
            "#1f6f8b",
            smooth(losses.iter().map(|it| it.draw).collect()),
        ),
        (
            "reading, for each token",
            "#c8553d",
            smooth(losses.iter().map(|it| it.read).collect()),
        ),
    ];
    let top = lines
        .iter()
        .flat_map(|(_, _, points)| points)
        .copied()
        .fold(0.5, f32::max);
    // Rounded up to a multiple of one half, so that the numbers beside the axis are round.
    let top = (top * 2.0).ceil() / 2.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    axes(&mut svg, top, losses.len());
    for (index, (name, colour, points)) in lines.iter().enumerate() {
        let last = points.len().saturating_sub(1).max(1) as f32;
        let place = |(at, loss): (usize, &f32)| {
            let (x, y) = (across(at as f32 / last), down(loss / top));
            format!("{x:.1},{y:.1}")
        };
        let places: Vec<String> = points.iter().enumerate().map(place).collect();
        let (x, y) = (WIDTH - MARGIN, MARGIN + 16.0 * index as f32);
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n\
             <text x=\"{x}\" y=\"{y}\" fill=\"{colour}\" text-anchor=\"end\">{name}</text>",
            places.join(" ")
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn across(share: f32) -> f32 {
    MARGIN + share * (WIDTH - 2.0 * MARGIN)
}

fn down(share: f32) -> f32 {
    HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN)
}

fn axes(svg: &mut String, top: f32, steps: usize) {
    for quarter in 0..=4 {
        let share = quarter as f32 / 4.0;
        let (x, y) = (across(share), down(share));
        let _ = writeln!(
            svg,
            "<path d=\"M{MARGIN} {y}H{}\" stroke=\"#ddd\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\">{:.2}</text>\n\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            y + 4.0,
            top * share,
            HEIGHT - MARGIN + 18.0,
            steps * quarter / 4,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN}\" y=\"{}\">loss in nats over steps</text>",
        MARGIN - 16.0
    );
}

/// Returns at most [`POINTS`] means of neighbouring steps.
fn smooth(losses: Vec<f32>) -> Vec<f32> {
    let width = losses.len().div_ceil(POINTS).max(1);
    losses
        .chunks(width)
        .map(|chunk| chunk.iter().sum::<f32>() / chunk.len() as f32)
        .collect()
}
