//! Division of a step's budget: a pure function that selects the members of the next step and their grants.
//!
//! A member that asks for at most its fair share of the budget (`budget / slots`) gets it in every step. Together, such
//! members can never use up the budget, so a prompt of any length delays no other member. The rest of the budget goes
//! to the other members, in the order in which they came, in pieces as large as fit (chunked prefill, Agrawal et al.,
//! 2023).
//!
//! - `SHARE-1`: the sum of all grants is at most the budget.
//! - `SHARE-2`: a grant is at least 1 and at most the cost that the member asked for.
//! - `SHARE-3`: of the members that ask for little, the one that has rested longest is in the step; of the members that
//!   ask for much, the one that came first.

/// The request of a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) cost: usize,
    /// Members that came earlier have a lower number.
    pub(crate) number: u64,
}

/// The limits of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLimits {
    /// The maximum cost of the step; at least 1 for each member.
    pub(crate) budget: usize,
    pub(crate) slots: usize,
    /// The maximum number of members in this step.
    pub(crate) members: usize,
}

/// Returns the members of the next step, each as its index in `asks` and its grant. The caller sorts `asks`: the member
/// that has rested longest comes first.
pub(crate) fn share(asks: &[Ask], limits: StepLimits) -> Vec<(usize, usize)> {
    let fair = (limits.budget / limits.slots.max(1)).max(1);
    let numbered = asks.iter().enumerate();
    let (mut small, mut large): (Vec<_>, Vec<_>) = numbered.partition(|(_, ask)| ask.cost <= fair);
    large.sort_by_key(|(_, ask)| ask.number);
    // With one place, the member that has rested longest has it; with more, one place is reserved for the first large
    // member.
    if limits.members == 1 {
        small.append(&mut large);
        small.sort_by_key(|(index, _)| *index);
    } else if !large.is_empty() {
        small.truncate(limits.members.saturating_sub(1));
    }
    let mut left = limits.budget;
    let chosen = small.into_iter().chain(large).take(limits.members);
    let granted = chosen.map(|(index, ask)| {
        let grant = ask.cost.max(1).min(left);
        left -= grant;
        (index, grant)
    });
    granted.filter(|(_, grant)| *grant > 0).collect()
}

#[cfg(test)]
mod tests;
