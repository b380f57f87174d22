//! Floors: a package depends on packages of lower floors only.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::Measure;
use crate::manifest::table;

/// The dependencies of each package on packages that do not come before it. `folders` lists the lowest floor first.
///
/// # Errors
/// A manifest cannot be read.
pub(crate) fn upwards(root: &Path, folders: &[&str]) -> anyhow::Result<Measure> {
    let (mut below, mut places) = (Vec::new(), Vec::new());
    for folder in folders {
        let file = root.join(folder).join("Cargo.toml");
        let manifest = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let ours = table(&manifest, "[dependencies]").filter(|line| line.starts_with("selvedge"));
        let names = ours.filter_map(|line| line.split(['.', ' ', '=']).next());
        let upwards = names.filter(|name| !below.iter().any(|it| it == name));
        places.extend(upwards.map(|name| format!("{folder}: {name}")));
        let name = table(&manifest, "[package]").find_map(|line| line.strip_prefix("name = "));
        below.extend(name.map(|name| name.trim_matches('"').to_owned()));
    }
    Ok(Measure::count("dependencies on a higher floor", places))
}
