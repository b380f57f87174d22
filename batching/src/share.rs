//! Who is in the next step, and with how much: a function of plain values.
//!
//! A member that asks for no more than its fair share of the budget (`budget / slots`) gets it in every step; together these can
//! never use the budget up, so a prompt that is as long as it likes holds up nobody. What is left goes to the others, the one
//! that came first before the next, in pieces as large as fit (chunked prefill, Agrawal et al., 2023).
//!
//! - `SHARE-1`: the sum of all grants is at most the budget.
//! - `SHARE-2`: nobody is granted more than asked for, or nothing.
//! - `SHARE-3`: whoever waits longest of those that ask for little, and whoever came first of those that ask for much, is in.

/// What a member asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) cost: usize,
    /// Members that came earlier have a lower number.
    pub(crate) number: u64,
}

/// A step's limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLimits {
    /// At least 1 for each member of the step.
    pub(crate) budget: usize,
    pub(crate) slots: usize,
    /// Members of this step at most, at least 2 where there are as many slots.
    pub(crate) members: usize,
}

/// Who of `asks`, those first that rest longest, is granted how much.
pub(crate) fn share(asks: &[Ask], limits: StepLimits) -> Vec<(usize, usize)> {
    let fair = (limits.budget / limits.slots.max(1)).max(1);
    let numbered = asks.iter().enumerate();
    let (mut small, mut large): (Vec<_>, Vec<_>) = numbered.partition(|(_, ask)| ask.cost <= fair);
    large.sort_by_key(|(_, ask)| ask.number);
    // With one place, whoever rests longest has it; else the first of the large ones is sure of one.
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
