//! The settings as options of the command line.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::{SETTINGS, Setting};

/// The settings that are options, by key.
#[derive(Default)]
pub(super) struct Options(BTreeMap<&'static str, String>);

// === impl Options ===

impl Options {
    /// Returns the text of an option.
    pub(super) fn get(&self, key: &str) -> Option<&String> {
        self.0.get(key)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let options = SETTINGS.iter().filter(|setting| setting.variable.is_some());
        let texts = options.map(|Setting { key, .. }| (*key, matches.get_one::<String>(key)));
        Ok(Self(texts.filter_map(|(key, text)| Some((key, text?.clone()))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Options {
    fn augment_args(command: Command) -> Command {
        command.args(SETTINGS.iter().filter_map(Setting::option))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

// === impl Setting ===

impl Setting {
    /// Returns the option; `None` if only the file has the setting.
    fn option(&self) -> Option<Arg> {
        let variable = self.variable?;
        let default = match self.default {
            Some(default) if !default.is_empty() => format!(" [default: {default}]"),
            Some(_) | None => String::new(),
        };
        let help = format!("{} [env: {variable}]{default}", self.about);
        let option = Arg::new(self.key).long(self.key.replace('_', "-")).value_name((self.value_name)());
        Some(option.help_heading(self.group).help(help))
    }
}
