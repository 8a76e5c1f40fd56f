//! Bodies of requests and responses about roles, for the API description only. They are read and
//! built as the settings of a role, which have the same fields.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::words;

/// Settings of a role.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
pub(crate) struct RoleFields {
    /// Instructions for the model.
    system_prompt: String,
    /// Name of the model at the configured address.
    model: String,
    /// Sampling temperature, 0 to 1; null for the configured one.
    #[schema(required)]
    temperature: Option<f64>,
    /// Maximum length of an answer, in tokens; null for the configured one.
    #[schema(required)]
    max_tokens: Option<u32>,
    /// Maximum length of an answer, in seconds of speech; 0 for no limit, null for the configured one.
    #[schema(required)]
    answer_seconds: Option<u32>,
    /// Name of the synthesiser's voice.
    voice: String,
    /// Language of all answers, as a code; null to follow the user's language.
    #[schema(required)]
    language: Option<String>,
    /// Names of the disabled tool sources; `endpoint` stands for all tool clients, `token:SERIAL` for those with this token.
    tools_off: Vec<String>,
    /// Effect of speech during an answer; null for the configured one.
    #[schema(required)]
    interruption: Option<words::InterruptionManner>,
    /// Rules that may answer in place of the model; null for those that fit its instructions.
    #[schema(required)]
    instant: Option<words::InstantScope>,
    /// False if each question is answered without earlier ones.
    memory: bool,
    /// Content of conversations that is stored; null for the configured one.
    #[schema(required)]
    history: Option<words::Keep>,
    /// Tokens per day for all conversations with this role together; null for no limit.
    #[schema(required)]
    daily_tokens: Option<u64>,
    /// Seconds of speech per day, heard and spoken, for all of them together; null for no limit.
    #[schema(required)]
    daily_seconds: Option<u64>,
    /// Cost per day for all of them together, in the configured currency; null for no limit.
    #[schema(required)]
    daily_cost: Option<f64>,
}

/// Settings of a role in a request; `null` restores the configured value.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
struct RoleWishes {
    /// Instructions for the model, at most 8,000 characters.
    system_prompt: Option<String>,
    /// Name of the model at the configured address, at most 200 characters.
    model: Option<String>,
    /// Sampling temperature, 0 to 1.
    temperature: Option<f64>,
    /// Maximum length of an answer, in tokens, 1 to 100,000.
    max_tokens: Option<u32>,
    /// Maximum length of an answer, in seconds of speech, 0 to 3,600; 0 for no limit.
    answer_seconds: Option<u32>,
    /// Name of the synthesiser's voice, at most 200 characters.
    voice: Option<String>,
    /// Language of all answers, one of `languages` in the list of roles; null to follow the user's language.
    language: Option<String>,
    /// Names of the tool sources to disable, at most 100; `endpoint` stands for all tool clients, `token:SERIAL` for those with this token.
    tools_off: Option<Vec<String>>,
    /// Effect of speech during an answer.
    #[schema(value_type = Option<words::InterruptionManner>)]
    interruption: Option<String>,
    /// Rules that may answer in place of the model.
    #[schema(value_type = Option<words::InstantScope>)]
    instant: Option<String>,
    /// False to answer each question without earlier ones.
    memory: Option<bool>,
    /// Content of conversations to store.
    #[schema(value_type = Option<words::Keep>)]
    history: Option<String>,
    /// Tokens per day for all conversations with this role together; 0 allows none.
    daily_tokens: Option<u64>,
    /// Seconds of speech per day, heard and spoken, for all of them together; 0 allows none.
    daily_seconds: Option<u64>,
    /// Cost per day for all of them together, in the configured currency; 0 to 1,000,000,000.
    daily_cost: Option<f64>,
}

/// New role: its name, and the settings that differ from the configuration.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
pub(crate) struct NewRole {
    /// Name, 1 to 64 characters, unique among roles.
    name: String,
    #[serde(flatten)]
    settings: RoleWishes,
}

/// Changes to a role; omitted fields stay as they are.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
pub(crate) struct RoleChange {
    /// Name, 1 to 64 characters, unique among roles.
    #[schema(nullable = false)]
    name: Option<String>,
    #[serde(flatten)]
    settings: RoleWishes,
}

/// Request to try a role: the words of a user, and the settings that differ from the configuration.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
pub(crate) struct RoleTrial {
    /// Words to answer, 1 to 4,000 characters.
    text: String,
    #[serde(flatten)]
    settings: RoleWishes,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hearken_ports::role::RoleSettings;
    use serde_json::json;
    use utoipa::PartialSchema;

    use super::*;

    fn fields<T: PartialSchema>() -> BTreeSet<String> {
        let schema = json!(T::schema());
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn the_fields_of_a_role_are_those_of_its_settings() {
        let settings = json!(RoleSettings::default());
        let settings: BTreeSet<String> = settings.as_object().unwrap().keys().cloned().collect();
        assert_eq!(fields::<RoleFields>(), settings);
        assert_eq!(fields::<RoleWishes>(), settings);
    }
}
