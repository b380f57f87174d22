//! Remote functions with names that generated code uses too, in a module and in the body of a function.
use selvedge::prelude::*;

/// Types that shadow those of the prelude.
#[allow(dead_code)]
struct Box;
#[allow(dead_code)]
struct Vec;

mod words {
    use selvedge::prelude::*;

    #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    pub struct Counted(pub usize);

    /// Counts letters.
    #[remote]
    pub fn letters(arguments: &str, result: &[u8], arg_0: Counted) -> Result<Counted> {
        Ok(Counted(arguments.len() + result.len() + arg_0.0))
    }
}

fn main() -> Result<()> {
    #[remote]
    fn doubled(counted: &words::Counted) -> words::Counted {
        words::Counted(counted.0 * 2)
    }

    let runtime = Runtime::new();
    let letters = runtime.call(words::letters::remote("abc", [1, 2], words::Counted(1))).wait()?;
    assert_eq!(letters, words::Counted(6));
    assert_eq!(runtime.call(doubled::remote(&letters)).wait()?, words::Counted(12));
    let more = 4;
    let added = remote_fn!([more: usize] |counted: words::Counted| -> words::Counted { words::Counted(counted.0 + more) });
    assert_eq!(runtime.call(added.remote(letters)).wait()?, words::Counted(10));
    Ok(())
}
