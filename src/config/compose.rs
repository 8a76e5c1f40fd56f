//! Settings that take keys of more than one section: each part of the server gets them together.
//! Not for the sections themselves.

use hearken_actors::settings::PipelineSettings;
use hearken_base::reloadable::Reloadable;
use hearken_chat::ChatSettings;
use hearken_dialogue::DialogueSettings;
use hearken_dialogue::tools::{ToolPolicies, ToolSettings};
use hearken_text_gateway::TextGatewaySettings;
use jiff::tz::TimeZone;

use super::Config;

impl Config {
    /// Returns the time zone of all clocks. It is that of the system if `ota.timezone` names no
    /// zone, which is an error at the start of the server.
    pub fn time_zone(&self) -> TimeZone {
        self.ota.time_zone().unwrap_or_else(TimeZone::system)
    }

    /// Returns the settings of the actors of devices.
    pub fn pipeline(&self) -> PipelineSettings {
        PipelineSettings {
            device: self.device.clone(),
            hearing: self.hearing.clone(),
            turn_detection: self.turn_detection.clone(),
            speculation: self.speculation.clone(),
            interruption: self.interruption.clone(),
            speaking: self.speaking.clone(),
            dialogue: DialogueSettings {
                max_tokens: self.llm.max_tokens,
                temperature: self.llm.temperature,
                ..self.dialogue.clone()
            },
            phrases: self.phrases.clone(),
            tools: self.tools.settings(&self.phrases),
            lanes: self.lanes,
            admission: self.admission.clone(),
        }
    }

    /// Returns the settings of the actors of text clients.
    pub fn text_clients(&self, policies: &Reloadable<ToolPolicies>) -> TextGatewaySettings {
        TextGatewaySettings { tools: self.shared_tools(policies), ..self.gateway.clone() }
    }

    /// Returns the settings of chat sessions.
    pub fn chat_sessions(&self, policies: &Reloadable<ToolPolicies>) -> ChatSettings {
        ChatSettings { tools: self.shared_tools(policies), ..self.chat.clone() }
    }

    /// Returns the settings of tools, with the policies that all conversations share.
    fn shared_tools(&self, policies: &Reloadable<ToolPolicies>) -> ToolSettings {
        ToolSettings { policies: policies.clone(), ..self.tools.settings(&self.phrases) }
    }
}
