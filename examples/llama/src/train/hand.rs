//! Variations of handwriting: an image is moved, slanted, rotated and stretched a little, with a little noise.

use selvedge_examples::data::{PIXEL_MAX, PIXELS, SIDE};
use selvedge_examples::random::Random;

/// Half of the width of the noise, in levels.
const NOISE: f32 = 3.0;
/// The largest stretch, slant or rotation of a side, per unit of length.
const BEND: f32 = 0.12;

/// Returns the image moved by at most a pixel, slanted, rotated and stretched, with noise on every pixel.
pub fn rewritten(image: &[u8], random: &mut Random) -> Vec<u8> {
    let (dx, dy) = (random.signed(), random.signed());
    let [xx, xy, yx, yy] = [0; 4].map(|_| BEND * random.signed());
    let middle = (SIDE - 1) as f32 / 2.0;
    let pixel = |at: usize| {
        let (x, y) = ((at % SIDE) as f32, (at / SIDE) as f32);
        let (left, up) = (x - middle, y - middle);
        sample(image, x + dx + xx * left + xy * up, y + dy + yx * left + yy * up)
    };
    (0..PIXELS)
        .map(|at| level(pixel(at) + NOISE * random.signed()))
        .collect()
}

/// Samples the image between its pixels: the mean of the four around the point, weighted by nearness; paper outside.
fn sample(image: &[u8], x: f32, y: f32) -> f32 {
    let (column, row) = (x.floor(), y.floor());
    let (right, below) = (x - column, y - row);
    let pixel = |column: f32, row: f32| {
        let inside = 0.0..SIDE as f32;
        let found = inside.contains(&column) && inside.contains(&row);
        let pixel = found
            .then(|| image.get(row as usize * SIDE + column as usize))
            .flatten();
        pixel.map_or(0.0, |pixel| f32::from(*pixel))
    };
    let line = |row: f32| pixel(column, row) * (1.0 - right) + pixel(column + 1.0, row) * right;
    line(row) * (1.0 - below) + line(row + 1.0) * below
}

fn level(value: f32) -> u8 {
    value.clamp(0.0, f32::from(PIXEL_MAX)).round() as u8
}

#[cfg(test)]
mod tests {
    use super::rewritten;
    use selvedge_examples::data::PIXELS;
    use selvedge_examples::random::Random;

    #[test]
    fn what_is_rewritten_stays_an_image_much_like_it() {
        let image: Vec<u8> = (0..PIXELS)
            .map(|at| if (2..6).contains(&(at % 8)) { 16 } else { 0 })
            .collect();
        let mut random = Random::new(2);
        for _ in 0..200 {
            let again = rewritten(&image, &mut random);
            assert!(again.len() == PIXELS && again.iter().all(|pixel| *pixel <= 16));
            // The two middle columns of the ink stay ink after every movement.
            let middle: Vec<&[u8]> = again.chunks(8).skip(2).take(4).collect();
            let dark = middle.iter().filter(|row| row[3] >= 8 && row[4] >= 8);
            assert_eq!(dark.count(), 4, "{again:?}");
        }
    }
}
