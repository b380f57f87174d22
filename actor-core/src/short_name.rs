//! Names of types, as texts for users have them.

/// The name of a type without the modules in front of it, in its arguments too.
pub(crate) fn short(type_name: &str) -> String {
    let mut short = String::new();
    for part in type_name.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_' && c != ':') {
        short.push_str(part.rsplit("::").next().unwrap_or(part));
    }
    short
}
