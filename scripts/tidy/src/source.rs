//! The modules of a package, found from its `lib.rs` and parsed; items that only tests compile are left out.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::Context;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, File, Item, ItemMod, Lit};

/// A package of the library.
pub(crate) struct Package {
    /// Its modules, the root first.
    pub(crate) modules: Vec<Module>,
}

/// A module that has a file of its own.
pub(crate) struct Module {
    /// The names on the way from the root, which has none.
    pub(crate) path: Vec<String>,
    /// The file, from the repository's root.
    pub(crate) file: String,
    /// The text of the file.
    pub(crate) text: String,
    /// The items that are not only for tests.
    pub(crate) syntax: File,
    /// Lines of items that are only for tests.
    tests: Vec<RangeInclusive<usize>>,
}

impl Module {
    /// The lines of the file with their numbers from 1, without those of tests.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let numbered = self
            .text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line));
        numbered.filter(|(number, _)| !self.tests.iter().any(|lines| lines.contains(number)))
    }

    /// A place in the file, for people.
    pub(crate) fn place(&self, line: usize, said: &str) -> String {
        format!("{}:{line}: {said}", self.file)
    }
}

impl Package {
    /// Reads the package in a folder of the repository.
    ///
    /// # Errors
    /// A file cannot be read or is no Rust.
    pub(crate) fn read(root: &Path, folder: &str) -> anyhow::Result<Self> {
        let mut package = Package { modules: Vec::new() };
        package.add(root, &root.join(folder).join("src/lib.rs"), Vec::new())?;
        Ok(package)
    }

    fn add(&mut self, root: &Path, file: &Path, path: Vec<String>) -> anyhow::Result<()> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let mut syntax = syn::parse_file(&text).with_context(|| file.display().to_string())?;
        let mut tests = Vec::new();
        syntax.items.retain(|item| {
            let is_test = attributes(item).iter().any(is_for_tests);
            if is_test {
                let span = item.span();
                let first = attributes(item).first().map_or(span, Spanned::span);
                tests.push(first.start().line..=span.end().line);
            }
            !is_test
        });
        let children = syntax.items.iter().filter_map(|item| match item {
            Item::Mod(module) if module.content.is_none() => {
                Some((module.ident.to_string(), named_file(module)))
            }
            _ => None,
        });
        let children: Vec<_> = children.collect();
        let shown = file.strip_prefix(root).unwrap_or(file);
        self.modules.push(Module {
            file: shown.display().to_string().trim_start_matches("./").to_owned(),
            path: path.clone(),
            text,
            syntax,
            tests,
        });
        for (child, named) in children {
            let file = match named {
                Some(name) => file.with_file_name(name),
                None => child_file(file, &path, &child)?,
            };
            let path = path.iter().cloned().chain([child]).collect();
            self.add(root, &file, path)?;
        }
        Ok(())
    }
}

/// The file that `#[path = "…"]` names for a module.
fn named_file(module: &ItemMod) -> Option<String> {
    let named = module.attrs.iter().find(|it| it.path().is_ident("path"))?;
    let syn::Meta::NameValue(named) = &named.meta else {
        return None;
    };
    match &named.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(name), ..
        }) => Some(name.value()),
        _ => None,
    }
}

/// The file where `mod child;` of a file is found.
fn child_file(parent: &Path, path: &[String], child: &str) -> anyhow::Result<PathBuf> {
    let folder = parent.parent().unwrap_or(parent);
    let is_folder = path.is_empty() || parent.ends_with("mod.rs");
    let folder = if is_folder {
        folder.to_owned()
    } else {
        parent.with_extension("")
    };
    let found = [format!("{child}.rs"), format!("{child}/mod.rs")].map(|name| folder.join(name));
    let found = found.into_iter().find(|file| file.exists());
    found.with_context(|| format!("`mod {child}` of {}", parent.display()))
}

/// The attributes of an item.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Whether an attribute says that its item is compiled for tests only.
fn is_for_tests(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let condition = list.tokens.to_string();
    list.path.is_ident("cfg")
        && (condition == "test" || condition.starts_with("all (test") || condition.contains(", test,"))
}
