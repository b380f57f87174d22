//! `/v1/classify`: the handwritten digit in an image, recognised by the perceptron of the examples, in batches of many
//! clients.
#![allow(unreachable_pub)] // an actor's operations are its public methods

use std::path::PathBuf;

use selvedge::prelude::*;
use selvedge_examples::data::{CLASSES, PIXEL_MAX, PIXELS, scaled};
use selvedge_examples::model::Mlp;
use selvedge_examples::weights::WeightsError;
use serde_json::{Value, json};

use crate::error::Error;
use crate::fields::{Fields, wrong};
use crate::supervise::{Actors, Built};

const PARAM: &str = "image";

/// The name of the model.
pub const MODEL: &str = "digits";

/// Pixels from 0 to 1, row by row.
pub type Image = Vec<f32>;
/// A probability for each class.
pub type Scores = Vec<f32>;

/// The actor that classifies images.
pub struct Classifier(Mlp);

#[actor]
impl Classifier {
    /// Loads the weights.
    pub fn new(weights: PathBuf) -> Result<Self, WeightsError> {
        Mlp::load(&weights).map(Classifier)
    }

    /// Returns the scores of each image.
    pub fn classify(&mut self, images: &[Image]) -> Result<Vec<Scores>> {
        let logits = self.0.logits(&images.concat())?;
        Ok(logits.chunks_exact(CLASSES).map(softmax).collect())
    }
}

fn softmax(logits: &[f32]) -> Scores {
    let most = logits.iter().copied().fold(f32::MIN, f32::max);
    let weights: Vec<f32> = logits.iter().map(|logit| (logit - most).exp()).collect();
    let sum: f32 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

/// Builds the graph: one actor, in a thread of this process.
///
/// # Errors
/// The errors of the weights, the actor and the graph.
pub fn build(runtime: &Runtime, weights: PathBuf) -> Result<Built<Vec<Image>, Vec<Scores>>> {
    let classifier = runtime
        .spawn::<Classifier>("classifier", (weights,))
        .in_thread()?;
    let actors = Actors(vec![classifier.actor().clone()]);
    let options = Options::new().named("digits").max_inflight(2);
    let graph = runtime.compile_with(options, |images: Edge<Vec<Image>>| classifier.classify(&images))?;
    Ok(Built { graph, actors })
}

/// Reads the image of a request.
///
/// # Errors
/// [`Error::Field`] if the image is not 64 pixels from 0 to 16.
pub fn image(fields: &Fields) -> Result<Image, Error> {
    let pixels = match fields.get(PARAM) {
        None => return Err(Error::field(PARAM, "is missing")),
        Some(Value::Array(pixels)) => pixels,
        Some(other) => return Err(wrong(PARAM, "an array of pixels", other)),
    };
    if pixels.len() != PIXELS {
        return Err(Error::field(
            PARAM,
            format!("has {} pixels; it must have {PIXELS}", pixels.len()),
        ));
    }
    let pixel = |value: &Value| {
        let level = value.as_u64().filter(|level| *level <= u64::from(PIXEL_MAX));
        let problem = || {
            Error::field(
                PARAM,
                format!("has the pixel {value}; pixels are whole numbers from 0 to {PIXEL_MAX}"),
            )
        };
        level.map(|level| scaled(level as u8)).ok_or_else(problem)
    };
    pixels.iter().map(pixel).collect()
}

/// Returns the JSON object of the answer.
pub fn object(scores: &[f32]) -> Value {
    let ahead = |best: (usize, f32), next: (usize, f32)| if next.1 > best.1 { next } else { best };
    let (label, _) = scores.iter().copied().enumerate().fold((0, f32::MIN), ahead);
    json!({"object": "classification", "model": MODEL, "label": label, "probabilities": scores})
}
