//! Circles of modules: modules that can only be understood together, because each imports the next.

use std::collections::HashMap;

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

use crate::Measure;
use crate::source::{Module, Package};

/// The number of modules in the largest circle of any package; the places are all circles.
pub(crate) fn largest(packages: &[Package]) -> Measure {
    let mut circles: Vec<Vec<String>> = packages.iter().flat_map(circles).collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    let line = |circle: &Vec<String>| format!("{}: {}", circle.len(), circle.join(" "));
    Measure {
        name: "largest circle of modules",
        found: circles.first().map_or(0, Vec::len),
        places: circles.iter().map(line).collect(),
    }
}

fn circles(package: &Package) -> Vec<Vec<String>> {
    let imports = Imports::of(package);
    let mut graph = DiGraph::<usize, ()>::new();
    let nodes: Vec<NodeIndex> = (0..package.modules.len()).map(|it| graph.add_node(it)).collect();
    for (from, module) in package.modules.iter().enumerate() {
        for to in imports.from(module).filter(|to| *to != from) {
            if let (Some(from), Some(to)) = (nodes.get(from), nodes.get(to)) {
                graph.update_edge(*from, *to, ());
            }
        }
    }
    let circles = tarjan_scc(&graph).into_iter().filter(|circle| circle.len() > 1);
    let file = |node: &NodeIndex| {
        let module = graph.node_weight(*node).and_then(|it| package.modules.get(*it));
        module.map_or_else(String::new, |module| module.file.clone())
    };
    circles
        .map(|circle| {
            let mut files: Vec<String> = circle.iter().map(file).collect();
            files.sort();
            files
        })
        .collect()
}

/// Which module a path leads to.
struct Imports<'a> {
    package: &'a Package,
    modules: HashMap<&'a [String], usize>,
    /// Names that a module passes on from another: by module and name, the path it stands for.
    passed_on: HashMap<(usize, String), Vec<String>>,
}

impl<'a> Imports<'a> {
    fn of(package: &'a Package) -> Self {
        let modules = package.modules.iter().enumerate();
        let mut imports = Imports {
            package,
            modules: modules.map(|(index, module)| (&*module.path, index)).collect(),
            passed_on: HashMap::new(),
        };
        for (index, module) in package.modules.iter().enumerate() {
            for item in &module.syntax.items {
                if let Item::Use(item) = item {
                    for (name, path) in leaves(&item.tree) {
                        let path = absolute(module, &path, &imports.modules);
                        if let Some(path) = path {
                            imports.passed_on.insert((index, name), path);
                        }
                    }
                }
            }
        }
        imports
    }

    /// The modules that a module names, by `use` or in place.
    fn from(&self, module: &Module) -> impl Iterator<Item = usize> {
        let mut paths = Paths::default();
        paths.visit_file(&module.syntax);
        let absolute = paths
            .found
            .iter()
            .filter_map(|path| absolute(module, path, &self.modules));
        let found: Vec<usize> = absolute.filter_map(|path| self.lead(&path, 0)).collect();
        found.into_iter()
    }

    /// The module where the thing at a path is defined.
    fn lead(&self, path: &[String], depth: usize) -> Option<usize> {
        let module_at = |end: usize| Some((end, *self.modules.get(path.get(..end)?)?));
        let (end, module) = (0..=path.len()).rev().find_map(module_at)?;
        let passed_on = path
            .get(end)
            .and_then(|name| self.passed_on.get(&(module, name.clone())));
        match passed_on {
            Some(further) if depth < 8 => {
                let rest = path.get(end + 1..).unwrap_or_default();
                let further: Vec<String> = further.iter().chain(rest).cloned().collect();
                self.lead(&further, depth + 1)
            }
            // What the root defines itself, macros mostly, is nobody's circle.
            _ => Some(module).filter(|module| *module != 0 || self.package.modules.len() == 1),
        }
    }
}

/// A path from the root of the package; nothing where it leads to another package.
fn absolute(module: &Module, path: &[String], modules: &HashMap<&[String], usize>) -> Option<Vec<String>> {
    let mut base = module.path.clone();
    let mut rest = path.iter().peekable();
    match rest.peek()?.as_str() {
        "crate" => {
            base.clear();
            rest.next();
        }
        "self" => {
            rest.next();
        }
        "super" => {
            while rest.next_if(|it| *it == "super").is_some() {
                base.pop();
            }
        }
        name => {
            let child: Vec<String> = base.iter().cloned().chain([name.to_owned()]).collect();
            modules.get(&*child)?;
        }
    }
    Some(base.into_iter().chain(rest.cloned()).collect())
}

/// The paths of a `use`, each with the name it brings.
fn leaves(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    match tree {
        UseTree::Path(path) => {
            let inner = leaves(&path.tree).into_iter();
            let first = path.ident.to_string();
            inner
                .map(|(name, rest)| match name.as_str() {
                    "self" => (first.clone(), vec![first.clone()]),
                    _ => (name, [first.clone()].into_iter().chain(rest).collect()),
                })
                .collect()
        }
        UseTree::Name(name) => vec![(name.ident.to_string(), vec![name.ident.to_string()])],
        UseTree::Rename(name) => vec![(name.rename.to_string(), vec![name.ident.to_string()])],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Glob(_) => Vec::new(),
    }
}

/// All paths of a module that may lead elsewhere.
#[derive(Default)]
struct Paths {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        // A name that is passed on is used by whoever imports it.
        if matches!(item.vis, syn::Visibility::Inherited) {
            self.found
                .extend(leaves(&item.tree).into_iter().map(|(_, path)| path));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if names.len() > 1 {
            self.found.push(names);
        }
        visit::visit_path(self, path);
    }
}
