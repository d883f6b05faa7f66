//! Has the crate built again when the web demo is built, which the macro that embeds it cannot notice by itself.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // web-demo is a link to the folder where the demo is built. Cargo takes a path that is not there for one that has changed, and would
    // build the crate each time: without a demo, its sources are watched, in whose folder it appears.
    let watched = ["web-demo", "../../web-demo"].into_iter().find(|folder| Path::new(folder).is_dir());
    if let Some(folder) = watched {
        println!("cargo::rerun-if-changed={folder}");
    }
}
