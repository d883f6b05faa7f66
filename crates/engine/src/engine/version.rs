//! The version of the server, as the log, the metrics and the other instances see it.

use std::sync::LazyLock;

/// The build, such as the commit, if it was given to the compiler.
const BUILD: Option<&str> = match option_env!("FERMATA_BUILD") {
    Some(build) if build.is_empty() => None,
    told => told,
};

static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match BUILD {
        Some(build) => format!("{version} ({build})"),
        None => version.to_owned(),
    }
});

/// Returns the version with the build, such as `1.2.3 (0a1b2c3)`.
pub fn version() -> &'static str {
    &VERSION
}
