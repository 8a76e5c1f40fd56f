//! Settings that take keys of more than one section: each part of the server gets them together.
//! Not for the sections themselves.

use hearken_actors::chat::ChatSettings;
use hearken_actors::dialogue::DialogueSettings;
use hearken_actors::gateway::GatewaySettings;
use hearken_actors::settings::PipelineSettings;
use jiff::tz::TimeZone;

use super::Config;

impl Config {
    /// Returns the time zone of all clocks; that of the system where `ota.timezone` names none,
    /// which the server refuses to start with.
    pub fn time_zone(&self) -> TimeZone {
        self.ota.time_zone().unwrap_or_else(TimeZone::system)
    }

    /// Returns what the actors of devices need.
    pub fn pipeline(&self) -> PipelineSettings {
        PipelineSettings {
            device: self.device.clone(),
            hearing: self.hearing.clone(),
            speaking: self.speaking.clone(),
            dialogue: DialogueSettings {
                max_tokens: self.llm.max_tokens,
                temperature: self.llm.temperature,
                ..self.dialogue.clone()
            },
            phrases: self.phrases.clone(),
            tools: self.tools.settings(),
            lanes: self.lanes,
            admission: self.admission.clone(),
        }
    }

    /// Returns what the actors of text clients need.
    pub fn text_clients(&self) -> GatewaySettings {
        GatewaySettings { tools: self.tools.settings(), ..self.gateway.clone() }
    }

    /// Returns what chat sessions need.
    pub fn chat_sessions(&self) -> ChatSettings {
        ChatSettings { tools: self.tools.settings(), ..self.chat.clone() }
    }
}
