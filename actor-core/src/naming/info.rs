//! The facts of a name.

use selvedge_objects::refs::RefId;

use crate::process_name::ProcessName;

/// A name of a reference: [`Runtime::names`](crate::Runtime::names).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NameInfo {
    /// The name.
    pub name: String,
    /// The full name of the type of the value.
    pub type_name: String,
    /// The reference.
    pub id: RefId,
    /// The process where the value lives.
    pub owner: ProcessName,
    /// The process that has given the name. It may have ended.
    pub namer: ProcessName,
}
