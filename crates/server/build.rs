//! Has the crate built again when the web demo is built, which the macro that embeds it cannot notice by itself.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo takes a path that is not there for one that has changed, and would build the crate each time: without a demo, its sources
    // are watched, in whose folder it appears; and outside the repository, where there are none, nothing.
    let watched =
        ["../../web-demo/dist", "../../web-demo"].into_iter().find(|folder| Path::new(folder).is_dir());
    if let Some(folder) = watched {
        println!("cargo::rerun-if-changed={folder}");
    }
}
