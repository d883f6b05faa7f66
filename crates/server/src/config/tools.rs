//! `[tools."glob"]`: what is set for tools by name.

use fermata_tools::{Resource, ResourcePart, ToolSettings};
use toml::de::DeValue;

use super::{
    entry::{Entry, Fault},
    value::Duration,
};

/// Reads the settings of the tools under one glob.
pub(super) fn read(tools: &Entry<'_>) -> Result<ToolSettings, Fault> {
    let mut settings = ToolSettings::default();
    for entry in tools.entries_among(&["resource", "timeout", "repeatable"])? {
        match entry.name {
            "resource" => settings.resource = Some(resource(&entry)?),
            "timeout" => settings.timeout = Some(timeout(&entry)?),
            _ => settings.repeatable = Some(entry.truth()?),
        }
    }
    Ok(settings)
}

fn timeout(entry: &Entry<'_>) -> Result<std::time::Duration, Fault> {
    let Duration(timeout) = entry.read()?;
    if timeout.is_zero() { Err(entry.fault("no call can run for no time")) } else { Ok(timeout) }
}

/// A name, or the field of the input that has it.
fn resource(entry: &Entry<'_>) -> Result<Resource, Fault> {
    match entry.value() {
        DeValue::String(_) => entry.words().map(Resource::named),
        DeValue::Table(_) => {
            let (mut field, mut part) = (None, ResourcePart::Whole);
            for entry in entry.entries_among(&["input", "part"])? {
                match entry.name {
                    "input" => field = Some(entry.words()?),
                    _ => part = entry.read()?,
                }
            }
            let field = field.ok_or_else(|| entry.fault("needs input = \"the field that names it\""))?;
            Ok(Resource::Input { field, part })
        }
        DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_) => Err(entry.fault("must be a name or { input = \"field\" }")),
    }
}
