//! The modules of a crate, and the modules that the paths in them mean.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Item, ItemUse, visit::Visit};

use super::syntax::{Import, Names, PathReader, attributes, imports, is_test, name};

/// The texts of the files of a crate, by their paths below `src`.
pub type Sources = BTreeMap<String, String>;

/// The modules of a crate. The first one is its root.
#[derive(Default)]
pub struct Tree(Vec<Module>);

#[derive(Default)]
struct Module {
    file: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The names of the items that the module defines.
    defined: BTreeSet<String>,
    /// The paths that the module imports or re-exports, by the names that they get. A name may mean a module and a function.
    imported: BTreeMap<String, BTreeSet<Names>>,
    /// The modules with a glob import or re-export.
    globs: BTreeSet<Names>,
    /// All paths in the module.
    paths: BTreeSet<Names>,
}

/// Something in one module that is used in another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Use {
    pub file: String,
    pub item: String,
    pub from: String,
}

/// The uses between sibling modules, by the using and the used sibling.
type Arrows = BTreeMap<(usize, usize), BTreeSet<Use>>;

// === impl Tree ===

impl Tree {
    pub fn read(sources: &Sources, root: &str) -> Self {
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

    /// Returns the modules that define a path's meaning in a module, and nothing if that is in another crate.
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
    pub fn circles(&self) -> Vec<BTreeSet<Use>> {
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

fn parse(sources: &Sources, file: &str) -> Vec<Item> {
    syn::parse_file(&sources[file]).unwrap_or_else(|error| panic!("{file}: {error}")).items
}
