// A user's program, shown by the diagnostics of `tests/diagnostics.rs`. Never compiled.
fn main() -> Result<()> {
    let runtime = Runtime::new();
    let (tok, shard) = (spawn_tok(&runtime)?, spawn_shard(&runtime)?);
    let graph = runtime.compile(|text: Edge<String>| {
        let ids = tok.encode(&text);
        let _ = tok.count(&ids);
        let (α, _β) = shard.forward(&ids).split();
        shard.fixed(&constant(3));
        α
    })?;
    Ok(())
}
