//! Why a folder cannot become a running model.

use std::path::PathBuf;

use selvedge::SpawnError;

/// Why a folder cannot be loaded. One mistake gives one of these, before any actor is spawned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There is no such file, or it may not be read.
    #[error("cannot read {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is not what its name says.
    #[error("{} cannot be understood: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the reader said.
        message: String,
    },
    /// The folder holds a model of another kind.
    #[error("{} describes {found}; this program runs {expected}", path.display())]
    Architecture {
        /// The file.
        path: PathBuf,
        /// What can be run.
        expected: &'static str,
        /// The names in the file.
        found: String,
    },
    /// A field of `config.json` has a value that this program does not know.
    #[error("`{field}` of {} is {found}, expected {expected}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Its field.
        field: &'static str,
        /// What can be run.
        expected: String,
        /// What it says.
        found: String,
    },
    /// No file of the folder has this tensor.
    #[error("{} has no tensor `{tensor}`{}", path.display(), proposal(nearest))]
    Missing {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The names in the file that look most like it.
        nearest: Vec<String>,
    },
    /// The weights are quantised (GPTQ, AWQ), which this program does not compute with.
    #[error(
        "{} has quantised weights (`{found}`); this program reads F32, F16 or BF16: take the model that it was made from",
        path.display()
    )]
    Quantized {
        /// The file.
        path: PathBuf,
        /// A tensor that says so.
        found: String,
    },
    /// The folder has weights that PyTorch pickled, and none of safetensors.
    #[error(
        "{} is pickled; this program reads safetensors: convert it with `save_pretrained(.., safe_serialization=True)` of transformers",
        path.display()
    )]
    Pickled {
        /// The file.
        path: PathBuf,
    },
    /// The file has tensors that this architecture does not read: computed without them, text would be wrong.
    #[error(
        "{} has {} that LlamaForCausalLM does not read: {}; `config.json` describes another model than the file holds",
        path.display(), counted(tensors.len()), first(tensors)
    )]
    Unread {
        /// The file.
        path: PathBuf,
        /// Their names, all of them.
        tensors: Vec<String>,
    },
    /// A tensor has another shape than `config.json` says.
    #[error("tensor `{tensor}` of {} has the shape {found:?}, expected {expected:?}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape by `config.json`.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// A tensor has elements that are not read here.
    #[error("tensor `{tensor}` of {} holds {found}, expected F32, F16 or BF16", path.display())]
    Elements {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// What it holds.
        found: String,
    },
    /// The file ends before a tensor does.
    #[error(
        "{} is cut off: it has {found} bytes, tensor `{tensor}` ends at byte {expected}",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The first tensor that is not whole.
        tensor: String,
        /// Where it ends.
        expected: u64,
        /// Where the file ends.
        found: u64,
    },
    /// The model cannot be cut into so many ranks.
    #[error("`{field}` of {} is {found}, which {ranks} ranks cannot share evenly; possible are {}", path.display(), listed(possible))]
    Ranks {
        /// The file.
        path: PathBuf,
        /// What is to be shared.
        field: &'static str,
        /// How much there is of it.
        found: usize,
        /// Among how many.
        ranks: usize,
        /// Numbers of ranks that this model can be cut into.
        possible: Vec<usize>,
    },
    /// The model cannot be cut into so many stages.
    #[error("{} has {layers} layers, which cannot be {stages} stages; possible are 1 to {layers}", path.display())]
    Stages {
        /// The file.
        path: PathBuf,
        /// How many layers there are.
        layers: usize,
        /// How many stages were asked for.
        stages: usize,
    },
    /// The caches have no room, or more than the model has positions.
    #[error("{message}")]
    Room {
        /// What is wrong with it.
        message: String,
    },
    /// Candle refused.
    #[error("candle: {0}")]
    Candle(#[from] candle_core::Error),
    /// An actor could not be spawned.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The graph was refused.
    #[error(transparent)]
    Graph(#[from] selvedge::CompileError),
}

fn proposal(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return "; it has none at all".into();
    }
    format!("; the nearest names are `{}`", nearest.join("`, `"))
}

/// How many names an error shows.
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
