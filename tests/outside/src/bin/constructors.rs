//! Several constructors: every public function that returns the actor can spawn it.
use selvedge::prelude::*;

struct Vocabulary(Vec<String>);

#[actor]
impl Vocabulary {
    pub fn new() -> Self {
        Vocabulary(Vec::new())
    }

    pub fn of(words: Vec<String>) -> Self {
        Vocabulary(words)
    }

    pub fn parse(text: &str) -> Result<Self> {
        let words: Vec<_> = text.split(' ').map(str::to_owned).collect();
        if words.len() < 2 { Err("one word is no vocabulary".into()) } else { Ok(Vocabulary(words)) }
    }

    pub fn index(&self, word: &str) -> Option<usize> {
        self.0.iter().position(|known| known == word)
    }
}

fn main() -> selvedge::Result<()> {
    let runtime = Runtime::new();
    let empty = runtime.spawn::<Vocabulary>("empty", ()).inline()?;
    let two = runtime.spawn_from("two", VocabularyHandle::of(vec!["a".into(), "b".into()])).in_thread()?;
    let three = runtime.spawn_from("three", VocabularyHandle::parse("b c a".into())).in_process()?;
    let graph =
        runtime.compile(|word: Edge<String>| (empty.index(&word), two.index(&word), three.index(&word)))?;
    assert_eq!(graph.run("a".into())?, (None, Some(0), Some(2)));
    let refused = runtime.spawn_from("one", VocabularyHandle::parse("b".into())).in_process().unwrap_err();
    assert!(refused.to_string().contains("one word is no vocabulary"));
    Ok(())
}
