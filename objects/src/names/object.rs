//! An object that has a name.

use selvedge_cluster::peer::Peer;
use serde::{Deserialize, Serialize};

use crate::refs::RefId;

/// One naming: a name that is given again has another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NamingId {
    /// The head that has accepted the name. A head that was started again is another peer, so it repeats no number.
    pub head: Peer,
    /// The number that it has given, from 1.
    pub number: u64,
}

selvedge_cluster::id_key!(NamingId as (Peer, u64): |naming| (naming.head, naming.number));

/// An object that has a name. The head and the owner of the object both know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NamedObject {
    /// The name.
    pub name: String,
    /// The naming.
    pub naming: NamingId,
    /// The object. Its owner holds it until the name is taken away.
    pub id: RefId,
    /// The full name of the type of its value.
    pub type_name: String,
    /// The process that has given the name.
    pub namer: Peer,
}
