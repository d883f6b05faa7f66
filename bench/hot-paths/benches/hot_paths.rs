//! Times the hot paths: `cargo bench -p fermata-hot-paths`. `make bench` runs it.

use divan::{Bencher, counter::ItemsCount};
use fermata_hot_paths::{ALL, HotPath};

fn main() {
    divan::main();
}

#[divan::bench(args = ALL, sample_size = 1)]
fn hot_path(bencher: Bencher<'_, '_>, path: &HotPath) {
    let round = path.prepare().expect("the path can be prepared");
    bencher.counter(ItemsCount::new(path.items)).bench_local(round);
}
