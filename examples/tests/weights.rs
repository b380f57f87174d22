//! Tests of the shipped weights without any graph, and of the errors of files that do not fit.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use selvedge_examples::data::{Digits, PIXELS};
use selvedge_examples::model::{Mlp, PartOfAnImage, accuracy, classes};
use selvedge_examples::weights::{LAYERS, WeightsError, shipped_weights};
use sha2::{Digest, Sha256};

/// A tensor as in the file.
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Stored {
    fn view<'s>((name, stored): (&'s String, &'s Stored)) -> (&'s String, TensorView<'s>) {
        let view = TensorView::new(stored.dtype, stored.shape.clone(), &stored.bytes);
        (name, view.unwrap())
    }
}

/// A file that is removed at the end of its test.
struct File(PathBuf);

impl File {
    fn new(test: &str, bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("selvedge-{}-{test}.safetensors", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        File(path)
    }

    fn of(test: &str, tensors: &HashMap<String, Stored>) -> File {
        let bytes = safetensors::serialize(tensors.iter().map(Stored::view), None);
        File::new(test, &bytes.unwrap())
    }

    fn error(&self) -> WeightsError {
        Mlp::load(&self.0).unwrap_err()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn shipped() -> HashMap<String, Stored> {
    let bytes = std::fs::read(shipped_weights()).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let stored = |(name, view): (&str, TensorView<'_>)| {
        let stored = Stored {
            dtype: view.dtype(),
            shape: view.shape().to_vec(),
            bytes: view.data().to_vec(),
        };
        (name.to_owned(), stored)
    };
    file.iter().map(stored).collect()
}

#[test]
fn the_shipped_weights_recognise_92_of_100_held_out_digits() {
    let (model, digits) = (Mlp::load(&shipped_weights()).unwrap(), Digits::load().unwrap());
    let reached = accuracy(&model, &digits, digits.held_out()).unwrap();
    assert!(reached >= 0.92, "accuracy {reached}");
}

#[test]
fn the_page_beside_the_weights_gives_their_digest() {
    let digest = format!("{:x}", Sha256::digest(std::fs::read(shipped_weights()).unwrap()));
    let page = std::fs::read_to_string(shipped_weights().with_file_name("README.md")).unwrap();
    assert!(page.contains(&digest), "{digest} is not in data/README.md");
}

#[test]
fn a_missing_file_is_named() {
    let path = Path::new("/nowhere/digits.safetensors");
    let error = Mlp::load(path).unwrap_err();
    assert!(matches!(&error, WeightsError::Unreadable { path: at, .. } if at == path));
    assert_eq!(
        error.to_string(),
        "cannot read the weights /nowhere/digits.safetensors: No such file or directory (os error 2)"
    );
}

#[test]
fn a_file_that_is_not_safetensors_or_cut_off_is_broken() {
    let whole = std::fs::read(shipped_weights()).unwrap();
    // An empty file, text, a header longer than the file, half a file, one byte too few, one byte too many.
    let long = [u64::MAX.to_le_bytes().as_slice(), b"{}"].concat();
    let extra = [whole.as_slice(), b"x"].concat();
    let cut = [&whole[..whole.len() / 2], &whole[..whole.len() - 1]];
    for bytes in [b"".as_slice(), b"weights, honest", &long, cut[0], cut[1], &extra] {
        let error = File::new("broken", bytes).error();
        assert!(
            matches!(error, WeightsError::Broken { .. }),
            "{} bytes: {error}",
            bytes.len()
        );
        assert!(error.to_string().contains("is not a whole safetensors file"));
    }
}

#[test]
fn a_missing_tensor_comes_with_the_nearest_names() {
    let mut tensors = shipped();
    let bias = tensors.remove("fc3.bias").unwrap();
    tensors.insert("fc3.bais".into(), bias);
    let error = File::of("missing", &tensors).error();
    let WeightsError::Missing { name, nearest, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (*name, nearest.as_slice()),
        (
            "fc3.bias",
            ["fc3.bais", "fc1.bias", "fc2.bias"].map(String::from).as_slice()
        )
    );
    let text = error.to_string();
    assert!(
        text.ends_with("has no tensor `fc3.bias`; the nearest names are `fc3.bais`, `fc1.bias`, `fc2.bias`"),
        "{text}"
    );
}

#[test]
fn a_file_without_tensors_has_none_to_propose() {
    let error = File::of("empty", &HashMap::new()).error();
    assert!(
        matches!(&error, WeightsError::Missing { name: "fc1.weight", nearest, .. } if nearest.is_empty())
    );
    assert!(
        error
            .to_string()
            .ends_with("has no tensor `fc1.weight`; it has none at all")
    );
}

#[test]
fn another_shape_is_shown_beside_the_expected_one() {
    for (shape, text) in [(vec![128, 64], "[128, 64]"), (vec![8192], "[8192]")] {
        let mut tensors = shipped();
        tensors.get_mut("fc2.weight").unwrap().shape.clone_from(&shape);
        let error = File::of("shape", &tensors).error();
        assert!(
            matches!(&error, WeightsError::Shape { name: "fc2.weight", expected: [64, 128], found, .. } if *found == shape)
        );
        let end = format!("has the shape {text}, expected [64, 128]");
        assert!(error.to_string().ends_with(&end), "{error}");
    }
}

#[test]
fn numbers_of_double_width_are_converted_and_others_are_refused() {
    let mut tensors = shipped();
    for stored in tensors.values_mut() {
        let (numbers, _) = stored.bytes.as_chunks();
        let wide = numbers.iter().map(|it| f64::from(f32::from_le_bytes(*it)));
        stored.bytes = wide.flat_map(f64::to_le_bytes).collect();
        stored.dtype = Dtype::F64;
    }
    let file = File::of("f64", &tensors);
    let (model, digits) = (Mlp::load(&file.0).unwrap(), Digits::load().unwrap());
    assert!(accuracy(&model, &digits, digits.held_out()).unwrap() >= 0.92);
    for stored in tensors.values_mut() {
        stored.dtype = Dtype::I64;
    }
    let error = File::of("i64", &tensors).error();
    assert!(matches!(
        &error,
        WeightsError::Numbers {
            name: "fc1.weight",
            found: Dtype::I64,
            ..
        }
    ));
    let end = "has numbers of the type I64, expected F32 or F64";
    assert!(error.to_string().ends_with(end), "{error}");
}

#[test]
fn the_layers_fit_onto_each_other() {
    let mut width = PIXELS;
    for (weight, bias) in LAYERS {
        assert_eq!(weight.shape, [bias.shape[0], width]);
        width = bias.shape[0];
    }
    assert_eq!(width, 10);
}

#[test]
fn pixels_that_are_no_whole_image_are_an_error_and_none_are_none() {
    let model = Mlp::load(&shipped_weights()).unwrap();
    assert_eq!(model.logits(&[0.0; 65]), Err(PartOfAnImage { pixels: 65 }));
    assert_eq!(model.logits(&[]).unwrap(), Vec::<f32>::new());
    assert_eq!(model.logits(&[0.0; 2 * PIXELS]).unwrap().len(), 20);
}

#[test]
fn the_first_of_equal_logits_wins() {
    let mut logits = vec![0.0; 20];
    logits[3] = 1.0;
    logits[7] = 1.0;
    assert_eq!(classes(&logits), [3, 0]);
}
