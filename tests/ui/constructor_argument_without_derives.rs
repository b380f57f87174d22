use selvedge::prelude::*;

pub struct Config {
    pub scale: u32,
}

struct Scale(Config);

#[actor]
impl Scale {
    pub fn new(config: Config) -> Self {
        Scale(config)
    }

    pub fn scale(&mut self, x: u32) -> u32 {
        x * self.0.scale
    }
}

fn main() -> Result<()> {
    let runtime = Runtime::new();
    let here = runtime.spawn::<Scale>("here", (Config { scale: 3 },)).in_thread()?;
    let far = runtime.spawn::<Scale>("far", (Config { scale: 3 },)).in_process()?;
    let graph = runtime.compile(|x: Edge<u32>| far.scale(&here.scale(&x)))?;
    println!("{}", graph.run(1)?);
    Ok(())
}
