//! Type names that stand in two modules of one package: a reader cannot tell them apart.
//!
//! Modules within a file and modules of tests count like others. Alternatives do not: if two types of one file have one
//! name and each depends on the configuration (`#[cfg(…)]`), a build has only one of them, and they are one thing. So are
//! the folders of `platform`, one for each kind of operating system.

use std::collections::BTreeMap;

use syn::{Attribute, Item, ItemMod};

use crate::Measure;
use crate::source::{Package, attributes, is_for_tests};

/// The type names of each package that stand in more than one module.
pub(crate) fn doubled(packages: &[Package]) -> Measure {
    let mut places = Vec::new();
    for package in packages {
        let mut found: BTreeMap<String, BTreeMap<Home, String>> = BTreeMap::new();
        for (module, is_test) in package.all() {
            let home = Home {
                module: of_any_system(&module.path),
                is_test,
                is_alternative: false,
            };
            for (name, line, home) in types(&module.syntax.items, &home) {
                let homes = found.entry(name).or_default();
                homes.entry(home).or_insert_with(|| module.place(line, "here"));
            }
        }
        let doubled = found.into_iter().filter(|(_, homes)| homes.len() > 1);
        places.extend(doubled.map(|(name, homes)| {
            let homes: Vec<String> = homes.into_values().collect();
            format!("{name}: {}", homes.join(", "))
        }));
    }
    Measure::count("type names in two modules", places)
}

/// The path of a module, without the folder of `platform` that a build has chosen.
fn of_any_system(path: &[String]) -> Vec<String> {
    let mut path = path.to_vec();
    if path.len() > 1 && path.first().is_some_and(|it| it == "platform") {
        path.remove(1);
    }
    path
}

/// The module of a type; alternatives of one file have one home.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Home {
    module: Vec<String>,
    is_test: bool,
    is_alternative: bool,
}

/// The types among the items and in the modules among them: name, line and home.
fn types(items: &[Item], home: &Home) -> Vec<(String, usize, Home)> {
    let mut found = Vec::new();
    for item in items {
        let mut home = home.clone();
        home.is_alternative |= attributes(item).iter().any(depends_on_configuration);
        match item {
            Item::Mod(ItemMod {
                ident,
                content: Some((_, items)),
                ..
            }) => {
                if !home.is_alternative {
                    home.module.push(ident.to_string());
                }
                found.extend(types(items, &home));
            }
            _ => found.extend(type_name(item).map(|(name, line)| (name, line, home))),
        }
    }
    found
}

fn depends_on_configuration(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && !is_for_tests(attribute)
}

fn type_name(item: &Item) -> Option<(String, usize)> {
    let name = match item {
        Item::Struct(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Union(it) => &it.ident,
        Item::Type(it) => &it.ident,
        _ => return None,
    };
    Some((name.to_string(), name.span().start().line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubled_in(files: &[(&str, &str)]) -> Vec<String> {
        let mut package = Package::default();
        for (name, text) in files {
            let path = [(*name).to_owned()];
            package.add_text(name, (*text).to_owned(), &path, false).unwrap();
        }
        doubled(&[package]).places
    }

    #[test]
    fn a_name_is_seen_in_files_in_modules_within_them_and_in_tests() {
        let (own, inner) = ("struct A;", "mod m { enum A {} }");
        let (tests, test) = ("#[cfg(test)] mod tests { struct A; }", "#[cfg(test)] struct A;");
        for other in [own, inner, tests, test] {
            assert_eq!(
                doubled_in(&[("x", own), ("y", other)]),
                ["A: x:1: here, y:1: here"]
            );
        }
        for text in [format!("{own} {inner}"), format!("{own} {tests}")] {
            assert_eq!(doubled_in(&[("x", &text)]).len(), 1, "{text}");
        }
        assert!(
            doubled_in(&[
                ("x", "struct A; impl T for A { type B = u8; }"),
                ("y", "struct B;")
            ])
            .is_empty()
        );
    }

    #[test]
    fn the_folders_of_platform_are_alternatives() {
        let mut package = Package::default();
        for folder in ["linux", "portable"] {
            let path = ["platform", folder, "child"].map(str::to_owned);
            package
                .add_text(folder, "struct A;".to_owned(), &path, false)
                .unwrap();
        }
        assert!(doubled(&[package]).places.is_empty());
    }

    #[test]
    fn alternatives_of_one_file_are_one_thing() {
        let text = "#[cfg(a)] mod m { pub struct A; } #[cfg(not(a))] struct A;";
        assert!(doubled_in(&[("x", text)]).is_empty());
        assert_eq!(
            doubled_in(&[("x", text), ("y", "#[cfg(not(a))] struct A;")]).len(),
            1
        );
        assert_eq!(
            doubled_in(&[("x", &format!("{text} mod n {{ struct A; }}"))]).len(),
            1
        );
    }
}
