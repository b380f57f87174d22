//! Lines that a rule forbids: the rules that a look at single lines of code can check.

use syn::{Attribute, Item};

use crate::Measure;
use crate::source::{Module, Package};

/// The modules of the compiler with effects; all others are functions over plain values.
const EFFECTS: [&str; 3] = ["api", "load", "run"];

/// The allowances of unsafe code that say no reason on their line.
pub(crate) fn unsafe_without_reason(packages: &[Package]) -> Measure {
    let unexplained =
        |line: &str| line.contains("allow(unsafe_code") && !line.contains("//") && !line.contains("reason =");
    Measure::count(
        "unsafe code allowed without a reason",
        found(packages, |_| true, unexplained),
    )
}

/// The waits that nothing but a clock can end.
pub(crate) fn sleeps(packages: &[Package]) -> Measure {
    Measure::count(
        "sleeps",
        found(packages, |_| true, |line| line.contains("thread::sleep")),
    )
}

/// The errors whose text says the error that made them, and that return that one as their source too: whoever prints an error with its
/// sources would print that one twice. The text says all, so that it can be printed by itself.
pub(crate) fn doubled_sources(packages: &[Package]) -> Measure {
    let modules = packages.iter().flat_map(|package| &package.modules);
    let places = modules.flat_map(|module| {
        let mut is_transparent = false;
        let mut is_doubled = move |line: &str| {
            if line.starts_with("#[error(") {
                is_transparent = line.contains("(transparent)");
            }
            line.contains("#[source]")
                || line.contains("fn source(&self) -> Option<&(dyn")
                || (line.contains("#[from]") && !is_transparent)
        };
        let doubled = code(module).filter(move |(_, line)| is_doubled(line));
        let named = module.syntax.items.iter().flat_map(fields_called_source);
        doubled
            .map(|(number, line)| module.place(number, line))
            .chain(named.map(|number| module.place(number, "a field `source`")))
    });
    Measure::count("errors that give their source twice", places.collect())
}

/// The lines of the fields that an error returns as its source because of their name.
fn fields_called_source(item: &Item) -> Vec<usize> {
    let (attributes, all_fields) = match item {
        Item::Enum(item) => (&item.attrs, item.variants.iter().map(|it| &it.fields).collect()),
        Item::Struct(item) => (&item.attrs, vec![&item.fields]),
        _ => return Vec::new(),
    };
    let derives = |attribute: &Attribute| {
        let list = attribute
            .meta
            .require_list()
            .ok()
            .filter(|list| list.path.is_ident("derive"));
        list.is_some_and(|list| list.tokens.to_string().contains("Error"))
    };
    if !attributes.iter().any(derives) {
        return Vec::new();
    }
    let names = all_fields
        .into_iter()
        .flatten()
        .filter_map(|field| field.ident.as_ref());
    let sources = names.filter(|name| *name == "source");
    sources.map(|name| name.span().start().line).collect()
}

/// The lines of the compiler's stages whose result may differ from run to run.
pub(crate) fn chance(packages: &[Package]) -> Measure {
    let is_stage = |module: &Module| {
        let effects = module.path.first().is_some_and(|it| EFFECTS.contains(&&**it));
        module.file.starts_with("dag-compiler/") && !effects
    };
    let names = ["HashMap", "HashSet", "Instant", "SystemTime"];
    let by_chance = |line: &str| names.iter().any(|name| line.contains(name));
    Measure::count(
        "clocks and hash maps in the compiler",
        found(packages, is_stage, by_chance),
    )
}

/// The lines outside the folders `platform/` that name something of one operating system.
pub(crate) fn systems(packages: &[Package]) -> Measure {
    let is_elsewhere = |module: &Module| module.path.first().is_none_or(|it| it != "platform");
    let names = [
        "rustix::",
        "libc::",
        "std::os::",
        "tokio::net::unix",
        "target_os",
        "\"/proc",
        "\"/dev/shm",
    ];
    Measure::count(
        "lines of one system outside `platform`",
        found(packages, is_elsewhere, |line| {
            names.iter().any(|name| line.contains(name))
        }),
    )
}

fn found(
    packages: &[Package],
    among: impl Fn(&Module) -> bool,
    forbidden: impl Fn(&str) -> bool,
) -> Vec<String> {
    let modules = packages.iter().flat_map(|package| &package.modules);
    let lines = modules
        .filter(|module| among(module))
        .flat_map(|module| code(module).map(move |(number, line)| (module, number, line)));
    let found = lines.filter(|(_, _, line)| forbidden(line));
    found
        .map(|(module, number, line)| module.place(number, line))
        .collect()
}

/// The lines of a module with their numbers, without comments.
fn code(module: &Module) -> impl Iterator<Item = (usize, &str)> {
    let lines = module.lines().map(|(number, line)| (number, line.trim()));
    lines.filter(|(_, line)| !line.starts_with("//"))
}
