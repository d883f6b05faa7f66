//! The modules of each crate depend on each other in one direction.
//!
//! Sibling modules, each with everything below it, must not form a circle. What a module and the modules below it use of each other does not
//! count, because children are a part of their parent. A name that is re-exported counts as used from the module that defines it.
//!
//! The test reads paths. It does not see methods that are called on a value, and therefore not the file of an `impl` block.

mod syntax;
mod tree;

use std::{collections::BTreeSet, fs, path::Path};

use self::tree::{Sources, Tree, Use};

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
