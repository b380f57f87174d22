//! Manifests of packages.

/// The lines of a manifest's table.
pub(crate) fn table<'a>(manifest: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = manifest.lines().skip_while(move |line| *line != name).skip(1);
    lines.take_while(|line| !line.starts_with('['))
}
