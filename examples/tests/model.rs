//! The shipped weights, and what is said about weights that do not fit.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::path::PathBuf;

use candle_core::{Device, Tensor};
use selvedge_examples::data::{Digits, PIXELS, TRAINING_ROWS};
use selvedge_examples::model::{Mlp, ModelError, WEIGHTS, classes, shipped_weights};

#[test]
fn the_shipped_weights_recognise_the_held_out_rows() {
    let digits = Digits::load().unwrap();
    assert_eq!((digits.rows(), digits.rows() - TRAINING_ROWS), (1797, 359));
    let pixels: Vec<f32> = (TRAINING_ROWS..digits.rows())
        .flat_map(|row| digits.image(row))
        .map(|pixel| f32::from(*pixel) / 16.0)
        .collect();
    let images = Tensor::from_vec(pixels, (359, PIXELS), &Device::Cpu).unwrap();
    let found = classes(&Mlp::load(&shipped_weights()).unwrap().forward(&images).unwrap()).unwrap();
    let right = found
        .iter()
        .zip(&digits.labels[TRAINING_ROWS..])
        .filter(|(found, label)| found == label)
        .count();
    assert!(right as f64 / 359.0 >= 0.92, "{right} of 359");
}

fn written(name: &str, tensors: HashMap<String, Tensor>) -> PathBuf {
    let path = std::env::temp_dir().join(format!("selvedge-{}-{name}.safetensors", std::process::id()));
    candle_core::safetensors::save(&tensors, &path).unwrap();
    path
}

#[test]
fn weights_that_do_not_fit_are_refused_with_what_was_found() {
    let mut tensors = candle_core::safetensors::load(shipped_weights(), &Device::Cpu).unwrap();
    let bias = tensors.remove("fc3.bias").unwrap();
    let path = written("missing", tensors.clone());
    let error = Mlp::load(&path).unwrap_err();
    assert!(
        matches!(&error, ModelError::Missing { name: "fc3.bias", found, .. } if found.len() == WEIGHTS.len() - 1),
        "{error}"
    );
    tensors.insert("fc3.bias".into(), bias.reshape((1, 10)).unwrap());
    let wrong = written("shape", tensors);
    let error = Mlp::load(&wrong).unwrap_err();
    assert!(
        matches!(&error, ModelError::Shape { name: "fc3.bias", found, .. } if *found == [1, 10]),
        "{error}"
    );
    std::fs::write(&path, b"not safetensors").unwrap();
    assert!(matches!(Mlp::load(&path), Err(ModelError::Unreadable { .. })));
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&wrong).unwrap();
    assert!(
        matches!(Mlp::load(&path), Err(ModelError::Unreadable { .. })),
        "a missing file"
    );
}
