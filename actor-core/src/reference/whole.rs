//! The content of a reference as it is: the owner's own, or a copy that is not decoded.

use std::sync::Arc;

use super::content::Content;
use super::fetch::{Fetched, Wish};
use super::ref_type::Ref;
use super::set_value::SetValue;
use crate::failure::Failure;

impl<T> Ref<T> {
    /// The content, as soon as it is there. The type of the value does not matter.
    pub(crate) async fn content(&self) -> Content {
        if let Some(table) = self.handle.owner_table() {
            let content = table.content(self.id()).await;
            return match content {
                Ok(content) => content,
                Err(_) => self
                    .made(content)
                    .map_err(|error| Arc::new(Failure::from_error(error))),
            };
        }
        let answer = match self.ask(Wish::Letter) {
            Ok(answer) => answer.await,
            Err(error) => return Err(Arc::new(Failure::from_error(error))),
        };
        match answer {
            Ok(Fetched::Value { bytes, handles }) => Ok(SetValue::new(bytes, handles).into_object()),
            other => Err(Arc::new(Failure::from_error(self.unanswered(other)))),
        }
    }
}
