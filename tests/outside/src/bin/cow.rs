//! Parameters that borrow where they can: the value is copied only if the method changes it.
use std::borrow::Cow;

use selvedge::prelude::*;

struct Clean;

#[actor]
impl Clean {
    pub fn new() -> Self {
        Clean
    }

    pub fn line(&mut self, text: Cow<'_, str>) -> usize {
        let text = if text.contains('\t') { Cow::Owned(text.replace('\t', " ")) } else { text };
        text.trim().len()
    }

    pub fn sorted(&mut self, numbers: Cow<'_, [u32]>) -> bool {
        let mut numbers = numbers;
        if !numbers.is_sorted() {
            numbers.to_mut().sort_unstable();
        }
        numbers.is_sorted()
    }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new();
    for place in [Placement::Inline, Placement::Thread, Placement::Process] {
        let clean = runtime.spawn::<Clean>("clean", ()).place(place)?;
        let bind =
            |(text, numbers): (Edge<String>, Edge<Vec<u32>>)| (clean.line(&text), clean.sorted(&numbers));
        let graph = runtime.compile(bind)?;
        assert_eq!(graph.run(("\ta\tb".into(), vec![2, 1]))?, (3, true));
    }
    Ok(())
}
