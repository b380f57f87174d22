//! Public items without documentation, whether other packages can reach them or not.

use syn::visit::{self, Visit};
use syn::{Attribute, Visibility};

use crate::Measure;
use crate::source::{Module, Package, visit_each};

/// The public items, methods and fields that say nothing of themselves.
pub(crate) fn missing(packages: &[Package]) -> Measure {
    let finders = visit_each(packages, |module| Finder {
        module,
        places: Vec::new(),
    });
    Measure::count(
        "public items without docs",
        finders.flat_map(|finder| finder.places).collect(),
    )
}

struct Finder<'a> {
    module: &'a Module,
    places: Vec<String>,
}

impl Finder<'_> {
    fn check(&mut self, visibility: &Visibility, attributes: &[Attribute], name: &syn::Ident) {
        let documented = attributes.iter().any(|it| it.path().is_ident("doc"));
        if matches!(visibility, Visibility::Public(_)) && !documented {
            let line = name.span().start().line;
            self.places.push(self.module.place(line, &name.to_string()));
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.vis, &item.attrs, &item.sig.ident);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.check(&item.vis, &item.attrs, &item.ident);
        for field in &item.fields {
            if let Some(name) = &field.ident {
                self.check(&field.vis, &field.attrs, name);
            }
        }
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.check(&item.vis, &item.attrs, &item.ident);
        for variant in &item.variants {
            self.check(&item.vis, &variant.attrs, &variant.ident);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.check(&item.vis, &item.attrs, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.check(&item.vis, &item.attrs, &item.ident);
    }
}
