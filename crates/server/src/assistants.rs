//! The assistants and their models, built from the settings.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fermata_engine::{
    Assistants, Model,
    assistants::{Assistant, Audience, DEFAULT_ASSISTANT, ModelChoice, ToolSelection},
    plan::PlanTriggers,
};
use fermata_protocol::PlanMode;
use fermata_providers::{BuildError, Demo, Provider};
use fermata_tools::Pattern;

use crate::{
    config::{AssistantSettings, Builtin, Config, ModelSettings, NonEmpty},
    tools,
};

/// The defaults of an assistant's settings.
struct Defaults {
    builtin: Vec<Builtin>,
    plan: PlanMode,
}

/// Builds the assistants. `own_model` stands in place of the model of the main settings.
///
/// # Errors
/// Returns an error if a model cannot be built.
pub fn build(config: &Config, own_model: Option<Arc<dyn Model>>) -> Result<Assistants, BuildError> {
    // Who tries the demo is to see everything.
    let is_demo = own_model.is_none() && has_demo(config);
    let is_own = own_model.is_some();
    let builtin = match &config.assistant.builtin {
        Some(groups) => groups.to_vec(),
        None if is_demo => vec![Builtin::Time, Builtin::Notes, Builtin::Memory, Builtin::AskUser],
        None => vec![Builtin::Time, Builtin::Notes],
    };
    let plan = config.plans.plan.unwrap_or(if is_demo { PlanMode::Ask } else { PlanMode::Off });
    let defaults = Defaults { builtin, plan };
    let main = match own_model {
        Some(model) => model,
        None => fermata_providers::build(config.provider()?)?,
    };
    let context = if is_demo {
        config.model.context_window.or(Some(Demo::CONTEXT))
    } else {
        config.model.context_window
    };
    let main = ModelChoice { context, ..ModelChoice::of(main) };
    let mut models = BTreeMap::from([(main.name.clone(), main.clone())]);
    let mut named = config.tables.assistants.values().flat_map(|assistant| assistant.models.iter().flatten());
    if !models.contains_key(Demo::NAME) && named.any(|name| name.0 == Demo::NAME) {
        let demo = fermata_providers::build(Provider::Demo(Demo::new()))?;
        models.insert(Demo::NAME.to_owned(), ModelChoice::of(demo));
    }
    for (name, settings) in &config.tables.models {
        let choice = ModelChoice {
            name: name.clone(),
            model: fermata_providers::build(settings.provider(config)?)?,
            context: settings.context.or(config.model.context_window),
            settings: settings.settings.0.clone(),
            limits: settings.limits.0.clone(),
            pass: texts(&settings.pass),
        };
        models.insert(name.clone(), choice);
    }
    // A table with the name of the model of the main settings says more about it.
    let main = if is_own { main } else { models[&main.name].clone() };
    let mut others = BTreeMap::new();
    for (name, settings) in &config.tables.assistants {
        others.insert(name.clone(), assistant(settings, config, &defaults, &main, &models));
    }
    let default = others.remove(DEFAULT_ASSISTANT);
    let summary_model = match &config.model.summary_model {
        None => None,
        Some(name) => match models.get(name) {
            Some(choice) => Some(choice.clone()),
            None => {
                let settings =
                    ModelSettings { model: Some(NonEmpty(name.clone())), ..ModelSettings::default() };
                Some(ModelChoice::of(fermata_providers::build(settings.provider(config)?)?))
            }
        },
    };
    let default = default.unwrap_or_else(|| Assistant::answered_by(main));
    let plan_triggers =
        PlanTriggers { over: config.plans.plan_over.get(), verbs: config.plans.plan_verbs.to_vec() };
    Ok(Assistants { default, others, summary_model, plan_triggers })
}

/// Returns whether the demo model is the one of the main settings.
pub fn has_demo(config: &Config) -> bool {
    matches!(config.provider(), Ok(Provider::Demo(_)))
}

fn assistant(
    settings: &AssistantSettings,
    config: &Config,
    defaults: &Defaults,
    main: &ModelChoice,
    models: &BTreeMap<String, ModelChoice>,
) -> Assistant {
    // The settings were checked: each of these is a model.
    let mut named = settings.models.iter().flatten().filter_map(|name| models.get(&name.0)).cloned();
    let model = named.next().unwrap_or_else(|| main.clone());
    let groups = settings.builtin.as_ref().unwrap_or(&defaults.builtin);
    let absent = Builtin::ALL.into_iter().filter(|group| !groups.contains(group));
    let mut without: BTreeSet<String> =
        absent.flat_map(tools::names_of).map(|name| (*name).to_owned()).collect();
    if settings.builtin.is_some() || config.assistant.builtin.is_some() {
        // Who names the groups gets no others.
        without.extend(tools::OF_DEMO.map(str::to_owned));
    }
    let names = settings.tools.as_ref();
    let patterns = |globs: &Vec<NonEmpty>| globs.iter().map(|glob| Pattern::new(&glob.0)).collect::<Vec<_>>();
    let audience = match (&settings.owners, &settings.groups) {
        (None, None) => None,
        (owners, groups) => Some(Audience {
            owners: owners.as_ref().map(patterns).unwrap_or_default(),
            groups: groups.as_ref().map(patterns).unwrap_or_default(),
        }),
    };
    Assistant {
        title: settings.title.as_ref().map(|title| title.0.clone()),
        instructions: settings.instructions.clone(),
        client_system: settings.client_system.unwrap_or(config.assistant.client_system),
        model,
        other_models: named.collect(),
        tools: ToolSelection { names: names.map(patterns), without },
        remembers: groups.contains(&Builtin::Memory),
        asks_user: groups.contains(&Builtin::AskUser),
        plan: settings.plan.unwrap_or(defaults.plan),
        suggestions: texts(&settings.suggestions),
        audience,
    }
}

fn texts(texts: &[NonEmpty]) -> Vec<String> {
    texts.iter().map(|text| text.0.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::config::Invocation;

    #[test]
    fn a_table_with_the_name_of_the_main_model_says_more_about_it() {
        let arguments = ["fermata", "--model", "m", "--openai-base-url", "http://localhost:1/v1"];
        let read = Invocation::read(arguments.map(Into::into), &|_| None);
        let Ok(Invocation::Serve(mut config)) = read else { panic!("these settings serve nothing") };
        let context = |config: &Config| build(config, None).unwrap().default.model.context;
        assert_eq!(context(&config), None);
        let settings = ModelSettings { context: NonZeroU32::new(5_000), ..ModelSettings::default() };
        config.tables.models.insert("other".to_owned(), settings.clone());
        assert_eq!(context(&config), None);
        config.tables.models.insert("m".to_owned(), settings);
        assert_eq!(context(&config), NonZeroU32::new(5_000));
    }
}
