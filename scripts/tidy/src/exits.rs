//! Silent exits: a look into a table by index whose failure ends the function as if nothing were wrong.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::Measure;
use crate::source::{Module, Package, visit_each};

/// The `let … = table.get(index) else { … }` whose other branch tells nobody.
pub(crate) fn silent(packages: &[Package]) -> Measure {
    let finders = visit_each(packages, |module| Finder {
        module,
        places: Vec::new(),
    });
    Measure::count(
        "silent exits on an index",
        finders.flat_map(|finder| finder.places).collect(),
    )
}

struct Finder<'a> {
    module: &'a Module,
    places: Vec<String>,
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_local(&mut self, local: &'ast syn::Local) {
        if let Some(init) = &local.init
            && let Some((_, diverge)) = &init.diverge
        {
            let (mut looks, mut tells) = (Calls::default(), Calls::default());
            looks.visit_expr(&init.expr);
            tells.visit_expr(diverge);
            let indexes = looks
                .methods
                .iter()
                .any(|name| name == "get" || name == "get_mut");
            if indexes && !tells.errs {
                let line = local.span().start().line;
                let text = self.module.text.lines().nth(line - 1).unwrap_or_default();
                self.places.push(self.module.place(line, text.trim()));
            }
        }
        visit::visit_local(self, local);
    }
}

/// The methods called in an expression, and whether it makes an error.
#[derive(Default)]
struct Calls {
    methods: Vec<String>,
    errs: bool,
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        // A key into a map is no index.
        let by_reference = matches!(call.args.first(), Some(syn::Expr::Reference(_)));
        if !by_reference {
            self.methods.push(call.method.to_string());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|it| it.ident.to_string());
        self.errs |= names
            .into_iter()
            .any(|it| it == "Err" || it.ends_with("Error") || it.contains("internal"));
        visit::visit_path(self, path);
    }
}
