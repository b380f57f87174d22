//! Type names that stand in two modules of one package: a reader cannot tell them apart.

use std::collections::BTreeMap;

use syn::Item;

use crate::Measure;
use crate::source::Package;

/// The type names of each package that are used more than once, alternatives for different configurations in one module aside.
pub(crate) fn doubled(packages: &[Package]) -> Measure {
    let mut places = Vec::new();
    for package in packages {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for module in &package.modules {
            let names = module.syntax.items.iter().filter_map(type_name);
            let mut names: Vec<_> = names.collect();
            names.sort();
            names.dedup_by(|one, other| one.0 == other.0);
            for (name, line) in names {
                found.entry(name).or_default().push(module.place(line, "here"));
            }
        }
        let doubled = found.into_iter().filter(|(_, modules)| modules.len() > 1);
        places.extend(doubled.map(|(name, modules)| format!("{name}: {}", modules.join(", "))));
    }
    Measure::count("type names in two modules", places)
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
