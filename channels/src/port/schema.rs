//! Schemas of the tensors in a value: the device that they lie on, and whether their layouts are fixed. The writer of a
//! value checks it, so a violation is reported where it was made, before anything is sent.

use crate::error::ChannelError;
use crate::kind::traits::Traits;
use crate::payload::{Seen, TensorLayout};

/// The schema of the tensors in a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorSchema {
    /// The name of the value in error messages.
    pub edge: String,
    /// The device that its tensors must lie on, by its number in the writer's process; `None` for any device. Tensors
    /// in host memory are exempt.
    pub device: Option<u32>,
    /// True if every value must have as many tensors as the first one, with the same layouts. Applies to tensors in
    /// host memory and on devices.
    pub static_shape: bool,
}

/// A schema, and the layouts that the first value has fixed.
pub(crate) struct Agreed {
    terms: TensorSchema,
    first: Option<Vec<TensorLayout>>,
    /// The layouts of the value to be sent, once it has been checked.
    sends: Option<Vec<TensorLayout>>,
}

impl Agreed {
    pub(crate) fn new(terms: TensorSchema) -> Self {
        Agreed {
            terms,
            first: None,
            sends: None,
        }
    }

    /// Returns an error if the value violates the schema. Each value is inspected only once, even if it is checked
    /// several times before it is sent.
    pub(crate) fn check<T>(&mut self, value: &T, traits: &Traits<T>) -> Result<(), ChannelError> {
        if self.sends.is_none() {
            // A value that serde does not know has no tensors that could be seen.
            let seen = traits.channel_codec.as_ref().map(|codec| (codec.survey)(value));
            self.check_seen(seen.transpose()?.unwrap_or_default())?;
        }
        Ok(())
    }

    /// Forgets the checked value: another value is to be sent, or none.
    pub(crate) fn forget(&mut self) {
        self.sends = None;
    }

    /// Records that the value was sent. The first value fixes the layouts.
    pub(crate) fn sent(&mut self) {
        let sent = self.sends.take();
        if self.terms.static_shape && self.first.is_none() {
            self.first = sent;
        }
    }

    fn check_seen(&mut self, seen: Vec<Seen>) -> Result<(), ChannelError> {
        let TensorSchema {
            edge,
            device,
            static_shape,
        } = &self.terms;
        let elsewhere = |(_, found): &Seen| found.filter(|found| Some(*found) != *device);
        if let (Some(expected), Some(found)) = (*device, seen.iter().find_map(elsewhere)) {
            let edge = edge.clone();
            return Err(ChannelError::WrongDevice {
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
        Agreed::new(TensorSchema {
            edge,
            device,
            static_shape,
        })
    }

    fn check(agreed: &mut Agreed, tensors: &Vec<Tensor>) -> Result<(), ChannelError> {
        agreed.check(tensors, &Traits::WIRE)
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
        // A value that was checked but not sent fixes nothing.
        check(&mut agreed, &vec![tensor(&[9])]).unwrap();
        agreed.forget();
        for _ in 0..2 {
            check(&mut agreed, &vec![tensor(&[2, 3]), tensor(&[])]).unwrap();
            agreed.sent();
        }
        for other in [vec![], vec![tensor(&[2, 3])], vec![tensor(&[3, 2]), tensor(&[])]] {
            let refused = check(&mut agreed, &other).unwrap_err();
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
        check(&mut agreed, &vec![tensor(&[2, 3]), tensor(&[])]).unwrap();
    }
}
