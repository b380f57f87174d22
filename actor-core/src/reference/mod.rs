//! References to values that live in another process: [`Ref`], a distributed `Arc`.
//!
//! A value lives in one process, its owner. Other processes hold references to it, pass them on in arguments and
//! results, fetch the value, and drop them. The owner drops the value when nobody holds a reference any more. The count
//! is [`selvedge_objects::refs`]; this folder gives it handles, values and letters:
//!
//! - `ref_type.rs`: [`Ref`], which users hold; `ready.rs`: whether its value is made;
//! - `set.rs`: values that are set once, without a function; `set_value.rs`: one that another process has set;
//! - `stored_value.rs`: a value that lies in the store of the host; `store_letters.rs`: letters about such values;
//! - `view.rs`: a decoded value that is kept as long as somebody has it;
//! - `into_value.rs`: a fetch that gives the reference up;
//! - `answers.rs`: the meaning of an owner's answer;
//! - `handle.rs`: one handle of the table, and the value that was fetched by way of it;
//! - `references.rs`: the references of this process, and their lock; `table.rs`: what is behind the lock; `effect.rs`: the
//!   work that follows when it is let go; `waiting_letter.rs`: letters that wait for their references;
//! - `open_questions.rs`: the questions of this process that wait for their answers;
//! - `questions.rs`: the references of this process as handles see them;
//! - `letters.rs`: letters that arrive, and effects that send some;
//! - `content.rs`: the content of an object: a value or a failure;
//! - `fetch.rs`: the messages of a fetch;
//! - `transit.rs`: how references leave and enter encoded values;
//! - `edge.rs`: how references leave and enter values that graphs send from process to process;
//! - `leaked.rs`: [`LeakedRef`], which a shutdown has left;
//! - `timer.rs`: repeats what was not answered;
//! - `whole.rs`: the content of a reference whose type does not matter;
//! - `error.rs`: [`FetchError`]; `name.rs`: the name of a reference in errors.

mod answers;
pub(crate) mod content;
pub(crate) mod edge;
pub(crate) mod effect;
pub(crate) mod error;
pub(crate) mod fetch;
pub(crate) mod handle;
mod into_value;
mod leaked;
pub(crate) mod letters;
mod name;
mod open_questions;
mod questions;
mod ready;
mod ref_type;
pub(crate) mod references;
mod set;
pub(crate) mod set_value;
pub(crate) mod store_letters;
pub(crate) mod stored_value;
mod table;
mod timer;
pub(crate) mod transit;
pub(crate) mod unsaid;
mod view;
mod waiting_letter;
mod whole;

#[cfg(test)]
pub(crate) mod tests;

pub use error::FetchError;
pub use into_value::IntoValueError;
pub use leaked::LeakedRef;
pub use name::NamedRef;
pub use ref_type::Ref;
pub use set::SetError;
