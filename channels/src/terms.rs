//! What was agreed of the tensors in a value: where they lie, and that they always look alike. Who writes the value keeps it,
//! so that a mistake is told where it was made, before anything was sent.

use crate::error::ChannelError;
use crate::payload::{Seen, TensorLayout, Wire, survey};

/// What was agreed of the tensors in a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// What people call the value.
    pub edge: String,
    /// The device that its tensors lie on, those of the host aside, as the writer's process counts devices.
    pub device: Option<u32>,
    /// All values have as many tensors as the first, of the same layouts, in memory and on devices.
    pub static_shape: bool,
}

/// What was agreed, and what the first value has fixed.
pub(crate) struct Agreed {
    terms: Terms,
    first: Option<Vec<TensorLayout>>,
    /// The layouts of the value that is to be sent, once it has been looked at.
    sends: Option<Vec<TensorLayout>>,
}

impl Agreed {
    pub(crate) fn new(terms: Terms) -> Self {
        Agreed {
            terms,
            first: None,
            sends: None,
        }
    }

    /// Refuses a value that does not keep to it. Each is looked at once, however often it is asked for until it is sent.
    pub(crate) fn check<T: Wire>(&mut self, value: &T) -> Result<(), ChannelError> {
        if self.sends.is_none() {
            self.check_seen(survey(value)?)?;
        }
        Ok(())
    }

    /// Another value is to be sent, or none.
    pub(crate) fn forget(&mut self) {
        self.sends = None;
    }

    /// The value was sent. The first one fixes the layouts.
    pub(crate) fn sent(&mut self) {
        let sent = self.sends.take();
        if self.terms.static_shape && self.first.is_none() {
            self.first = sent;
        }
    }

    fn check_seen(&mut self, seen: Vec<Seen>) -> Result<(), ChannelError> {
        let Terms {
            edge,
            device,
            static_shape,
        } = &self.terms;
        let elsewhere = |(_, found): &Seen| found.filter(|found| Some(*found) != *device);
        if let (Some(expected), Some(found)) = (*device, seen.iter().find_map(elsewhere)) {
            let edge = edge.clone();
            return Err(ChannelError::Elsewhere {
                edge,
                expected,
                found,
            });
        }
        let found: Vec<_> = seen.into_iter().map(|(layout, _)| layout).collect();
        if let (true, Some(first)) = (*static_shape, &self.first)
            && *first != found
        {
            return Err(ChannelError::StaticShape {
                edge: edge.clone(),
                expected: first.clone(),
                found,
            });
        }
        self.sends = Some(found);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{DType, Tensor};

    fn agreed(device: Option<u32>, static_shape: bool) -> Agreed {
        let edge = "a.f".to_owned();
        Agreed::new(Terms {
            edge,
            device,
            static_shape,
        })
    }

    fn seen(len: usize, device: Option<u32>) -> Seen {
        (TensorLayout::new(DType::U8, [len]).unwrap(), device)
    }

    #[test]
    fn acc_07_a_tensor_elsewhere_is_refused_and_one_of_the_host_is_not() {
        let mut agreed = agreed(Some(1), false);
        agreed.check_seen(vec![seen(1, Some(1)), seen(2, None)]).unwrap();
        let refused = agreed
            .check_seen(vec![seen(1, Some(1)), seen(2, Some(0))])
            .unwrap_err();
        assert_eq!(
            refused.to_string(),
            "a tensor of `a.f` is on device 0, and its device is 1"
        );
        assert!(refused.refuses_value());
    }

    #[test]
    fn acc_06_the_first_value_fixes_the_layouts() {
        let mut agreed = agreed(None, true);
        let tensor = |shape: &[usize]| Tensor::zeros::<f32>(shape).unwrap();
        // One that was not sent in the end fixes nothing.
        agreed.check(&vec![tensor(&[9])]).unwrap();
        agreed.forget();
        for _ in 0..2 {
            agreed.check(&vec![tensor(&[2, 3]), tensor(&[])]).unwrap();
            agreed.sent();
        }
        for other in [vec![], vec![tensor(&[2, 3])], vec![tensor(&[3, 2]), tensor(&[])]] {
            let refused = agreed.check(&other).unwrap_err();
            let ChannelError::StaticShape {
                edge,
                expected,
                found,
            } = &refused
            else {
                panic!("{refused}");
            };
            assert_eq!(
                (edge.as_str(), expected.len(), found.len()),
                ("a.f", 2, other.len())
            );
            assert!(
                refused
                    .to_string()
                    .contains("expected (F32[2, 3], F32[]), found ("),
                "{refused}"
            );
            assert!(refused.refuses_value());
        }
        agreed.check(&vec![tensor(&[2, 3]), tensor(&[])]).unwrap();
    }
}
