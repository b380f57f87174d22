//! Atomic orderings without a reason: a comment that names the ordering, or its `SYNC` pair, in the same function above the use, or
//! on the declaration of the atomic in the same file.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::Measure;
use crate::source::{Module, Package, visit_each};

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// The uses that nothing explains.
pub(crate) fn unexplained(packages: &[Package]) -> Measure {
    let finders = visit_each(packages, |module| Finder {
        module,
        functions: Vec::new(),
        atomics: Vec::new(),
        places: Vec::new(),
    });
    Measure::count(
        "orderings without a reason",
        finders.flat_map(|finder| finder.places).collect(),
    )
}

struct Finder<'a> {
    module: &'a Module,
    /// First lines of the functions around, with their docs.
    functions: Vec<usize>,
    /// The atomics whose methods are being called around.
    atomics: Vec<String>,
    places: Vec<String>,
}

impl Finder<'_> {
    fn says_why(&self, line: &str) -> bool {
        let comment = line.split_once("//").map(|(_, comment)| comment);
        let names =
            |comment: &str| comment.contains("SYNC") || ORDERINGS.iter().any(|name| comment.contains(name));
        comment.is_some_and(names)
    }

    fn is_explained(&self, line: usize) -> bool {
        let first = self.functions.last().copied().unwrap_or(line);
        let above = self.module.text.lines().take(line).skip(first.saturating_sub(1));
        above.into_iter().any(|line| self.says_why(line))
            || self.atomics.iter().any(|it| self.is_declared_with_reason(it))
    }

    /// Whether the comment right above the declaration of a field or static of that name says why.
    fn is_declared_with_reason(&self, atomic: &str) -> bool {
        let mut reason = false;
        for line in self.module.text.lines().map(str::trim_start) {
            if line.starts_with("//") {
                reason |= self.says_why(line);
            } else if !line.starts_with('#') {
                let name = line
                    .split(':')
                    .next()
                    .and_then(|name| name.split(' ').next_back());
                if reason && name == Some(atomic) {
                    return true;
                }
                reason = false;
            }
        }
        false
    }

    fn inside(
        &mut self,
        attributes: &[syn::Attribute],
        at: proc_macro2::Span,
        visit: impl FnOnce(&mut Self),
    ) {
        let first = attributes.iter().map(|it| it.span().start().line);
        self.functions
            .push(first.chain([at.start().line]).min().unwrap_or(1));
        visit(self);
        self.functions.pop();
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.inside(&item.attrs, item.span(), |finder| {
            visit::visit_item_fn(finder, item)
        });
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.inside(&item.attrs, item.span(), |finder| {
            visit::visit_impl_item_fn(finder, item)
        });
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let atomic = match &*call.receiver {
            syn::Expr::Field(field) => match &field.member {
                syn::Member::Named(name) => name.to_string(),
                syn::Member::Unnamed(index) => index.index.to_string(),
            },
            syn::Expr::Path(path) => path
                .path
                .segments
                .last()
                .map(|it| it.ident.to_string())
                .unwrap_or_default(),
            _ => String::new(),
        };
        self.atomics.push(atomic);
        visit::visit_expr_method_call(self, call);
        self.atomics.pop();
    }

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        let mut names = path.path.segments.iter().rev().map(|it| it.ident.to_string());
        let (last, before) = (names.next(), names.next());
        let is_ordering =
            before.as_deref() == Some("Ordering") && last.is_some_and(|it| ORDERINGS.contains(&&*it));
        let line = path.span().start().line;
        if is_ordering && !self.is_explained(line) {
            let text = self.module.text.lines().nth(line - 1).unwrap_or_default();
            self.places.push(self.module.place(line, text.trim()));
        }
    }
}
