//! The modules of a package, found from its `lib.rs` and parsed; items that only tests compile stand apart.

use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::Context;
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, Expr, ExprLit, File, Item, ItemMod, Lit};

/// A package of the library.
#[derive(Default)]
pub(crate) struct Package {
    /// Its modules, the root first.
    pub(crate) modules: Vec<Module>,
    /// The items that only tests compile, by file.
    pub(crate) tests: Vec<Module>,
}

/// A module that has a file of its own.
pub(crate) struct Module {
    /// The names on the way from the root, which has none.
    pub(crate) path: Vec<String>,
    /// The file, from the repository's root.
    pub(crate) file: String,
    /// The text of the file.
    pub(crate) text: String,
    /// The items, either those for tests only or the others.
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
        let mut package = Package::default();
        let file = root.join(folder).join("src/lib.rs");
        package.add_file(root, &file, Vec::new(), false)?;
        Ok(package)
    }

    /// All modules, each with whether only tests compile it.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Module, bool)> {
        let modules = self.modules.iter().map(|module| (module, false));
        modules.chain(self.tests.iter().map(|module| (module, true)))
    }

    fn add_file(&mut self, root: &Path, file: &Path, path: Vec<String>, is_test: bool) -> anyhow::Result<()> {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let shown = shown.trim_start_matches("./");
        let children = self
            .add_text(shown, text, &path, is_test)
            .with_context(|| file.display().to_string())?;
        for child in children {
            let child_path = path.iter().cloned().chain([child.name.clone()]).collect();
            let file = match child.file {
                Some(name) => file.with_file_name(name),
                None => child_file(file, &path, &child.name)?,
            };
            self.add_file(root, &file, child_path, child.is_test)?;
        }
        Ok(())
    }

    /// Adds the module of a file with this text; returns the modules that have files of their own.
    pub(crate) fn add_text(
        &mut self,
        file: &str,
        text: String,
        path: &[String],
        is_test: bool,
    ) -> syn::Result<Vec<Child>> {
        let mut syntax = syn::parse_file(&text)?;
        let for_tests = |item: &Item| is_test || attributes(item).iter().any(is_for_tests);
        let (tests, items): (Vec<_>, Vec<_>) = syntax.items.drain(..).partition(for_tests);
        let children = |items: &[Item], is_test| -> Vec<Child> {
            items.iter().filter_map(|item| child(item, is_test)).collect()
        };
        let found = [children(&items, false), children(&tests, true)].concat();
        let module = |items: Vec<Item>, tests| Module {
            path: path.to_owned(),
            file: file.to_owned(),
            text: text.clone(),
            syntax: File {
                items,
                ..syntax.clone()
            },
            tests,
        };
        if !is_test {
            self.modules
                .push(module(items, tests.iter().map(lines).collect()));
        }
        self.tests.push(module(tests, Vec::new()));
        Ok(found)
    }
}

/// A module that is declared in one file and has another file.
#[derive(Clone)]
pub(crate) struct Child {
    name: String,
    /// The file that `#[path = "…"]` names.
    file: Option<String>,
    is_test: bool,
}

fn child(item: &Item, is_test: bool) -> Option<Child> {
    let Item::Mod(module) = item else { return None };
    module.content.is_none().then(|| Child {
        name: module.ident.to_string(),
        file: named_file(module),
        is_test,
    })
}

/// The lines of an item, from its first attribute on.
fn lines(item: &Item) -> RangeInclusive<usize> {
    let first = attributes(item).first().map_or(item.span(), Spanned::span);
    first.start().line..=item.span().end().line
}

/// Visits each module of the packages with a visitor of its own.
pub(crate) fn visit_each<'a, V: Visit<'a>>(
    packages: &'a [Package],
    visitor: impl Fn(&'a Module) -> V,
) -> impl Iterator<Item = V> {
    let modules = packages.iter().flat_map(|package| &package.modules);
    modules.map(move |module| {
        let mut visitor = visitor(module);
        visitor.visit_file(&module.syntax);
        visitor
    })
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
pub(crate) fn is_for_tests(attribute: &Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else {
        return false;
    };
    let condition = list.tokens.to_string();
    list.path.is_ident("cfg")
        && (condition == "test" || condition.starts_with("all (test") || condition.contains(", test,"))
}
