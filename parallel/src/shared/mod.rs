//! Shared arrays: numbers that several processes of one host map.
//!
//! - `array_type`: [`SharedArray`]; `build`: how one is made; `file`: arrays whose elements are those of a file;
//! - `view`: the elements, [`SharedView`], and their places, [`ArrayIndex`];
//! - `mapping`: the mappings of this process, by the name of the array;
//! - `functions`: the remote functions by which a process maps an array, gives it up, and works at its own part;
//! - `error`: [`SharedArrayError`].
//!
//! The mapping of a process is a value behind a reference, kept in that process: so it goes when the maker drops the array, and also when
//! the maker dies. A handle that was sent contains only the name of the array, and finds the mapping of its process by it.

mod array_type;
mod build;
mod error;
mod file;
mod functions;
mod mapping;
mod view;

pub use array_type::SharedArray;
pub use build::SharedArrayBuilder;
pub use error::SharedArrayError;
pub use file::FileMode;
pub use view::{ArrayIndex, SharedView};
