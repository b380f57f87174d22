//! Lengths of the README, and of files and functions, tests aside: half of these and 19 of 20 are at most so long.

use std::fs;
use std::path::Path;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::Measure;
use crate::source::{Module, Package, visit_each};

/// Lines of the page that a user reads first.
///
/// # Errors
/// The page cannot be read.
pub(crate) fn readme(root: &Path) -> anyhow::Result<Measure> {
    Ok(Measure {
        name: "README lines",
        found: fs::read_to_string(root.join("README.md"))?.lines().count(),
        places: Vec::new(),
    })
}

/// Lines of a file: the median, the 95th percentile and the longest.
pub(crate) fn files(packages: &[Package]) -> Vec<Measure> {
    let modules = packages.iter().flat_map(|package| &package.modules);
    let lengths = modules.map(|module| (module.lines().count(), module.file.clone()));
    measures(
        ["file lines, median", "file lines, p95", "file lines, longest"],
        lengths.collect(),
    )
}

/// Lines of a function: the median, the 95th percentile and the longest.
pub(crate) fn functions(packages: &[Package]) -> Vec<Measure> {
    let finders = visit_each(packages, |module| Finder {
        module,
        lengths: Vec::new(),
    });
    let names = [
        "function lines, median",
        "function lines, p95",
        "function lines, longest",
    ];
    measures(names, finders.flat_map(|finder| finder.lengths).collect())
}

fn measures(names: [&'static str; 3], mut lengths: Vec<(usize, String)>) -> Vec<Measure> {
    lengths.sort();
    let longest = lengths.iter().rev().take(20);
    let places: Vec<String> = longest
        .map(|(length, place)| format!("{length} {place}"))
        .collect();
    let at = |percent: usize| {
        let rank = (lengths.len() * percent).div_ceil(100).max(1) - 1;
        lengths.get(rank).map_or(0, |(length, _)| *length)
    };
    let found = [at(50), at(95), at(100)];
    let measured = names.into_iter().zip(found);
    measured
        .map(|(name, found)| Measure {
            name,
            found,
            places: if name.ends_with("longest") {
                places.clone()
            } else {
                Vec::new()
            },
        })
        .collect()
}

struct Finder<'a> {
    module: &'a Module,
    lengths: Vec<(usize, String)>,
}

impl Finder<'_> {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (first, last) = (signature.span().start().line, block.span().end().line);
        let place = self.module.place(first, &signature.ident.to_string());
        self.lengths.push((last + 1 - first, place));
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}
