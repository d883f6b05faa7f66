//! Has the crate built again when a migration is added, which the macro that embeds them cannot notice by itself.

fn main() {
    println!("cargo::rerun-if-changed=../../migrations/sqlite");
}
