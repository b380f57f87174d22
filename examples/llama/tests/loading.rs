//! A mistake in a folder is reported once, by name; and every rank reads only its own slice.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)] // a test that cannot set up has failed

mod made;

use std::fs;

use made::{CONFIG, Made, Tensors, bytes, tensors};
use safetensors::tensor::Dtype;
use selvedge::prelude::*;
use selvedge_llama::config::Config;
use selvedge_llama::deployment::{Deployment, Layout};
use selvedge_llama::error::LoadError;
use selvedge_llama::folder::Folder;
use selvedge_llama::share::Share;
use selvedge_llama::weights::{Cut, Weights};

fn load(made: &Made, layout: Layout) -> LoadError {
    let runtime = Runtime::new();
    let refused = Deployment::load(&runtime, &made.path, &layout);
    assert!(
        runtime.actors().is_empty(),
        "nothing is spawned before all is checked"
    );
    refused.err().unwrap()
}

fn cut(pipeline: usize, tensor: usize) -> Layout {
    Layout {
        pipeline,
        tensor,
        placement: Placement::Inline,
        ..Layout::default()
    }
}

/// Makes a model whose tensors are changed before they are written.
fn changed(name: &str, change: impl FnOnce(&mut Tensors)) -> Made {
    let made = Made::bare(name, CONFIG);
    let mut tensors = tensors(&made.config());
    change(&mut tensors);
    fs::write(made.weights(), bytes(&tensors, Dtype::F32)).unwrap();
    made
}

const UP: &str = "model.layers.2.mlp.up_proj.weight";

#[test]
fn a_missing_tensor_is_named_with_the_nearest_that_are_there() {
    let made = changed("missing", |tensors| {
        let up = tensors.remove(UP).unwrap();
        tensors.insert("model.layers.2.mlp.up_prj.weight".into(), up);
    });
    let error = load(&made, cut(1, 1));
    let LoadError::Missing {
        tensor,
        path,
        nearest,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((tensor.as_str(), path), (UP, &made.weights()));
    assert_eq!(nearest[0], "model.layers.2.mlp.up_prj.weight");
    assert!(error.to_string().contains(&format!(
        "`{UP}`; the nearest names are `model.layers.2.mlp.up_prj"
    )));
}

#[test]
fn tensors_that_nobody_reads_are_refused_by_name() {
    // Qwen2 has biases and Qwen3 norms; computed without them, the text would be wrong.
    let bias = "model.layers.3.self_attn.q_proj.bias";
    let made = changed("unread", |tensors| {
        for name in [bias, "model.layers.3.self_attn.q_norm.weight", "a", "b", "c"] {
            tensors.insert(name.into(), (vec![1], vec![0.0]));
        }
    });
    for layout in [cut(1, 1), cut(4, 1), cut(1, 2)] {
        let error = load(&made, layout);
        let LoadError::Unread { path, tensors } = &error else {
            panic!("{error}")
        };
        assert_eq!((path, tensors.len()), (&made.weights(), 5));
        assert!(tensors.iter().any(|name| name == bias), "{tensors:?}");
        let text = error.to_string();
        assert!(
            text.contains("has 5 tensors that LlamaForCausalLM does not read: `a`, `b`, `c` and 2 more"),
            "{text}"
        );
    }
    // The same holds with several files, whether the index names the tensors or not.
    let made = changed("unread in a shard", |tensors| {
        tensors.insert(bias.into(), (vec![1], vec![0.0]));
    });
    let names = tensors(&made.config()).into_keys();
    let map: serde_json::Map<_, _> = names.map(|name| (name, "shard.safetensors".into())).collect();
    fs::rename(made.weights(), made.path.join("shard.safetensors")).unwrap();
    let index = serde_json::json!({ "weight_map": map });
    fs::write(made.path.join("model.safetensors.index.json"), index.to_string()).unwrap();
    let error = load(&made, cut(1, 1)).to_string();
    assert!(
        error.contains(
            "has a tensor that LlamaForCausalLM does not read: `model.layers.3.self_attn.q_proj.bias`;"
        ),
        "{error}"
    );
}

#[test]
fn tensors_that_follow_from_others_may_be_there() {
    let made = changed("derived", |tensors| {
        let name = "model.layers.0.self_attn.rotary_emb.inv_freq";
        tensors.insert(name.into(), (vec![8], vec![1.0; 8]));
    });
    Folder::open(&made.path).unwrap().check(&Share::WHOLE).unwrap();
    // Some files have a head although it equals the embedding.
    let tied = CONFIG.replace(
        r#""tie_word_embeddings": false"#,
        r#""tie_word_embeddings": true"#,
    );
    let made = Made::bare("tied", &tied);
    let mut all = tensors(&made.config());
    let table = all.get("model.embed_tokens.weight").unwrap().clone();
    all.insert("lm_head.weight".into(), table);
    fs::write(made.weights(), bytes(&all, Dtype::F32)).unwrap();
    Folder::open(&made.path).unwrap().check(&Share::WHOLE).unwrap();
}

#[test]
fn weights_of_another_kind_are_told_what_they_are() {
    // GPTQ weights, with and without an entry in the configuration.
    let made = changed("quantised", |tensors| {
        let up = tensors.remove(UP).unwrap();
        tensors.insert(UP.replace("weight", "qweight"), up);
    });
    let error = load(&made, cut(1, 1));
    assert!(matches!(error, LoadError::Quantized { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("has quantised weights (`model.layers.2.mlp.up_proj.qweight`)"),
        "{error}"
    );
    let extra = r#"{"quantization_config": {"quant_method": "gptq", "bits": 4},"#;
    fs::write(made.path.join("config.json"), CONFIG.replacen('{', extra, 1)).unwrap();
    let error = load(&made, cut(1, 1)).to_string();
    assert!(
        error.starts_with("`quantization_config` of ") && error.contains("is gptq"),
        "{error}"
    );

    for name in ["pytorch_model.bin", "pytorch_model.bin.index.json"] {
        let made = Made::bare("pickled", CONFIG);
        fs::write(made.path.join(name), "").unwrap();
        let error = load(&made, cut(1, 1));
        let LoadError::Pickled { path } = &error else {
            panic!("{error}")
        };
        assert_eq!(path, &made.path.join(name));
        assert!(
            error.to_string().contains("reads safetensors: convert it"),
            "{error}"
        );
    }
}

#[test]
fn a_wrong_shape_is_named_with_the_right_one() {
    let made = changed("shape", |tensors| {
        tensors.get_mut(UP).unwrap().0 = vec![64, 128];
    });
    let error = load(&made, cut(2, 2));
    let LoadError::Shape {
        tensor,
        path,
        expected,
        found,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((tensor.as_str(), path), (UP, &made.weights()));
    assert_eq!(
        (expected.as_slice(), found.as_slice()),
        (&[128, 64][..], &[64, 128][..])
    );
    assert!(
        error
            .to_string()
            .ends_with("has the shape [64, 128], expected [128, 64]")
    );
}

#[test]
fn a_file_that_is_cut_off_is_named_with_its_first_tensor_that_is_not_whole() {
    let made = Made::new("truncated", CONFIG);
    let whole = fs::read(made.weights()).unwrap();
    fs::write(made.weights(), &whole[..whole.len() - 10]).unwrap();
    let error = load(&made, cut(1, 1));
    let LoadError::Truncated {
        path,
        tensor,
        expected,
        found,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (path, *expected, *found),
        (&made.weights(), whole.len() as u64, whole.len() as u64 - 10)
    );
    assert!(tensors(&made.config()).contains_key(tensor), "{tensor}");
    // A file that is cut off anywhere is reported, and nothing panics.
    for length in [0, 5, 8, 100, whole.len() / 2] {
        fs::write(made.weights(), &whole[..length]).unwrap();
        let error = load(&made, cut(1, 1));
        assert!(matches!(error, LoadError::Truncated { .. }), "{length}: {error}");
    }
}

#[test]
fn heads_that_ranks_cannot_share_are_counted_and_what_would_work_is_said() {
    let made = Made::new("ranks", CONFIG);
    let error = load(&made, cut(1, 3));
    let LoadError::Ranks {
        field,
        found,
        ranks,
        possible,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((*field, *found, *ranks), ("num_attention_heads", 4, 3));
    assert_eq!(possible, &[1, 2]);
    let text = error.to_string();
    assert!(
        text.contains("config.json is 4, which 3 ranks cannot share evenly; possible are 1, 2"),
        "{text}"
    );
    // There are four query heads, but only two key-value heads.
    let error = load(&made, cut(1, 4));
    assert!(
        matches!(
            error,
            LoadError::Ranks {
                field: "num_key_value_heads",
                found: 2,
                ..
            }
        ),
        "{error}"
    );
    for ranks in [0, usize::MAX] {
        assert!(matches!(load(&made, cut(1, ranks)), LoadError::Ranks { .. }));
    }
}

#[test]
fn another_architecture_is_refused_by_name() {
    let made = Made::bare(
        "architecture",
        &CONFIG.replace("LlamaForCausalLM", "GPT2LMHeadModel"),
    );
    let error = load(&made, cut(1, 1));
    let LoadError::Architecture {
        path,
        expected,
        found,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(
        (*expected, found.as_str()),
        ("LlamaForCausalLM", "GPT2LMHeadModel")
    );
    assert_eq!(path, &made.path.join("config.json"));
    // A file with another architecture that has none of the expected fields.
    let made = Made::bare(
        "fields",
        r#"{"architectures": ["MambaForCausalLM"], "d_model": 8}"#,
    );
    assert!(
        load(&made, cut(1, 1))
            .to_string()
            .contains("describes MambaForCausalLM")
    );
}

#[test]
fn more_stages_than_layers_are_refused() {
    let made = Made::new("stages", CONFIG);
    for pipeline in [0, 5, usize::MAX] {
        let error = load(&made, cut(pipeline, 1));
        assert!(matches!(error, LoadError::Stages { layers: 4, .. }), "{error}");
    }
}

#[test]
fn what_is_not_done_here_is_refused_by_field() {
    for (field, extra) in [
        ("hidden_act", r#""hidden_act": "gelu","#),
        ("attention_bias", r#""attention_bias": true,"#),
        ("rope_scaling", r#""rope_scaling": {"rope_type": "yarn"},"#),
        ("head_dim", r#""head_dim": 7,"#),
    ] {
        let made = Made::bare("field", &CONFIG.replacen('{', &format!("{{{extra}"), 1));
        let error = load(&made, cut(1, 1));
        assert!(
            matches!(&error, LoadError::Field { field: found, .. } if *found == field),
            "{error}"
        );
    }
}

#[test]
fn the_type_of_rope_may_have_both_of_its_names() {
    let numbers = r#""factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64"#;
    let read = |types: &str| {
        let scaling = format!(r#"{{"rope_scaling": {{{numbers}, {types}}},"#);
        let made = Made::bare("rope", &CONFIG.replacen('{', &scaling, 1));
        Config::read(&made.path).map(|config| config.rope.stretch.map(|it| it.factor))
    };
    for types in [
        r#""rope_type": "llama3", "type": "llama3""#,
        r#""type": "llama3", "rope_type": "llama3""#,
        r#""rope_type": "llama3""#,
        r#""type": "llama3""#,
    ] {
        assert_eq!(read(types).unwrap(), Some(8.0), "{types}");
    }
    assert_eq!(
        read(r#""rope_type": "default", "type": "default""#).unwrap(),
        None
    );
}

#[test]
fn tokens_that_end_a_text_may_be_in_the_configuration_of_generation_alone() {
    let made = Made::bare("ends", CONFIG);
    let own = made.config().end;
    assert_eq!(own, [2]);
    let path = made.path.join("generation_config.json");
    for (text, ends) in [
        (r#"{"eos_token_id": [2, 7, 9]}"#, &[2, 7, 9][..]),
        (r#"{"eos_token_id": 7}"#, &[2, 7]),
        (r#"{"eos_token_id": null}"#, &[2]),
        (r#"{"temperature": 0.6}"#, &[2]),
    ] {
        fs::write(&path, text).unwrap();
        assert_eq!(Config::read(&made.path).unwrap().end, ends, "{text}");
    }
    fs::write(&path, "{").unwrap();
    let error = Config::read(&made.path).unwrap_err();
    assert!(
        matches!(&error, LoadError::Malformed { path: named, .. } if *named == path),
        "{error}"
    );
}

#[test]
fn a_header_that_lies_is_refused() {
    let made = Made::bare("header", CONFIG);
    let file = |header: &str| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file
    };
    for header in [
        "not json",
        r#"{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [18446744073709551615, 8], "data_offsets": [0, 4]}}"#,
        r#"{"a": {"dtype": "F32", "shape": [0], "data_offsets": [18446744073709551615, 18446744073709551615]}}"#,
        r#"{"a": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}}"#,
    ] {
        fs::write(made.weights(), file(header)).unwrap();
        let error = load(&made, cut(1, 1));
        assert!(matches!(error, LoadError::Malformed { .. }), "{header}: {error}");
    }
    fs::write(made.weights(), u64::MAX.to_le_bytes()).unwrap();
    assert!(matches!(load(&made, cut(1, 1)), LoadError::Malformed { .. }));
}

#[test]
fn a_slice_is_that_part_of_the_tensor() {
    let made = Made::new("slices", CONFIG);
    let weights = Weights::open(&made.path).unwrap();
    let (shape, elements) = tensors(&made.config()).remove(UP).unwrap();
    let read = |cut| weights.read(UP, &shape, cut).unwrap().to_vec2::<f32>().unwrap();
    let rows: Vec<Vec<f32>> = elements.chunks(shape[1]).map(<[f32]>::to_vec).collect();
    assert_eq!(read(Cut::Whole), rows);
    assert_eq!(read(Cut::Rows { part: 1, parts: 2 }), rows[64..]);
    let columns: Vec<Vec<f32>> = rows.iter().map(|row| row[16..32].to_vec()).collect();
    assert_eq!(read(Cut::Columns { part: 1, parts: 4 }), columns);
}

#[test]
fn a_rank_reads_its_own_slices_and_nothing_else() {
    let made = Made::new("bytes", CONFIG);
    let config = made.config();
    let size = |name: &str| {
        let (shape, _) = &tensors(&config)[name];
        4 * shape.iter().product::<usize>() as u64
    };
    let of_layer: u64 = ["q", "k", "v", "o"]
        .map(|name| size(&format!("model.layers.0.self_attn.{name}_proj.weight")))
        .iter()
        .chain(&["gate", "up", "down"].map(|name| size(&format!("model.layers.0.mlp.{name}_proj.weight"))))
        .sum();
    let norms = 2 * size("model.norm.weight");
    let (table, end) = (size("model.embed_tokens.weight"), size("model.norm.weight"));
    // Each stage has two layers: half of every matrix and all norms. The first stage has the embedding, rank 0 of the
    // last has the head.
    let half = 2 * (of_layer / 2 + norms);
    let runtime = Runtime::new();
    let grid = Deployment::load(&runtime, &made.path, &cut(2, 2)).unwrap();
    let expected = [half + table, half + table, half + end + table, half];
    assert_eq!(grid.weight_bytes().unwrap(), expected);
}

#[test]
fn several_files_with_an_index_are_one_model() {
    let made = Made::new("index", CONFIG);
    let mut second = tensors(&made.config());
    let mut first = second.clone();
    second.retain(|name, _| name.contains("layers.3") || name.starts_with("lm_head"));
    first.retain(|name, _| !second.contains_key(name));
    fs::remove_file(made.weights()).unwrap();
    let mut map = serde_json::Map::new();
    for (file, tensors) in [("one.safetensors", &first), ("two.safetensors", &second)] {
        fs::write(made.path.join(file), bytes(tensors, Dtype::F32)).unwrap();
        map.extend(tensors.keys().map(|name| (name.clone(), file.into())));
    }
    let write = |map: &serde_json::Map<String, serde_json::Value>| {
        let index = serde_json::json!({ "weight_map": map });
        fs::write(made.path.join("model.safetensors.index.json"), index.to_string()).unwrap();
    };
    write(&map);
    Folder::open(&made.path).unwrap().check(&Share::WHOLE).unwrap();
    // The index lists a tensor that the file does not have.
    map.insert(UP.into(), "two.safetensors".into());
    write(&map);
    let error = load(&made, cut(1, 1));
    let LoadError::Missing { path, tensor, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((path, tensor.as_str()), (&made.path.join("two.safetensors"), UP));
}

#[test]
fn a_folder_without_files_names_the_first_that_is_missing() {
    let made = Made::bare("empty", CONFIG);
    let error = load(&made, cut(1, 1));
    assert!(error.to_string().contains("model.safetensors"), "{error}");
    fs::remove_file(made.path.join("config.json")).unwrap();
    assert!(load(&made, cut(1, 1)).to_string().contains("config.json"));
}
