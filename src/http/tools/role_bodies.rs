//! Bodies about roles, as the description of the API tells them. Not for reading or building them: their fields are those of
//! the settings of a role.

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
    /// 0 to 1.
    #[schema(required)]
    temperature: Option<f64>,
    /// Longest answer, in tokens.
    #[schema(required)]
    max_tokens: Option<u32>,
    /// Name of the synthesiser's voice.
    voice: String,
    /// Language of all answers; `null` follows the person.
    #[schema(required)]
    language: Option<String>,
    /// Names of sources of tools that it does not have.
    tools_off: Vec<String>,
    /// What voice does while an answer is played.
    #[schema(required)]
    interruption: Option<words::InterruptionManner>,
    /// False if each question stands alone.
    memory: bool,
    /// How much is kept of its conversations.
    #[schema(required)]
    history: Option<words::Keep>,
    /// Tokens that all who have it may use in a day, together.
    #[schema(required)]
    daily_tokens: Option<u64>,
    /// Seconds of speech that they may use in a day.
    #[schema(required)]
    daily_seconds: Option<u64>,
    /// Cost that they may cause in a day.
    #[schema(required)]
    daily_cost: Option<f64>,
}

/// Settings of a role, as clients send them; `null` stands for the configuration.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
struct RoleWishes {
    /// Instructions for the model, at most 8,000 characters.
    system_prompt: Option<String>,
    /// Name of the model at the configured address.
    model: Option<String>,
    /// 0 to 1.
    temperature: Option<f64>,
    /// Longest answer, in tokens.
    max_tokens: Option<u32>,
    /// Name of the synthesiser's voice.
    voice: Option<String>,
    /// Language of all answers, one of `languages` in the list of roles; `null` follows the person.
    language: Option<String>,
    /// Names of sources of tools that it does not have.
    tools_off: Option<Vec<String>>,
    /// What voice does while an answer is played.
    #[schema(value_type = Option<words::InterruptionManner>)]
    interruption: Option<String>,
    /// False if each question stands alone.
    memory: Option<bool>,
    /// How much is kept of its conversations.
    #[schema(value_type = Option<words::Keep>)]
    history: Option<String>,
    /// Tokens that all who have it may use in a day, together.
    daily_tokens: Option<u64>,
    /// Seconds of speech that they may use in a day.
    daily_seconds: Option<u64>,
    /// Cost that they may cause in a day.
    daily_cost: Option<f64>,
}

/// Body of the request to add a role: its name, and what differs from the configuration.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
pub(crate) struct NewRole {
    /// Name, 1 to 64 characters; no two roles have the same.
    name: String,
    #[serde(flatten)]
    settings: RoleWishes,
}

/// Body of the request to change a role; fields that are left out stay as they are.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes the body for OpenAPI; its fields are those of the settings")]
pub(crate) struct RoleChange {
    /// Name, 1 to 64 characters; no two roles have the same.
    #[schema(nullable = false)]
    name: Option<String>,
    #[serde(flatten)]
    settings: RoleWishes,
}

/// Body of the request to try a role: words of a person, and what differs from the configuration.
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
