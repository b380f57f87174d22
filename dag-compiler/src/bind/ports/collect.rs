//! Fetch time: leaves become a user's output.

use selvedge_channels::{AnyValue, Fault, Payload, Value};

use crate::run::driver::leaf::{AnyLeaf, Leaf};

/// Reads a result from the leaves of the graph's output.
pub(crate) type Take<Out> = fn(&mut Collected<'_>) -> Result<Out, Fault>;

/// Reads one output value, leaf by leaf.
pub struct Collected<'a> {
    leaves: std::slice::IterMut<'a, Box<dyn AnyLeaf>>,
    /// The channel end of the only leaf, if the value is to be taken directly from there.
    coming: Option<&'a mut dyn AnyValue>,
    taken: bool,
    /// The lengths of the output's `Vec`s, in the order in which they are taken.
    lengths: std::slice::Iter<'a, usize>,
    execution: u64,
}

impl<'a> Collected<'a> {
    pub(crate) fn new(leaves: &'a mut [Box<dyn AnyLeaf>], lengths: &'a [usize], execution: u64) -> Self {
        Collected {
            leaves: leaves.iter_mut(),
            coming: None,
            taken: false,
            lengths: lengths.iter(),
            execution,
        }
    }

    /// Reads the value of the only leaf directly from its channel end, before it is collected into the leaf.
    pub(crate) fn at_once(coming: &'a mut dyn AnyValue, lengths: &'a [usize], execution: u64) -> Self {
        Collected {
            coming: Some(coming),
            ..Collected::new(&mut [], lengths, execution)
        }
    }

    /// Whether a value has been taken from the channel end. If not, the channel end is unchanged.
    pub(crate) fn has_taken(&self) -> bool {
        self.taken
    }

    /// The length of the output's next `Vec`.
    pub(super) fn length(&mut self) -> usize {
        self.lengths.next().copied().unwrap_or_default()
    }

    /// Takes the value of the next leaf.
    ///
    /// # Errors
    /// The fault that arrived instead of the value.
    #[allow(
        clippy::should_implement_trait,
        reason = "each call gives another type, so it is no iterator"
    )]
    #[inline]
    pub fn next<T: Payload>(&mut self) -> Result<T, Fault> {
        if let Some(coming) = &mut self.coming {
            let value = coming.typed_mut::<T>().and_then(Value::try_next);
            self.taken |= value.is_some();
            return value.ok_or_else(Fault::cancelled);
        }
        self.next_leaf()
    }

    #[inline(never)]
    fn next_leaf<T: Payload>(&mut self) -> Result<T, Fault> {
        let leaf = self
            .leaves
            .next()
            .and_then(|leaf| leaf.as_any_mut().downcast_mut::<Leaf<T>>());
        leaf.and_then(|leaf| leaf.take(self.execution))
            .unwrap_or_else(|| Err(Fault::cancelled()))
    }
}
