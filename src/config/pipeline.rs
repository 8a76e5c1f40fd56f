//! The actors' settings to and from their tables of the configuration, so that each default
//! stands in one place: beside the actors.

use std::time::Duration;

use hearken_actors::admission::AdmissionSettings;
use hearken_actors::audio::endpointer::EndpointerSettings;
use hearken_actors::dialogue::phrases::Language;
use hearken_actors::dialogue::{DialogueSettings, Phrase, Phrases};
use hearken_actors::settings::{
    DeviceSettings, HearingSettings, LaneSizes, PipelineSettings, SpeakingSettings,
};
use jiff::tz::TimeZone;

use super::{
    AdmissionConfig, Config, DeviceConfig, DialogueConfig, HearingConfig, LanesConfig,
    LanguageConfig, PhrasesConfig, SpeakingConfig, ms,
};

impl Config {
    /// The time zone of all clocks; that of the system where `ota.timezone` names none, which the
    /// server refuses to start with.
    pub fn time_zone(&self) -> TimeZone {
        self.ota.time_zone().unwrap_or_else(TimeZone::system)
    }

    /// What the actors need of the configuration.
    pub fn pipeline(&self) -> PipelineSettings {
        PipelineSettings {
            device: self.device.settings(),
            hearing: self.hearing.settings(),
            speaking: self.speaking.settings(),
            dialogue: DialogueSettings {
                system_prompt: self.dialogue.system_prompt.clone(),
                emotion_prompt: self.dialogue.emotion_prompt.clone(),
                max_messages: self.dialogue.max_messages,
                max_tokens: self.llm.max_tokens,
                temperature: self.llm.temperature,
                language: match self.dialogue.language {
                    LanguageConfig::Zh => Language::Chinese,
                    LanguageConfig::En => Language::English,
                },
            },
            phrases: self.phrases.phrases(),
            tools: self.tools.settings(),
            lanes: LaneSizes {
                uplink: self.lanes.uplink,
                utterance: self.lanes.utterance,
                sentences: self.lanes.sentences,
                playback: self.lanes.playback,
            },
            admission: AdmissionSettings {
                max_turns: self.admission.max_turns,
                late: Duration::from_millis(self.admission.late_ms),
                late_percent: self.admission.late_percent,
                busy_percent: self.admission.busy_percent,
            },
        }
    }
}

impl Default for DialogueConfig {
    fn default() -> Self {
        let d = DialogueSettings::default();
        Self {
            system_prompt: d.system_prompt,
            emotion_prompt: d.emotion_prompt,
            max_messages: d.max_messages,
            language: LanguageConfig::default(),
        }
    }
}

impl PhrasesConfig {
    fn phrases(&self) -> Phrases {
        Phrases {
            greeting: Phrase::new(&self.greeting_zh, &self.greeting_en),
            apology: Phrase::new(&self.apology_zh, &self.apology_en),
            farewell: Phrase::new(&self.farewell_zh, &self.farewell_en),
            filler: Phrase::new(&self.filler_zh, &self.filler_en),
            filler_again: Phrase::new(&self.filler_again_zh, &self.filler_again_en),
            done: Phrase::new(&self.done_zh, &self.done_en),
            busy: Phrase::new(&self.busy_zh, &self.busy_en),
        }
    }
}

impl Default for PhrasesConfig {
    fn default() -> Self {
        let Phrases { greeting, apology, farewell, filler, filler_again, done, busy } =
            Phrases::default();
        Self {
            greeting_zh: greeting.zh,
            greeting_en: greeting.en,
            apology_zh: apology.zh,
            apology_en: apology.en,
            farewell_zh: farewell.zh,
            farewell_en: farewell.en,
            filler_zh: filler.zh,
            filler_en: filler.en,
            filler_again_zh: filler_again.zh,
            filler_again_en: filler_again.en,
            done_zh: done.zh,
            done_en: done.en,
            busy_zh: busy.zh,
            busy_en: busy.en,
        }
    }
}

impl HearingConfig {
    fn settings(&self) -> HearingSettings {
        HearingSettings {
            endpointer: EndpointerSettings {
                min_speech: Duration::from_millis(self.min_speech_ms),
                silence: Duration::from_millis(self.silence_ms),
                max_utterance: Duration::from_millis(self.max_utterance_ms),
            },
            barge_in: Duration::from_millis(self.barge_in_ms),
            pre_roll: Duration::from_millis(self.pre_roll_ms),
            aggressiveness: self.aggressiveness,
            min_rms: self.min_rms,
            over_noise: self.over_noise,
        }
    }
}

impl Default for HearingConfig {
    fn default() -> Self {
        let h = HearingSettings::default();
        Self {
            pre_roll_ms: ms(h.pre_roll),
            min_speech_ms: ms(h.endpointer.min_speech),
            barge_in_ms: ms(h.barge_in),
            silence_ms: ms(h.endpointer.silence),
            max_utterance_ms: ms(h.endpointer.max_utterance),
            aggressiveness: h.aggressiveness,
            min_rms: h.min_rms,
            over_noise: h.over_noise,
        }
    }
}

impl SpeakingConfig {
    fn settings(&self) -> SpeakingSettings {
        SpeakingSettings {
            sample_rate_hz: self.sample_rate_hz,
            packet: Duration::from_millis(self.packet_ms),
            bitrate_bps: self.bitrate_bps,
            complexity: self.complexity,
            strained_complexity: self.strained_complexity,
            lead_packets: self.lead_packets,
            start_guard: Duration::from_millis(self.start_guard_ms),
            cushion: Duration::from_millis(self.cushion_ms),
            stop_margin: Duration::from_millis(self.stop_margin_ms),
            ahead_packets: self.ahead_packets,
        }
    }
}

impl Default for SpeakingConfig {
    fn default() -> Self {
        let s = SpeakingSettings::default();
        Self {
            sample_rate_hz: s.sample_rate_hz,
            packet_ms: ms(s.packet),
            bitrate_bps: s.bitrate_bps,
            complexity: s.complexity,
            strained_complexity: s.strained_complexity,
            lead_packets: s.lead_packets,
            start_guard_ms: ms(s.start_guard),
            cushion_ms: ms(s.cushion),
            stop_margin_ms: ms(s.stop_margin),
            ahead_packets: s.ahead_packets,
        }
    }
}

impl DeviceConfig {
    fn settings(&self) -> DeviceSettings {
        DeviceSettings {
            hello_timeout: Duration::from_millis(self.hello_timeout_ms),
            no_voice_timeout: Duration::from_millis(self.no_voice_timeout_ms),
            ping_every: Duration::from_millis(self.ping_every_ms),
            dead_after: Duration::from_millis(self.dead_after_ms),
            greeting_grace: Duration::from_millis(self.greeting_grace_ms),
            wake_words: self.wake_words.clone(),
        }
    }
}

impl Default for DeviceConfig {
    fn default() -> Self {
        let d = DeviceSettings::default();
        Self {
            hello_timeout_ms: ms(d.hello_timeout),
            no_voice_timeout_ms: ms(d.no_voice_timeout),
            ping_every_ms: ms(d.ping_every),
            dead_after_ms: ms(d.dead_after),
            greeting_grace_ms: ms(d.greeting_grace),
            wake_words: d.wake_words,
        }
    }
}

impl Default for AdmissionConfig {
    fn default() -> Self {
        let AdmissionSettings { max_turns, late, late_percent, busy_percent } =
            AdmissionSettings::default();
        Self { max_turns, late_ms: ms(late), late_percent, busy_percent }
    }
}

impl Default for LanesConfig {
    fn default() -> Self {
        let l = LaneSizes::default();
        Self {
            uplink: l.uplink,
            utterance: l.utterance,
            sentences: l.sentences,
            playback: l.playback,
        }
    }
}
