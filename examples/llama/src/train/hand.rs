//! What another hand might have written: an image moved a little, with a little noise.

use selvedge_examples::data::{PIXEL_MAX, PIXELS, SIDE};
use selvedge_examples::random::Random;

/// Half the width of the noise, in levels.
const NOISE: f32 = 3.0;

/// The image moved by at most a pixel, in levels from 0 to 16.
pub fn moved(image: &[u8], random: &mut Random) -> Vec<u8> {
    let (dx, dy) = (random.below(3), random.below(3));
    let pixel = |at: usize| {
        // One more than the source's coordinates, so that nothing is negative.
        let (x, y) = (at % SIDE + dx, at / SIDE + dy);
        let inside = (1..=SIDE).contains(&x) && (1..=SIDE).contains(&y);
        let pixel = inside.then(|| image.get((y - 1) * SIDE + x - 1)).flatten();
        pixel.copied().unwrap_or(0)
    };
    (0..PIXELS).map(pixel).collect()
}

/// The image with noise on every pixel.
pub fn noisy(image: &[u8], random: &mut Random) -> Vec<u8> {
    let max = f32::from(PIXEL_MAX);
    let pixel = |pixel: &u8| {
        (f32::from(*pixel) + NOISE * random.signed())
            .clamp(0.0, max)
            .round() as u8
    };
    image.iter().map(pixel).collect()
}
