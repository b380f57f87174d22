//! The errors of loading a model from a folder.

use std::path::PathBuf;

use selvedge::SpawnError;

/// The error of a folder that cannot be loaded. Mistakes in the folder are found before any actor is spawned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file does not exist, or it may not be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The file does not have the format of its name.
    #[error("{} cannot be understood: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The message of the parser.
        message: String,
    },
    /// The folder holds a model of another kind.
    #[error("{} describes {found}; this program runs {expected}", path.display())]
    Architecture {
        /// The file.
        path: PathBuf,
        /// The architecture that this program runs.
        expected: &'static str,
        /// The names in the file.
        found: String,
    },
    /// A field of `config.json` has a value that this program does not support.
    #[error("`{field}` of {} is {found}, expected {expected}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The name of the field.
        field: &'static str,
        /// The supported values.
        expected: String,
        /// The value in the file.
        found: String,
    },
    /// No file of the folder has this tensor.
    #[error("{} has no tensor `{tensor}`{}", path.display(), proposal(nearest))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The names in the file that are most similar to it.
        nearest: Vec<String>,
    },
    /// The weights are quantised (GPTQ, AWQ), which this program does not support.
    #[error(
        "{} has quantised weights (`{found}`); this program reads F32, F16 or BF16: take the model that it was made from",
        path.display()
    )]
    Quantized {
        /// The file.
        path: PathBuf,
        /// The name of a quantised tensor.
        found: String,
    },
    /// The folder has weights pickled by PyTorch, and no safetensors.
    #[error(
        "{} is pickled; this program reads safetensors: convert it with `save_pretrained(.., safe_serialization=True)` of transformers",
        path.display()
    )]
    Pickled {
        /// The file.
        path: PathBuf,
    },
    /// The file has tensors that this architecture does not read: without them the text would be wrong.
    #[error(
        "{} has {} that LlamaForCausalLM does not read: {}; `config.json` describes another model than the file holds",
        path.display(), counted(tensors.len()), first(tensors)
    )]
    Unread {
        /// The file.
        path: PathBuf,
        /// The names of all these tensors.
        tensors: Vec<String>,
    },
    /// A tensor's shape differs from that in `config.json`.
    #[error("tensor `{tensor}` of {} has the shape {found:?}, expected {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape according to `config.json`.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// The elements of a tensor have an unsupported type.
    #[error("tensor `{tensor}` of {} holds {found}, expected F32, F16 or BF16", path.display())]
    Elements {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The type of its elements.
        found: String,
    },
    /// The file ends before the end of a tensor.
    #[error(
        "{} is cut off: it has {found} bytes, tensor `{tensor}` ends at byte {expected}",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The first incomplete tensor.
        tensor: String,
        /// The offset at which the tensor ends.
        expected: u64,
        /// The length of the file.
        found: u64,
    },
    /// The model cannot be cut into this number of ranks.
    #[error("`{field}` of {} is {found}, which {ranks} ranks cannot share evenly; possible are {}", path.display(), listed(possible))]
    Ranks {
        /// The file.
        path: PathBuf,
        /// The field whose value the ranks share.
        field: &'static str,
        /// The value of the field.
        found: usize,
        /// The number of ranks.
        ranks: usize,
        /// The numbers of ranks that the model can be cut into.
        possible: Vec<usize>,
    },
    /// The model cannot be cut into this number of stages.
    #[error("{} has {layers} layers, which cannot be {stages} stages; possible are 1 to {layers}", path.display())]
    Stages {
        /// The file.
        path: PathBuf,
        /// The number of layers.
        layers: usize,
        /// The requested number of stages.
        stages: usize,
    },
    /// The caches have no room, or more positions than the model.
    #[error("{message}")]
    Room {
        /// The description of the mistake.
        message: String,
    },
    /// Candle returned an error.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
    /// An actor could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The graph does not compile.
    #[error(transparent)]
    Graph(#[from] selvedge::CompileError),
}

fn proposal(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "; it has none at all".into();
    }
    format!("; the nearest names are `{}`", nearest.join("`, `"))
}

/// The number of names that an error shows.
const SHOWN: usize = 3;

fn counted(tensors: usize) -> String {
    match tensors {
        1 => "a tensor".into(),
        more => format!("{more} tensors"),
    }
}

fn first(names: &[String]) -> String {
    let (shown, rest) = names.split_at(names.len().min(SHOWN));
    let shown = shown.join("`, `");
    match rest.len() {
        0 => format!("`{shown}`"),
        more => format!("`{shown}` and {more} more"),
    }
}

fn listed(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
    numbers.join(", ")
}
