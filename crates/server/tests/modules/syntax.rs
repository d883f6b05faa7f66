//! Names and paths in the syntax tree of a file. Tests are left out.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, ImplItemFn, Item, ItemUse, Local, Macro, Meta, UseTree,
    visit::{self, Visit},
};

/// A path as it is written, in segments.
pub type Names = Vec<String>;

/// A path of a `use` declaration, with the name that it gets unless it ends with `*`.
pub struct Import {
    pub path: Names,
    pub name: Option<String>,
}

pub fn imports(tree: &UseTree) -> Vec<Import> {
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            let mut imports = imports(&path.tree);
            for import in &mut imports {
                if import.path == ["self"] {
                    import.path.clear();
                    import.name =
                        import.name.take().map(|name| if name == "self" { first.clone() } else { name });
                }
                import.path.insert(0, first.clone());
            }
            imports
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            vec![Import { path: vec![name.clone()], name: Some(name) }]
        }
        UseTree::Rename(rename) => {
            vec![Import { path: vec![rename.ident.to_string()], name: Some(rename.rename.to_string()) }]
        }
        UseTree::Glob(_) => vec![Import { path: Vec::new(), name: None }],
        UseTree::Group(group) => group.items.iter().flat_map(imports).collect(),
    }
}

/// Collects the paths in an item, but not those in the modules and the tests that it contains.
pub struct PathReader<'a>(pub &'a mut BTreeSet<Names>);

// === impl PathReader ===

impl PathReader<'_> {
    /// Collects the paths in the arguments of a macro, which are no syntax tree.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let mut path = Names::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(&mut path);
                    }
                    path.push(ident.to_string());
                }
                TokenTree::Group(group) => {
                    self.add(&mut path);
                    self.read_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.add(&mut path),
            }
            colons = 0;
        }
        self.add(&mut path);
    }

    fn add(&mut self, path: &mut Names) {
        // A single word is a field or a variable, or a name that was imported by a path.
        if path.len() > 1 {
            self.0.insert(path.clone());
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for PathReader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) && !matches!(item, Item::Mod(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !is_test(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        if import.leading_colon.is_none() {
            self.0.extend(imports(&import.tree).into_iter().map(|import| import.path));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.0.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        visit::visit_macro(self, call);
        self.read_tokens(call.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        visit::visit_attribute(self, attribute);
        if let Meta::List(list) = &attribute.meta {
            self.read_tokens(list.tokens.clone());
        }
    }
}

pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

pub fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
