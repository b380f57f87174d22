//! Errands: work for a thread that may run user code.

/// Work that may run user code. An errand is dropped if no thread takes it.
pub(crate) type Errand = Box<dyn FnOnce() + Send>;

/// A value for an errand. If the errand is dropped before it has run, `otherwise` gets the value there.
struct Entrusted<T, F: FnOnce(T)>(Option<(T, F)>);

impl<T, F: FnOnce(T)> Drop for Entrusted<T, F> {
    fn drop(&mut self) {
        if let Some((value, otherwise)) = self.0.take() {
            otherwise(value);
        }
    }
}

/// Makes an errand for whose outcome somebody waits: `work`, or `otherwise` if no thread takes the errand. `otherwise` must not run user
/// code.
pub(crate) fn errand_or<T: Send + 'static>(
    value: T,
    work: impl FnOnce(T) + Send + 'static,
    otherwise: impl FnOnce(T) + Send + 'static,
) -> Errand {
    let mut entrusted = Entrusted(Some((value, otherwise)));
    Box::new(move || {
        if let Some((value, _)) = entrusted.0.take() {
            work(value);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn an_errand_is_run_or_ends_otherwise_and_never_both() {
        let errand = |done: std::sync::mpsc::Sender<&'static str>| {
            errand_or(
                done,
                |done| done.send("run").unwrap(),
                |done| done.send("dropped").unwrap(),
            )
        };
        let (sender, done) = channel();
        errand(sender.clone())();
        drop(errand(sender));
        assert_eq!(done.iter().collect::<Vec<_>>(), ["run", "dropped"]);
    }
}
