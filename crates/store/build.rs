//! Has the crate built again when a migration is added, which the macro that embeds them cannot notice by itself.

fn main() {
    for database in ["sqlite", "postgres"] {
        println!("cargo::rerun-if-changed=../../migrations/{database}");
    }
}
