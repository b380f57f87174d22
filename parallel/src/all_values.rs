//! The wait for all of several calls.

use std::time::Duration;

use selvedge_channels::Wire;
use selvedge_core::{Call, CallError};

/// Waits for calls as long as they take, and returns their values in the order of the calls. The first error ends the wait, and cancels the others.
pub(crate) fn all_values<V: Wire>(calls: Vec<Call<V>>) -> Result<Vec<V>, CallError> {
    let (mut places, mut calls): (Vec<usize>, Vec<Call<V>>) = calls.into_iter().enumerate().unzip();
    let mut values = Vec::new();
    while let Some(at) = Call::wait_any(&mut calls, Duration::MAX)? {
        let (place, call) = (places.swap_remove(at), calls.swap_remove(at));
        values.push((place, call.wait()?));
    }
    values.sort_by_key(|(place, _)| *place);
    Ok(values.into_iter().map(|(_, value)| value).collect())
}
