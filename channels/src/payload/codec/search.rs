//! The search of things with records in types that cannot be read from made-up values, such as those with device tensors.
//!
//! An error of a field ends the reading of its struct. So the fields that could not be read come last. Each run finds one more of
//! them, the innermost first, until a run finds none. The parts of a tuple have a fixed order: what comes behind such a part is
//! not found.

use std::collections::BTreeSet;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, Visitor};

use super::error::SerdeError;
use super::tag;
use super::trial::{Made, PartNames, Probe, Trial, TrialRun};

/// The fields that a search could not read.
#[derive(Default)]
pub(super) struct Unreadable {
    /// By their node, and their place in it.
    fields: BTreeSet<(usize, usize)>,
    /// Whether this run has found one.
    has_grown: bool,
}

impl Unreadable {
    /// A field could not be read. Those around it, which could not be read either, may have other fields.
    pub(super) fn note(&mut self, field: (usize, usize)) {
        self.has_grown = self.has_grown || self.fields.insert(field);
    }

    /// A variant is read, for the first time or not. Others are left after a first time, whether this one can be read or not.
    pub(super) fn note_variant(&mut self, is_first: bool) {
        self.has_grown |= is_first;
    }
}

impl Trial {
    /// Reads all that can be read of a type.
    pub(super) fn search(run: TrialRun) {
        let mut trial = Trial::new();
        loop {
            let fields = trial.unreadable.take().unwrap_or_default().fields;
            let has_grown = false;
            trial.unreadable = Some(Unreadable { fields, has_grown });
            run(&mut trial);
            if !trial.unreadable.as_ref().is_some_and(|found| found.has_grown) {
                return;
            }
        }
    }

    /// The fields of a struct with their places: those that could not be read come last.
    fn search_order(&self, node: usize, fields: &'static [&'static str]) -> Vec<SearchedField> {
        let unreadable = self.unreadable.as_ref();
        let is_last =
            |(kid, _): &SearchedField| unreadable.is_some_and(|found| found.fields.contains(&(node, *kid)));
        let (last, mut order): (Vec<_>, Vec<_>) = fields.iter().enumerate().partition(is_last);
        order.extend(last);
        order
    }
}

impl Probe<'_> {
    /// Shows the fields of a struct, those that could not be read last.
    pub(super) fn searched<'de, V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, SerdeError> {
        let node = self
            .trial
            .node(typeid::of::<V>(), tag::STRUCT, PartNames::Named(fields));
        let order = self.trial.search_order(node, fields).into_iter();
        let made = Made::new(self.trial, node, fields.len());
        visitor.visit_map(SearchedFields { made, order })
    }
}

/// The place of a field, and its name.
type SearchedField = (usize, &'static &'static str);

/// The fields of a struct, in the order of a search.
struct SearchedFields<'t> {
    made: Made<'t>,
    /// The places of the fields, and their names.
    order: std::vec::IntoIter<SearchedField>,
}

impl<'de> MapAccess<'de> for SearchedFields<'_> {
    type Error = SerdeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, SerdeError> {
        let Some((kid, name)) = self.order.next() else {
            return Ok(None);
        };
        self.made.kid = kid;
        let name: StrDeserializer<'_, SerdeError> = (*name).into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, SerdeError> {
        self.made.read(seed)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer};

    use crate::payload::codec::{has_records, note_record};

    /// A value that is never made up, such as a tensor of a device.
    struct Absent;

    impl<'de> Deserialize<'de> for Absent {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let number = u32::deserialize(deserializer)?;
            Err(D::Error::custom(format!("{number} has not come")))
        }
    }

    struct Recorded;

    impl<'de> Deserialize<'de> for Recorded {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            note_record();
            u32::deserialize(deserializer).map(|_| Recorded)
        }
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only its fields' types matter")]
    struct Pair<A, B> {
        first: A,
        second: B,
    }

    #[derive(Deserialize)]
    #[allow(dead_code, reason = "only its variants' types matter")]
    enum Either<A, B> {
        First(A),
        Second(B),
    }

    #[test]
    fn what_has_records_is_found_behind_what_cannot_be_made_up() {
        assert!(has_records::<Recorded>() && !has_records::<Absent>());
        assert!(has_records::<Pair<Recorded, Absent>>());
        assert!(has_records::<Pair<Absent, Recorded>>());
        assert!(has_records::<Pair<Absent, Option<Vec<Recorded>>>>());
        assert!(has_records::<Pair<Pair<Absent, Recorded>, Absent>>());
        assert!(has_records::<
            Pair<Absent, Pair<Absent, Vec<Pair<Absent, Recorded>>>>,
        >());
        assert!(has_records::<
            Pair<Pair<Absent, Absent>, Pair<Pair<u32, Absent>, Recorded>>,
        >());
        assert!(!has_records::<Pair<Absent, Pair<u32, Absent>>>());
        assert!(!has_records::<Pair<u32, String>>());
        assert!(has_records::<Either<Absent, Recorded>>());
        assert!(has_records::<Pair<Absent, Either<Absent, Option<Recorded>>>>());
        assert!(has_records::<Either<Absent, Either<Absent, Either<u32, Recorded>>>>());
        assert!(!has_records::<Either<Absent, Either<u32, Absent>>>());
    }
}
