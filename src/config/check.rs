//! Checks of a configuration beyond the types of its values. Settings of one provider are checked
//! where it is built.

use hearken_base::days::in_days;
use hearken_base::ms::in_ms;
use hearken_base::{Secret, log};
use hearken_proto::text_gateway::MAX_TOKENS;

use super::Config;
use super::error::ConfigError;

/// Shortest accepted secret, in bytes.
const MIN_SECRET_BYTES: usize = 16;

/// Versions of MCP with an initialisation handshake.
const MCP_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Checks the values that no type checks.
///
/// # Errors
/// Returns the first unusable value, with its key and the allowed values.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    speaking(config)?;
    hearing(config)?;
    turn_detection(config)?;
    speculation(config)?;
    speakers(config)?;
    within("interruption.resume_after_ms", in_ms(config.interruption.resume_after), 0, 30_000)?;
    device(config)?;
    http(config)?;
    gateway(config)?;
    museum(config)?;
    chat(config)?;
    within("dialogue.max_messages", config.dialogue.max_messages, 2, 1_000)?;
    tools(config)?;
    lanes(config)?;
    within("auth.token_days", config.auth.token_days, 1, 3_650)?;
    within("ota.code_lifetime_ms", config.ota.code_lifetime_ms, 60_000, 86_400_000)?;
    long_enough("auth.secret", &config.auth.secret)?;
    long_enough("auth.admin_token", &config.auth.admin_token)?;
    within("vision.max_tokens", config.vision.max_tokens, 1, 100_000)?;
    within("vision.timeout_ms", config.vision.timeout_ms, 100, 600_000)?;
    redis(config)?;
    state(config)?;
    within("journal.max_turns", config.journal.max_turns, 0, 10_000)?;
    within("history.retention_days", config.history.retention_days, 0, 36_500)?;
    within("history.max_turns", config.history.max_turns, 1, 10_000_000)?;
    within("history.max_audio_mib", config.history.max_audio_mib, 0, 1_000_000)?;
    usage(config)?;
    within("traces.timeout_ms", config.traces.timeout_ms, 100, 60_000)?;
    log::filter(&config.log.level).map_err(|_| ConfigError::Value {
        key: "log.level",
        value: config.log.level.clone(),
        remedy: log::LevelError::REMEDY.to_owned(),
    })?;
    within("server.max_connections", config.server.max_connections, 1, 1_000_000)?;
    within("server.shutdown_timeout_ms", config.server.shutdown_timeout_ms, 100, 10_000)
}

/// Checks the prices of speech, and the limits of a day.
fn usage(config: &Config) -> Result<(), ConfigError> {
    let u = &config.usage;
    within("usage.retention_days", u.retention_days, 0, 36_500)?;
    within("usage.device_cost", u.device_cost, 0.0, 1e9)?;
    within("usage.total_cost", u.total_cost, 0.0, 1e9)?;
    within("usage.asr_price_per_hour", u.asr_price_per_hour, 0.0, 1e9)?;
    within("usage.tts_price_per_million_chars", u.tts_price_per_million_chars, 0.0, 1e9)?;
    if u.currency.chars().count() <= 16 && !u.currency.chars().any(char::is_control) {
        return Ok(());
    }
    let value = u.currency.clone();
    let remedy = "use a name of at most 16 characters".to_owned();
    Err(ConfigError::Value { key: "usage.currency", value, remedy })
}

/// Checks the settings of the audio to devices.
fn speaking(config: &Config) -> Result<(), ConfigError> {
    let s = &config.speaking;
    one_of(
        "speaking.sample_rate_hz",
        s.sample_rate_hz,
        &[0, 8_000, 12_000, 16_000, 24_000, 48_000],
    )?;
    one_of("speaking.packet_ms", in_ms(s.packet), &[20, 40, 60])?;
    within("speaking.bitrate_bps", s.bitrate_bps, 6_000, 128_000)?;
    within("speaking.complexity", s.complexity, 0, 10)?;
    within("speaking.strained_complexity", s.strained_complexity, 0, 10)?;
    within("speaking.lead_packets", s.lead_packets, 1, 5)?;
    within("speaking.start_guard_ms", in_ms(s.start_guard), 20, 1_000)?;
    within("speaking.cushion_ms", in_ms(s.prebuffer), 0, 5_000)?;
    within("speaking.stop_margin_ms", in_ms(s.stop_margin), 0, 300)?;
    within("speaking.ahead_packets", s.ahead_packets, 1, 10_000)
}

/// Checks the settings of voice activity detection.
fn hearing(config: &Config) -> Result<(), ConfigError> {
    let h = &config.hearing;
    within("hearing.aggressiveness", h.aggressiveness, 0, 3)?;
    within("hearing.min_rms", h.min_rms, 0.0, 32_768.0)?;
    within("hearing.over_noise", h.over_noise, 0.0, 100.0)?;
    within("hearing.pre_roll_ms", in_ms(h.pre_roll), 0, 2_000)?;
    within("hearing.min_speech_ms", in_ms(h.min_speech), 20, 5_000)?;
    within("hearing.barge_in_ms", in_ms(h.barge_in), 20, 5_000)?;
    within("hearing.barge_in_echo_ms", in_ms(h.barge_in_echo), 20, 5_000)?;
    within("hearing.silence_ms", in_ms(h.silence), 100, 10_000)?;
    within("hearing.max_utterance_ms", in_ms(h.max_utterance), 1_000, 300_000)
}

/// Checks the windows and thresholds of turn detection.
fn turn_detection(config: &Config) -> Result<(), ConfigError> {
    let t = &config.turn_detection;
    within("turn_detection.short_ms", in_ms(t.short), 200, 10_000)?;
    within("turn_detection.middle_ms", in_ms(t.middle), in_ms(t.short), 10_000)?;
    within("turn_detection.long_ms", in_ms(t.long), in_ms(t.middle), 10_000)?;
    within("turn_detection.cpu_percent", t.cpu_percent, 1, 100)?;
    within("turn_detection.likely_zh", t.likely_zh, 0.0, 1.0)?;
    within("turn_detection.unlikely_zh", t.unlikely_zh, 0.0, t.likely_zh)?;
    within("turn_detection.likely_en", t.likely_en, 0.0, 1.0)?;
    within("turn_detection.unlikely_en", t.unlikely_en, 0.0, t.likely_en)
}

/// Checks when a voice is taken for one that is known.
fn speakers(config: &Config) -> Result<(), ConfigError> {
    let s = &config.speakers;
    within("speakers.threshold", s.threshold, 0.1, 0.95)?;
    within("speakers.min_speech_ms", in_ms(s.min_speech), 500, 5_000)?;
    within("speakers.deadline_ms", in_ms(s.deadline), 100, 5_000)?;
    within("speakers.cpu_percent", s.cpu_percent, 1, 100)
}

/// Checks the limits of answers attempted before a turn is over.
fn speculation(config: &Config) -> Result<(), ConfigError> {
    let s = &config.speculation;
    within("speculation.tries", s.tries, 0, 20)?;
    within("speculation.after_ms", in_ms(s.after), 100, 10_000)?;
    within("speculation.max_speech_ms", in_ms(s.max_speech), 1_000, 60_000)?;
    within("speculation.max_price_per_million", s.max_price_per_million, 0.0, 1e9)
}

/// Checks the timers of devices' connections.
fn device(config: &Config) -> Result<(), ConfigError> {
    let d = &config.device;
    let ping_every = in_ms(d.ping_every);
    within("device.hello_timeout_ms", in_ms(d.hello_timeout), 1_000, 60_000)?;
    within("device.no_voice_timeout_ms", in_ms(d.no_voice_timeout), 1_000, 86_400_000)?;
    within("device.ping_every_ms", ping_every, 1_000, 600_000)?;
    within("device.dead_after_ms", in_ms(d.dead_after), ping_every + 1_000, 3_600_000)?;
    within("device.greeting_grace_ms", in_ms(d.greeting_grace), 0, 5_000)
}

/// Checks the settings of tools.
fn tools(config: &Config) -> Result<(), ConfigError> {
    let t = &config.tools;
    one_of("tools.mcp_protocol_version", t.mcp_protocol_version.as_str(), &MCP_VERSIONS)?;
    within("tools.max_rounds", t.max_rounds, 1, 100)?;
    within("tools.max_tools", t.max_tools, 1, 128)?;
    within("tools.turn_total_ms", in_ms(t.turn_total), 1_000, 3_600_000)?;
    within("tools.device_timeout_ms", in_ms(t.device_timeout), 1_000, 600_000)?;
    within("tools.max_result_bytes", t.max_result_bytes, 256, 1 << 20)?;
    within("tools.filler_after_ms", in_ms(t.filler_after), 100, 60_000)?;
    within("tools.filler_again_ms", in_ms(t.filler_again), 500, 60_000)?;
    within("tools.endpoint_timeout_ms", in_ms(t.endpoint_timeout), 100, 600_000)?;
    within("tools.builtin.timeout_ms", t.builtin.timeout_ms, 500, 60_000)?;
    consent(config)
}

/// Checks the policies of tools, and how the person is asked.
fn consent(config: &Config) -> Result<(), ConfigError> {
    let wrong = |(value, remedy): (String, String)| {
        let value = format!("wrong at `{value}`");
        ConfigError::Value { key: "tools.policy", value, remedy }
    };
    config.tools.policies().check().map_err(wrong)?;
    within("tools.consent_words", config.tools.consent_words.len(), 0, 200)?;
    let phrases = &config.phrases;
    for (key, phrase) in
        [("phrases.ask_camera", &phrases.ask_camera), ("phrases.ask_tool", &phrases.ask_tool)]
    {
        if phrase.all().len() < 2 {
            let remedy = "set both languages: the person must know what they are asked".into();
            return Err(ConfigError::Value { key, value: "empty".into(), remedy });
        }
    }
    Ok(())
}

/// Checks the bounds of queues and the limits of turns.
fn lanes(config: &Config) -> Result<(), ConfigError> {
    let l = &config.lanes;
    for (key, size) in [
        ("lanes.uplink", l.uplink),
        ("lanes.utterance", l.utterance),
        ("lanes.sentences", l.sentences),
        ("lanes.playback", l.playback),
    ] {
        within(key, size, 1, 10_000)?;
    }
    within("admission.max_turns", config.admission.max_turns, 1, 1_000_000)?;
    within("admission.turns_per_minute", config.admission.turns_per_minute, 0, 10_000)?;
    within("admission.turns_per_hour", config.admission.turns_per_hour, 0, 100_000)?;
    within("admission.turns_per_address", config.admission.turns_per_address, 0, 100_000)?;
    within("admission.late_ms", in_ms(config.admission.late), 1, 1_000)?;
    within("admission.late_percent", config.admission.late_percent, 0.01, 100.0)?;
    within("admission.busy_percent", config.admission.busy_percent, 10.0, 100.0)
}

/// Checks the settings of the state server.
fn state(config: &Config) -> Result<(), ConfigError> {
    within("state.timeout_ms", config.state.timeout_ms, 100, 600_000)?;
    within("state.max_connections", config.state.max_connections, 1, 10_000)
}

/// Checks `[http]`, `[admin]` and `[tls]`.
fn http(config: &Config) -> Result<(), ConfigError> {
    within("http.requests_per_minute", config.http.requests_per_minute, 0, 1_000_000)?;
    within("http.boots_per_minute", config.http.boots_per_minute, 0, 1_000_000)?;
    within("http.upgrades_per_minute", config.http.upgrades_per_minute, 0, 1_000_000)?;
    within("http.requests_at_once", config.http.requests_at_once, 1, 100_000)?;
    within("http.address_percent", config.http.address_percent, 1, 100)?;
    within("http.next_request_ms", in_ms(config.http.next_request), 100, 600_000)?;
    for origin in &config.http.cors_origins {
        let site = url::Url::parse(origin).ok().filter(|url| {
            matches!(url.scheme(), "http" | "https") && url.path() == "/" && url.query().is_none()
        });
        if site.is_none() && origin != "*" {
            let remedy = "use sites such as https://museum.example, or *".to_owned();
            return Err(ConfigError::Value {
                key: "http.cors_origins",
                value: origin.clone(),
                remedy,
            });
        }
    }
    long_enough("admin.password", &config.admin.password)?;
    let a = &config.admin;
    within("admin.access_token_ms", a.access_token_ms, 60_000, 86_400_000)?;
    within("admin.refresh_token_ms", a.refresh_token_ms, a.access_token_ms, 31_536_000_000)?;
    let given = [&config.tls.certificate, &config.tls.key].map(|f| !f.as_os_str().is_empty());
    match given {
        [true, false] => missing("tls.key", "name the private key of `tls.certificate`"),
        [false, true] => missing("tls.certificate", "name the certificate of `tls.key`"),
        _ => Ok(()),
    }
}

fn missing(key: &'static str, remedy: &str) -> Result<(), ConfigError> {
    Err(ConfigError::Value { key, value: "empty".into(), remedy: remedy.to_owned() })
}

/// Checks the settings of text clients.
fn gateway(config: &Config) -> Result<(), ConfigError> {
    let g = &config.gateway;
    within("gateway.max_connections", g.max_connections, 1, 100_000)?;
    let ping_every = in_ms(g.ping_every);
    within("gateway.ping_interval_ms", ping_every, 1_000, 3_600_000)?;
    within("gateway.ping_timeout_ms", in_ms(g.dead_after), ping_every, 86_400_000)?;
    within("gateway.session_timeout_ms", in_ms(g.session_idle), 1_000, 2_592_000_000)?;
    within("gateway.max_messages", g.max_messages, 2, 1_000)?;
    within("gateway.temperature", g.temperature, 0.0, 1.0)?;
    within("gateway.max_tokens", g.max_tokens, 1, MAX_TOKENS)?;
    within("gateway.client_tools_max_count", g.client_tools_max_count, 0, 128)?;
    within("gateway.client_tool_timeout_ms", in_ms(g.client_tool_timeout), 100, 600_000)?;
    within("gateway.client_tool_result_queue_size", g.client_tool_result_queue_size, 1, 1_000)?;
    long_enough("gateway.token", &g.token)
}

/// Checks the settings of Redis.
fn redis(config: &Config) -> Result<(), ConfigError> {
    let url = config.redis.url.expose();
    let prefix = &config.redis.prefix;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !(1..=64).contains(&prefix.len()) || !prefix.chars().all(plain) {
        let remedy = "use 1 to 64 letters, digits, `-`, `_` and `.`".to_owned();
        return Err(ConfigError::Value { key: "redis.prefix", value: prefix.clone(), remedy });
    }
    if !url.is_empty() && !url.starts_with("redis://") {
        let remedy = "use redis://HOST:PORT, or leave it empty (REDIS_URL); rediss://, which is \
                      Redis over TLS, is not supported: use a tunnel or a private network";
        let value = "another address".into();
        let remedy = remedy.to_owned();
        return Err(ConfigError::Value { key: "redis.url", value, remedy });
    }
    within("redis.timeout_ms", config.redis.timeout_ms, 10, 60_000)
}

/// Checks the settings of chat sessions.
fn chat(config: &Config) -> Result<(), ConfigError> {
    let c = &config.chat;
    within("chat.max_iterations", c.max_iterations, 1, 100)?;
    within("chat.message_history_size", c.history, 1, 1_000)?;
    within("chat.token_budget", c.token_budget, 100, 10_000_000)?;
    within("chat.max_tokens", c.max_tokens, 1, 1_000_000)?;
    within("chat.temperature", c.temperature, 0.0, 1.0)?;
    within("chat.lock_wait_ms", in_ms(c.lock_wait), 0, 600_000)?;
    within("chat.max_watchers", c.max_watchers, 0, 1_000_000)?;
    let ping_every = in_ms(c.ping_every);
    within("chat.ping_interval_ms", ping_every, 1_000, 3_600_000)?;
    within("chat.pong_timeout_ms", in_ms(c.dead_after), ping_every, 86_400_000)?;
    within("chat.purge_after_days", in_days(c.purge_after), 1, 36_500)?;
    within("chat.retention_days", in_days(c.retention), 0, 36_500)?;
    within("chat.max_sessions_per_address", c.max_sessions_per_address, 1, 1_000_000_000)?;
    within("chat.max_bytes_per_address", c.max_bytes_per_address, 1 << 20, 1 << 50)?;
    long_enough("chat.token", &c.token)
}

/// Checks the settings of museum clients.
fn museum(config: &Config) -> Result<(), ConfigError> {
    let m = &config.museum;
    within("museum.temperature", m.temperature, 0.0, 2.0)?;
    within("museum.max_tokens", m.max_tokens, 1, 1_000_000)?;
    within("museum.max_sessions_per_address", m.max_sessions_per_address, 1, 1_000_000_000)?;
    within("museum.max_messages", m.max_messages, 2, 1_000)?;
    within("museum.session_timeout_ms", in_ms(m.session_timeout), 1_000, 2_592_000_000)?;
    within("museum.max_sessions", m.max_sessions, 1, 1_000_000)?;
    within("museum.cache_answers_ms", in_ms(m.answers_for), 0, 86_400_000)?;
    within("museum.requests_per_minute", m.requests_per_minute, 0, 1_000_000)?;
    long_enough("museum.token", &m.token)
}

/// Checks that a secret is too long to be guessed.
fn long_enough(key: &'static str, secret: &Secret) -> Result<(), ConfigError> {
    if secret.is_empty() || secret.expose().len() >= MIN_SECRET_BYTES {
        return Ok(());
    }
    let remedy = format!("use at least {MIN_SECRET_BYTES} characters, or leave it empty");
    Err(ConfigError::Value { key, value: "too short".into(), remedy })
}

fn within<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    low: T,
    high: T,
) -> Result<(), ConfigError> {
    if value >= low && value <= high {
        return Ok(());
    }
    let remedy = format!("use {low} to {high}");
    Err(ConfigError::Value { key, value: value.to_string(), remedy })
}

fn one_of<T: PartialEq + std::fmt::Display>(
    key: &'static str,
    value: T,
    allowed: &[T],
) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let mut names: Vec<String> = allowed.iter().map(ToString::to_string).collect();
    let last = names.pop().unwrap_or_default();
    let remedy = format!("use {} or {last}", names.join(", "));
    Err(ConfigError::Value { key, value: value.to_string(), remedy })
}
