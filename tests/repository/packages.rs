//! The packages can be published: their manifests are complete, and no two packages wait for each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Cargo's metadata of the members that are published.
fn packages() -> Vec<Value> {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        metadata.status.success(),
        "{}",
        String::from_utf8_lossy(&metadata.stderr)
    );
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let all = metadata["packages"].as_array().unwrap().iter();
    let published: Vec<Value> = all
        .filter(|package| package["publish"].is_null())
        .cloned()
        .collect();
    assert!(published.len() >= 8, "{} packages are published", published.len());
    published
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

#[test]
fn every_package_has_a_description_a_readme_and_the_licence_texts() {
    for package in packages() {
        let name = text(&package, "name");
        let folder = Path::new(text(&package, "manifest_path")).parent().unwrap();
        assert!(text(&package, "description").len() > 20, "{name}: no description");
        assert_eq!(text(&package, "license"), "MIT OR Apache-2.0", "{name}");
        for file in [text(&package, "readme"), "LICENSE-MIT", "LICENSE-APACHE"] {
            let length = std::fs::read_to_string(folder.join(file)).map_or(0, |text| text.len());
            assert!(!file.is_empty() && length > 100, "{name}: no `{file}`");
        }
    }
}

/// What nobody has asked for is not compiled.
#[test]
fn the_default_build_has_no_zenoh_and_no_rustls() {
    let tree = |features: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.args([
            "tree",
            "--offline",
            "--package",
            "selvedge",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
        ]);
        let output = command
            .args(features)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    for features in [&[][..], &["--features", "hosts"]] {
        let tree = tree(features);
        assert!(
            tree.lines().any(|line| line.starts_with("selvedge-core ")),
            "{tree}"
        );
        let guest = |line: &&str| line.starts_with("zenoh") || line.starts_with("rustls");
        assert_eq!(tree.lines().find(guest), None);
    }
}

/// A dependency with a version is looked up in the registry, so it must be published first.
#[test]
fn every_package_finds_the_others_of_its_own_version_published_before_it() {
    let packages = packages();
    let versions: BTreeMap<&str, &str> = packages
        .iter()
        .map(|package| (text(package, "name"), text(package, "version")))
        .collect();
    let mut waits: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &packages {
        let name = text(package, "name");
        let before = waits.entry(name).or_default();
        let members = package["dependencies"].as_array().unwrap().iter();
        for member in members.filter(|dependency| !dependency["path"].is_null()) {
            let (needs, version) = (text(member, "name"), text(member, "req"));
            // A dev-dependency by path alone is not part of the published package.
            if version == "*" && text(member, "kind") == "dev" {
                continue;
            }
            let published = versions.get(needs);
            assert!(
                published.is_some(),
                "{name} needs {needs}, which is not published"
            );
            assert_eq!(
                version,
                format!("={}", published.unwrap()),
                "{name} needs {needs}"
            );
            before.insert(needs);
        }
    }
    while !waits.is_empty() {
        let ready: Vec<&str> = waits
            .iter()
            .filter(|(_, before)| before.iter().all(|name| !waits.contains_key(name)))
            .map(|(name, _)| *name)
            .collect();
        assert!(!ready.is_empty(), "these wait for each other: {waits:?}");
        ready.iter().for_each(|name| drop(waits.remove(name)));
    }
}
