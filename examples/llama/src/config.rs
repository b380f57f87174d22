//! `config.json` of a Hugging Face folder: the shape of the model.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::LoadError;

/// The only architecture that this program runs.
pub const ARCHITECTURE: &str = "LlamaForCausalLM";

/// The shape of a model, checked: every size is at least 1, the heads can be grouped, and the file requires nothing
/// that this program does not support.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The numbers per token between layers.
    pub hidden: usize,
    /// The numbers per token inside a feed-forward network.
    pub feed_forward: usize,
    /// The number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// The number of layers.
    pub layers: usize,
    /// The number of query heads.
    pub heads: usize,
    /// The number of key-value heads; each serves `heads / key_value_heads` query heads.
    pub key_value_heads: usize,
    /// The numbers per head.
    pub head_size: usize,
    /// The number added to a mean square before its root is taken.
    pub norm_epsilon: f32,
    /// The conversion of positions to angles.
    pub rope: Rope,
    /// The longest sequence.
    pub positions: usize,
    /// True if the embedding is also the head.
    pub tied: bool,
    /// The token that begins a text, if there is one.
    pub begin: Option<u32>,
    /// The tokens that end a text.
    pub end: Vec<u32>,
}

/// The conversion of positions to angles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// The base of the wavelengths.
    pub theta: f32,
    /// The stretching of long wavelengths, if any.
    pub stretch: Option<Stretch>,
}

/// Llama 3's stretching of long wavelengths.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Stretch {
    /// The factor by which the longest wavelengths are stretched.
    pub factor: f32,
    /// Wavelengths longer than the trained length divided by this are stretched by the whole factor.
    pub low_freq_factor: f32,
    /// Wavelengths shorter than the trained length divided by this are not stretched.
    pub high_freq_factor: f32,
    /// The trained length before stretching.
    pub original_max_position_embeddings: usize,
}

/// The file as it is written, with its own field names.
#[derive(Deserialize)]
struct File {
    hidden_size: usize,
    intermediate_size: usize,
    vocab_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    rms_norm_eps: f32,
    rope_theta: Option<f32>,
    rope_scaling: Option<RopeFile>,
    rope_parameters: Option<RopeFile>,
    max_position_embeddings: usize,
    #[serde(default)]
    tie_word_embeddings: bool,
    bos_token_id: Option<u32>,
    eos_token_id: Option<OneOrMore>,
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    quantization_config: Option<Quantization>,
}

#[derive(Deserialize)]
struct Quantization {
    quant_method: Option<String>,
}

#[derive(Clone, Deserialize)]
struct RopeFile {
    rope_theta: Option<f32>,
    rope_type: Option<String>,
    /// The older name of `rope_type`. Many files have both.
    #[serde(rename = "type")]
    older_type: Option<String>,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

impl RopeFile {
    fn kind(&self) -> Option<&str> {
        self.rope_type.as_deref().or(self.older_type.as_deref())
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(u32),
    More(Vec<u32>),
}

impl OneOrMore {
    fn into_tokens(self) -> Vec<u32> {
        match self {
            OneOrMore::One(token) => vec![token],
            OneOrMore::More(tokens) => tokens,
        }
    }
}

/// The relevant field of `generation_config.json`.
#[derive(Deserialize)]
struct GenerationFile {
    eos_token_id: Option<OneOrMore>,
}

/// The fields that are read first, because files of other architectures have other fields.
#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    architectures: Vec<String>,
}

impl Config {
    /// Reads and checks `config.json` of a folder. The tokens that end a text are those of this file and of
    /// `generation_config.json`, if that file exists: models that chat name the end of a turn only there.
    ///
    /// # Errors
    /// [`LoadError::Unreadable`], [`LoadError::Malformed`], [`LoadError::Architecture`], [`LoadError::Field`].
    pub fn read(folder: &Path) -> Result<Self, LoadError> {
        let path = folder.join("config.json");
        let text = std::fs::read_to_string(&path).map_err(|error| LoadError::Unreadable {
            path: path.clone(),
            error,
        })?;
        let mut config = Config::parse(&text, &path)?;
        for token in ends_of_generation(&folder.join("generation_config.json"))? {
            if !config.end.contains(&token) {
                config.end.push(token);
            }
        }
        Ok(config)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, LoadError> {
        let malformed = |error| malformed(path, &error);
        let kind: Kind = serde_json::from_str(text).map_err(malformed)?;
        if !kind.architectures.iter().any(|name| name == ARCHITECTURE) {
            return Err(LoadError::Architecture {
                path: path.to_owned(),
                expected: ARCHITECTURE,
                found: match kind.architectures.as_slice() {
                    [] => "no architecture".into(),
                    names => names.join(", "),
                },
            });
        }
        let file: File = serde_json::from_str(text).map_err(malformed)?;
        let rules = Rules { path };
        rules.of_sizes(&file)?;
        rules.of_kinds(&file)?;
        let rope = rules.rope(&file)?;
        Ok(file.into_config(rope))
    }
}

fn malformed(path: &Path, error: &serde_json::Error) -> LoadError {
    LoadError::Malformed {
        path: path.to_owned(),
        message: error.to_string(),
    }
}

/// Returns the tokens that end a text according to `generation_config.json`; none if there is no such file.
fn ends_of_generation(path: &Path) -> Result<Vec<u32>, LoadError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let path = path.to_owned();
            return Err(LoadError::Unreadable { path, error });
        }
    };
    let file: GenerationFile = serde_json::from_str(&text).map_err(|error| malformed(path, &error))?;
    Ok(file.eos_token_id.map_or_else(Vec::new, OneOrMore::into_tokens))
}

impl File {
    fn key_value_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    fn head_size(&self) -> usize {
        self.head_dim
            .unwrap_or(self.hidden_size / self.num_attention_heads.max(1))
    }

    fn into_config(self, rope: Rope) -> Config {
        Config {
            hidden: self.hidden_size,
            feed_forward: self.intermediate_size,
            vocabulary: self.vocab_size,
            layers: self.num_hidden_layers,
            heads: self.num_attention_heads,
            key_value_heads: self.key_value_heads(),
            head_size: self.head_size(),
            norm_epsilon: self.rms_norm_eps,
            rope,
            positions: self.max_position_embeddings,
            tied: self.tie_word_embeddings,
            begin: self.bos_token_id,
            end: self.eos_token_id.map_or_else(Vec::new, OneOrMore::into_tokens),
        }
    }
}

/// The checks of a file, with its path for the errors.
struct Rules<'p> {
    path: &'p Path,
}

impl Rules<'_> {
    fn broken(&self, field: &'static str, expected: impl Into<String>, found: impl ToString) -> LoadError {
        LoadError::Field {
            path: PathBuf::from(self.path),
            field,
            expected: expected.into(),
            found: found.to_string(),
        }
    }

    fn of_sizes(&self, file: &File) -> Result<(), LoadError> {
        let sizes = [
            ("hidden_size", file.hidden_size),
            ("intermediate_size", file.intermediate_size),
            ("vocab_size", file.vocab_size),
            ("num_hidden_layers", file.num_hidden_layers),
            ("num_attention_heads", file.num_attention_heads),
            ("num_key_value_heads", file.key_value_heads()),
            ("max_position_embeddings", file.max_position_embeddings),
        ];
        // The limit is larger than any model, and small enough that products of three sizes do not overflow.
        let most = 1 << 20;
        if let Some((field, size)) = sizes.into_iter().find(|(_, size)| *size == 0 || *size > most) {
            return Err(self.broken(field, format!("1 to {most}"), size));
        }
        let (heads, asked) = (file.num_attention_heads, file.key_value_heads());
        if !heads.is_multiple_of(asked) {
            let expected = format!("a divisor of the {heads} of `num_attention_heads`");
            return Err(self.broken("num_key_value_heads", expected, asked));
        }
        let size = file.head_size();
        if size == 0 || size > most || !size.is_multiple_of(2) {
            return Err(self.broken(
                "head_dim",
                "an even number, hidden_size / num_attention_heads by default",
                size,
            ));
        }
        Ok(())
    }

    fn of_kinds(&self, file: &File) -> Result<(), LoadError> {
        match file.hidden_act.as_deref() {
            None | Some("silu" | "swish") => {}
            Some(other) => return Err(self.broken("hidden_act", "silu", other)),
        }
        if file.attention_bias {
            return Err(self.broken("attention_bias", "false", true));
        }
        if file.mlp_bias {
            return Err(self.broken("mlp_bias", "false", true));
        }
        if let Some(Quantization { quant_method }) = &file.quantization_config {
            let expected = "none: quantised weights are not read; take the model that it was made from";
            let found = quant_method.as_deref().unwrap_or("there");
            return Err(self.broken("quantization_config", expected, found));
        }
        Ok(())
    }

    fn rope(&self, file: &File) -> Result<Rope, LoadError> {
        let given = file.rope_parameters.as_ref().or(file.rope_scaling.as_ref());
        let theta = given.and_then(|given| given.rope_theta).or(file.rope_theta);
        let theta = theta.unwrap_or(10_000.0);
        let kind = given.and_then(RopeFile::kind);
        let stretch = match (kind, given) {
            (None | Some("default"), _) | (_, None) => None,
            (Some("llama3"), Some(given)) => {
                let stretch = serde_json::from_value(given.rest.clone().into());
                Some(
                    stretch
                        .map_err(|error| self.broken("rope_scaling", "the four numbers of llama3", error))?,
                )
            }
            (Some(other), _) => return Err(self.broken("rope_scaling", "default or llama3", other)),
        };
        Ok(Rope { theta, stretch })
    }
}
