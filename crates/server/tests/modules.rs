//! The modules of each crate depend on each other in one direction.
//!
//! Sibling modules, each with everything below it, must not form a circle. What a module and the modules below it use of each other does not
//! count, because children are a part of their parent. A name that is re-exported counts as used from the module that defines it.
//!
//! The test reads paths. It does not see methods that are called on a value, and therefore not on which file an `impl` block is in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proc_macro2::{TokenStream, TokenTree};
use syn::{
    Attribute, ImplItemFn, Item, ItemUse, Local, Macro, Meta, UseTree,
    visit::{self, Visit},
};

/// The texts of the files of a crate, by their paths below `src`.
type Sources = BTreeMap<String, String>;

/// A path as it is written, in segments.
type Names = Vec<String>;

/// The modules of a crate. The first one is its root.
#[derive(Default)]
struct Tree(Vec<Module>);

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names of the items that the module defines.
    defined: BTreeSet<String>,
    /// The paths that the module imports or re-exports, by the names that they get. A name may mean a module and a function.
    imported: BTreeMap<String, BTreeSet<Names>>,
    /// The modules of which everything is imported or re-exported.
    globs: BTreeSet<Names>,
    /// All paths in the module.
    paths: BTreeSet<Names>,
}

/// Something in one module that is used in another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    file: String,
    item: String,
    from: String,
}

/// The uses between sibling modules, by the using and the used sibling.
type Arrows = BTreeMap<(usize, usize), BTreeSet<Use>>;

// === impl Tree ===

impl Tree {
    fn read(sources: &Sources, root: &str) -> Self {
        let mut tree = Self(vec![Module { file: root.to_owned(), ..Module::default() }]);
        let items = parse(sources, root);
        tree.read_items(sources, 0, "", &items);
        tree
    }

    /// Reads the items of a module, and the modules below it, whose files are in the folder.
    fn read_items(&mut self, sources: &Sources, module: usize, folder: &str, items: &[Item]) {
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(child) => {
                    let index = self.0.len();
                    let name = child.ident.to_string();
                    let below = format!("{folder}{name}/");
                    self.0[module].children.insert(name, index);
                    let parsed;
                    let (file, items) = match &child.content {
                        Some((_, items)) => (self.0[module].file.clone(), items),
                        None => {
                            let files =
                                [format!("{}.rs", below.trim_end_matches('/')), format!("{below}mod.rs")];
                            let file = files.into_iter().find(|file| sources.contains_key(file));
                            let file = file.unwrap_or_else(|| panic!("no file for the module {below}"));
                            parsed = parse(sources, &file);
                            (file, &parsed)
                        }
                    };
                    self.0.push(Module { file, parent: Some(module), ..Module::default() });
                    self.read_items(sources, index, &below, items);
                }
                Item::Use(import) => self.0[module].import(import),
                _ => self.0[module].defined.extend(name(item)),
            }
            PathReader(&mut self.0[module].paths).visit_item(item);
        }
    }

    /// Returns the modules that define what a path means in a module, and nothing if that is in another crate.
    fn resolve(
        &self,
        module: usize,
        path: &[String],
        seen: &mut BTreeSet<(usize, Names)>,
    ) -> BTreeSet<usize> {
        if !seen.insert((module, path.to_vec())) {
            return BTreeSet::new();
        }
        let mut start = module;
        let mut rest = path;
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => start = 0,
                "self" => {}
                "super" => start = self.0[start].parent.expect("a parent"),
                _ => break,
            }
            rest = after;
        }
        let found = self.find(start, rest, seen);
        // Names that a macro defines are not known, but their module is.
        if found.is_empty() && rest.len() < path.len() { BTreeSet::from([start]) } else { found }
    }

    fn find(&self, start: usize, path: &[String], seen: &mut BTreeSet<(usize, Names)>) -> BTreeSet<usize> {
        let [name, rest @ ..] = path else {
            return BTreeSet::from([start]);
        };
        let module = &self.0[start];
        let mut found = BTreeSet::new();
        if let Some(child) = module.children.get(name) {
            let below = self.find(*child, rest, seen);
            found.extend(if below.is_empty() { BTreeSet::from([*child]) } else { below });
        }
        if module.defined.contains(name) {
            found.insert(start);
        }
        for import in module.imported.get(name).into_iter().flatten() {
            let target = match (import.split_first(), module.children.get(name)) {
                // Such an import does not mean itself, but a module or a crate of that name.
                (Some((first, after)), child) if first == name => match child {
                    Some(child) => self.find(*child, &[after, rest].concat(), seen),
                    None => BTreeSet::new(),
                },
                _ => self.resolve(start, &[import.as_slice(), rest].concat(), seen),
            };
            // What is re-exported from another crate is used from the module that re-exports it.
            found.extend(if target.is_empty() { BTreeSet::from([start]) } else { target });
        }
        if found.is_empty() {
            for glob in &module.globs {
                for target in self.resolve(start, glob, seen) {
                    found.extend(self.find(target, path, seen));
                }
            }
        }
        found
    }

    /// Returns a module and its ancestors, from the root on.
    fn lineage(&self, module: usize) -> Vec<usize> {
        let mut lineage = match self.0[module].parent {
            Some(parent) => self.lineage(parent),
            None => Vec::new(),
        };
        lineage.push(module);
        lineage
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for (index, module) in self.0.iter().enumerate() {
            for path in &module.paths {
                for target in self.resolve(index, path, &mut BTreeSet::new()) {
                    let (from, to) = (self.lineage(index), self.lineage(target));
                    let siblings = from.iter().zip(&to).find(|(from, to)| from != to);
                    if let Some((from, to)) = siblings {
                        arrows.entry((*from, *to)).or_default().insert(Use {
                            file: module.file.clone(),
                            item: path.join("::"),
                            from: self.0[target].file.clone(),
                        });
                    }
                }
            }
        }
        arrows
    }

    /// Returns the circles, each as the uses between its modules.
    fn circles(&self) -> Vec<BTreeSet<Use>> {
        let arrows = self.arrows();
        let reached: BTreeMap<usize, BTreeSet<usize>> =
            (0..self.0.len()).map(|module| (module, reached(&arrows, module))).collect();
        let mut circles = BTreeMap::<BTreeSet<usize>, BTreeSet<Use>>::new();
        for ((from, to), uses) in arrows {
            if reached[&to].contains(&from) {
                let members = reached[&from].iter().filter(|member| reached[*member].contains(&from));
                circles.entry(members.copied().collect()).or_default().extend(uses);
            }
        }
        circles.into_values().map(without_repetitions).collect()
    }
}

/// Removes the uses of names that the same file imports by their paths.
fn without_repetitions(uses: BTreeSet<Use>) -> BTreeSet<Use> {
    let is_absolute =
        |used: &Use| ["crate::", "self::", "super::"].iter().any(|start| used.item.starts_with(start));
    let imported: BTreeSet<(String, String)> = uses
        .iter()
        .filter(|used| is_absolute(used))
        .map(|used| (used.file.clone(), used.from.clone()))
        .collect();
    let is_new =
        |used: &Use| is_absolute(used) || !imported.contains(&(used.file.clone(), used.from.clone()));
    uses.into_iter().filter(is_new).collect()
}

/// Returns the siblings that a module needs, directly or through others.
fn reached(arrows: &Arrows, module: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for (_, to) in arrows.keys().filter(|(from, _)| *from == next) {
            if reached.insert(*to) {
                open.push(*to);
            }
        }
    }
    reached
}

// === impl Module ===

impl Module {
    fn import(&mut self, import: &ItemUse) {
        if import.leading_colon.is_some() {
            return;
        }
        for Import { path, name } in imports(&import.tree) {
            match name {
                Some(name) => {
                    self.imported.entry(name).or_default().insert(path);
                }
                None => {
                    self.globs.insert(path);
                }
            }
        }
    }
}

/// A path of a `use` declaration, with the name that it gets unless it ends with `*`.
struct Import {
    path: Names,
    name: Option<String>,
}

fn imports(tree: &UseTree) -> Vec<Import> {
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
struct PathReader<'a>(&'a mut BTreeSet<Names>);

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

fn parse(sources: &Sources, file: &str) -> Vec<Item> {
    syn::parse_file(&sources[file]).unwrap_or_else(|error| panic!("{file}: {error}")).items
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
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

fn name(item: &Item) -> Option<String> {
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

fn sources_below(folder: &Path, prefix: &str, sources: &mut Sources) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let entry = entry.expect("an entry of the folder");
        let path = entry.path();
        let name = format!("{prefix}{}", entry.file_name().to_str().expect("a name in UTF-8"));
        if path.is_dir() {
            sources_below(&path, &format!("{name}/"), sources);
        } else if name.ends_with(".rs") {
            sources.insert(name, fs::read_to_string(&path).expect("a source"));
        }
    }
}

fn trees(sources: &Sources) -> Vec<Tree> {
    let roots = ["lib.rs", "main.rs"].into_iter().filter(|root| sources.contains_key(*root));
    roots.map(|root| Tree::read(sources, root)).collect()
}

/// Describes a circle by the uses that close it.
fn describe(crate_name: &str, uses: &BTreeSet<Use>) -> String {
    let lines = uses.iter().map(|Use { file, item, from }| format!("\n  {file} uses {item} of {from}"));
    format!("{crate_name}:{}", lines.collect::<String>())
}

#[test]
fn no_modules_form_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of the crates");
    let mut faults = Vec::new();
    for entry in fs::read_dir(crates).expect("the folder of the crates") {
        let entry = entry.expect("an entry of the folder");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let mut sources = Sources::new();
        sources_below(&entry.path().join("src"), "", &mut sources);
        assert!(sources.contains_key("lib.rs"), "{name} has no lib.rs");
        for tree in trees(&sources) {
            faults.extend(tree.circles().iter().map(|uses| describe(&name, uses)));
        }
    }
    assert!(faults.is_empty(), "modules that need each other:\n{}", faults.join("\n"));
}

#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&str]) {
    let sources = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let circles = trees(&sources).into_iter().flat_map(|tree| tree.circles());
    assert_eq!(circles.map(|uses| describe("made_up", &uses)).collect::<Vec<_>>(), expected);
}

#[test]
fn one_direction_is_no_circle() {
    check(
        &[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::{b::B, c}; pub struct A(B, c::C);"),
            ("b.rs", "use super::c::C; pub struct B(C);"),
            ("c.rs", "pub struct C;"),
        ],
        &[],
    );
}

#[test]
fn a_circle_is_found_with_each_of_its_uses() {
    check(
        &[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B as Other; pub struct A;"),
            ("b.rs", "pub struct B(super::c::C);"),
            ("c.rs", "pub struct C; fn c() { let _ = vec![crate::a::A]; }"),
            ("d.rs", "use crate::a::A;"),
        ],
        &[
            "made_up:\n  a.rs uses crate::b::B of b.rs\n  b.rs uses super::c::C of c.rs\n  c.rs uses crate::a::A of a.rs",
        ],
    );
}

#[test]
fn a_parent_and_its_children_may_use_each_other() {
    check(
        &[
            ("lib.rs", "mod a; pub use a::A; pub struct Root;"),
            ("a.rs", "mod b; use b::B; pub struct A(B);"),
            ("a/b.rs", "use super::A; use crate::Root; pub struct B;"),
        ],
        &[],
    );
}

#[test]
fn what_is_below_a_module_counts_as_the_module() {
    check(
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod below; pub struct A;"),
            ("a/below.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
        ],
        &["made_up:\n  a/below.rs uses crate::b::B of b.rs\n  b.rs uses crate::a::A of a.rs"],
    );
}

#[test]
fn a_circle_below_a_module_is_found() {
    check(
        &[
            ("lib.rs", "mod outer { pub mod a; pub mod b; }"),
            ("outer/a.rs", "use super::b::B; pub struct A;"),
            ("outer/b.rs", "use super::a::A; pub struct B;"),
        ],
        &[
            "made_up:\n  outer/a.rs uses super::b::B of outer/b.rs\n  outer/b.rs uses super::a::A of outer/a.rs",
        ],
    );
}

#[test]
fn re_exports_are_followed_to_the_definition() {
    check(
        &[
            ("lib.rs", "mod a; mod b; mod c; pub use a::*; pub use c::Again;"),
            ("a.rs", "mod inner; pub use self::inner::A; use crate::Again;"),
            ("a/inner.rs", "pub struct A;"),
            ("b.rs", "use crate::A; pub struct B;"),
            ("c.rs", "pub use crate::b::B as Again;"),
        ],
        &["made_up:\n  a.rs uses crate::Again of b.rs\n  b.rs uses crate::A of a/inner.rs"],
    );
}

#[test]
fn tests_do_not_count() {
    check(
        &[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            (
                "b.rs",
                "#[cfg(test)] use crate::a::A; pub struct B; #[cfg(test)] mod tests { use crate::a::A; }",
            ),
        ],
        &[],
    );
}
