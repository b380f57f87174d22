//! Lists: parameters that are assembled from several arguments.

use selvedge_channels::{Inlet, Local};
use selvedge_core::{ListLevel, MethodEntry, ValueIx};

use super::LoadError;
use crate::ir::{self, TaskIr};
use crate::run::lane::{GatherRun, LaneValues};

/// The positions of a task's parameters among the lane's values, and the lists among them, inner lists first.
pub(super) fn lists(
    task: &TaskIr,
    method: Option<&MethodEntry>,
    args: &[ValueIx],
    values: &mut LaneValues,
) -> Result<(Vec<ValueIx>, Vec<GatherRun>), LoadError> {
    let mut gathers = Vec::new();
    let Some(method) = method.filter(|_| !task.groups.is_empty()) else {
        return Ok((args.to_vec(), gathers));
    };
    let mut args = args.iter().copied();
    let mut params = Vec::with_capacity(task.groups.len());
    for (group, param) in task.groups.iter().zip(method.params) {
        params.push(parameter(
            group,
            &(param.lists)(),
            &mut args,
            values,
            &mut gathers,
        )?);
    }
    Ok((params, gathers))
}

fn parameter(
    group: &ir::ArgGroup,
    levels: &[ListLevel],
    args: &mut dyn Iterator<Item = ValueIx>,
    values: &mut LaneValues,
    gathers: &mut Vec<GatherRun>,
) -> Result<ValueIx, LoadError> {
    let members = match group {
        ir::ArgGroup::One => return args.next().ok_or(LoadError::Inconsistent("too few arguments")),
        ir::ArgGroup::List(members) => members,
    };
    let (level, inner) = levels
        .split_first()
        .ok_or(LoadError::Inconsistent("a list for what is none"))?;
    let mut found = Vec::with_capacity(members.len());
    for member in members {
        found.push(parameter(member, inner, args, values, gathers)?);
    }
    let into = values.push(level.list.value(Inlet::Local(Local), 1)?);
    gathers.push(GatherRun {
        gather: level.gather,
        members: found,
        into,
    });
    Ok(into)
}
