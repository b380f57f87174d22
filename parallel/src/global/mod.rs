//! Globals: values with a name, of which each process that uses them keeps a copy.
//!
//! - `global_type`: [`Global`], which users hold; `error`: [`GlobalError`];
//! - `copies`: the copies of this process, by name, and [`GlobalInfo`];
//! - `value`: the argument for a parameter with `#[global]`;
//! - `functions`: the remote functions that list and drop copies.
//!
//! A handle on its way contains a reference to the value of its moment, and no value. Where it is used, the copy of that name serves if it is of
//! the same reference; else the value is fetched, and takes the place of the old one. So a value moves in the context of a call alone, and once
//! to each process.

mod copies;
mod error;
mod functions;
mod global_type;
mod value;

pub use copies::GlobalInfo;
pub use error::GlobalError;
pub(crate) use functions::list_globals;
pub use global_type::Global;
pub use value::GlobalValue;
