//! Backends: selects the communicator that a graph's collectives use.

use selvedge_collectives::{Backend, Capabilities, CommError, Communicator, Group, Joining};
use selvedge_core::{ActorId, IdMap};

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{CommunicatorPlan, Plan};

/// The user-defined backends.
#[allow(unsafe_code)] // `linkme` places the slice in a section of the binary
#[linkme::distributed_slice]
pub static BACKENDS: [Backend];

/// The name of the backend over shared memory.
const SHARED: &str = "shm";

/// The built-in backends besides shared memory.
#[cfg(feature = "cuda")]
const OWN: &[Backend] = &[selvedge_collectives::nccl::BACKEND];
#[cfg(not(feature = "cuda"))]
const OWN: &[Backend] = &[];

fn all() -> impl Iterator<Item = &'static Backend> {
    BACKENDS.iter().chain(OWN)
}

fn find(name: &str) -> Option<&'static Backend> {
    all().find(|backend| backend.name == name)
}

/// Returns a diagnostic if the plan asks its backend for something that the backend cannot do.
pub(crate) fn refused(plan: &Plan) -> Option<Diagnostic> {
    let first = plan.ir.collectives.first()?;
    let name = plan.settings.communicator.as_deref().unwrap_or(SHARED);
    let at = |collective: &crate::ir::CollectiveIr| {
        let task = collective.tasks.first().and_then(|task| plan.ir.task(*task));
        task.map_or_else(|| plan.ir.compiled_at.clone(), |task| task.bound_at.clone())
    };
    if name == SHARED {
        return None;
    }
    let Some(backend) = find(name) else {
        let mut known: Vec<&str> = all().map(|backend| backend.name).chain([SHARED]).collect();
        known.sort_unstable();
        let message = format!(
            "there is no communicator `{name}`; known are `{}`",
            known.join("`, `")
        );
        return Some(Diagnostic::new(Code::NoCommunicator, message, at(first)).labelled("this needs one"));
    };
    if let Some(group) = plan.communicators.iter().find(|group| group.is_over_hosts()) {
        let named = group
            .leaders()
            .into_iter()
            .filter_map(|leader| plan.ir.actor(leader.actor));
        let named: Vec<String> = named.map(|actor| format!("`{}`", actor.name)).collect();
        let message = format!(
            "communicator `{name}` is for ranks of one host, and {} are on several",
            named.join(", ")
        );
        return Some(Diagnostic::new(Code::OtherHost, message, at(first)));
    }
    let capabilities = (backend.capabilities)();
    if capabilities.launch_blocks
        && let Some((one, other)) = plan.communicators.iter().find_map(shares_a_lane)
    {
        let name_of = |actor| plan.ir.actor(actor).map_or("?", |actor| actor.name.as_str());
        let (one, other) = (name_of(one), name_of(other));
        let message = format!(
            "communicator `{name}` blocks a lane until all ranks have come, and `{one}` and `{other}` share one"
        );
        return Some(
            Diagnostic::new(Code::NoCommunicator, message, at(first)).labelled("would wait for ever"),
        );
    }
    let lacks = plan
        .ir
        .collectives
        .iter()
        .find(|it| !does(&capabilities, it.operation))?;
    let message = format!("communicator `{name}` does not do {}", lacks.operation);
    Some(Diagnostic::new(Code::NoCommunicator, message, at(lacks)).labelled("asked for here"))
}

/// Returns two ranks of a group that run on the same lane, if there are any.
fn shares_a_lane(group: &CommunicatorPlan) -> Option<(ActorId, ActorId)> {
    let mut lanes = IdMap::new();
    group.ranks.iter().find_map(|rank| {
        let other = lanes.insert(rank.address.lane, rank.actor)?;
        Some((other, rank.actor))
    })
}

fn does(capabilities: &Capabilities, operation: selvedge_collectives::Collective) -> bool {
    let kind = std::mem::discriminant(&operation);
    let lacks = capabilities
        .lacks
        .iter()
        .any(|lacks| std::mem::discriminant(lacks) == kind);
    !lacks
        && operation
            .reduce_op()
            .is_none_or(|op| capabilities.reduce_ops.contains(&op))
}

/// Makes a rank of the backend called `name`, or of `group` in shared memory if no other backend is named.
pub(crate) fn join(
    name: Option<&str>,
    group: &Group,
    joining: &Joining<'_>,
) -> Result<Box<dyn Communicator>, CommError> {
    match name.filter(|name| *name != SHARED).and_then(find) {
        Some(backend) => (backend.join)(joining),
        None => Ok(Box::new(group.rank(joining.rank)?)),
    }
}
