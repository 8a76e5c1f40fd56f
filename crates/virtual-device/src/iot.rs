//! Things of firmware up to 1.7: their descriptions, states and commands, as in `main/iot/` of
//! those versions. Pure. Not for MCP, which replaced them.
//!
//! After the hello, one message per thing describes it. Whenever the device starts to listen, the
//! states that changed since the last time are sent; the first time, all. A command changes a state
//! and has no response.

use serde_json::{Value, json};

use super::tool::int32;
use super::toolbox::Board;

/// Things of one device.
#[derive(Debug)]
pub(super) struct Things {
    /// Set for the names and the Chinese descriptions up to 1.6.2.
    old_names: bool,
    /// States as last reported, in the order of [`Things::states`].
    reported: Vec<Option<String>>,
}

/// Error: a command that would dereference a null pointer in firmware.
pub(super) struct Crash;

const NOTHING: &str = "{}";

impl Things {
    pub(super) fn new(old_names: bool) -> Self {
        Self { old_names, reported: Vec::new() }
    }

    /// Returns one message per thing, and marks all states as not reported.
    pub(super) fn describe(&mut self, session_id: &str) -> Vec<String> {
        self.reported.clear();
        let message = |thing: &String| {
            format!(
                "{{\"session_id\":\"{session_id}\",\"type\":\"iot\",\"update\":true,\
                 \"descriptors\":[{thing}]}}"
            )
        };
        self.descriptors().iter().map(message).collect()
    }

    /// Returns the message with the changed states; `None` if there are none.
    pub(super) fn changed_states(&mut self, session_id: &str, board: &Board) -> Option<String> {
        let states = self.states(board);
        self.reported.resize(states.len(), None);
        let mut changed = Vec::new();
        for (reported, state) in self.reported.iter_mut().zip(states) {
            if reported.as_ref() != Some(&state) {
                changed.push(state.clone());
                *reported = Some(state);
            }
        }
        let states = changed.join(",");
        (!changed.is_empty()).then(|| {
            format!(
                "{{\"session_id\":\"{session_id}\",\"type\":\"iot\",\"update\":true,\
                 \"states\":[{states}]}}"
            )
        })
    }

    /// Executes one command. Does nothing for an unknown thing or method, or a missing parameter.
    ///
    /// # Errors
    /// Fails if firmware would crash: there is no `name`, or no `method`.
    pub(super) fn invoke(&self, command: &Value, board: &mut Board) -> Result<(), Crash> {
        let string = |name: &str| command.get(name).and_then(Value::as_str).ok_or(Crash);
        let name = string("name")?;
        if !self.names().contains(&name) {
            return Ok(());
        }
        let method = string("method")?;
        let parameter = |name: &str| command.get("parameters").and_then(|p| p.get(name));
        let percent = |name: &str| {
            let number = parameter(name).filter(|v| v.is_number()).map(int32);
            // Cast to a byte, without a range check.
            number.map(|n| i32::from(n as u8))
        };
        let old = self.old_names;
        let is = |old_name: &str, new: &str| method == if old { old_name } else { new };
        match name {
            "Speaker" | "AudioSpeaker" if is("SetVolume", "set_volume") => {
                board.volume = percent("volume").unwrap_or(board.volume);
            }
            "Screen" if is("SetBrightness", "set_brightness") => {
                board.brightness = percent("brightness").unwrap_or(board.brightness);
            }
            "Screen" if is("SetTheme", "set_theme") => {
                if let Some(theme) = parameter("theme_name").and_then(Value::as_str) {
                    theme.clone_into(&mut board.theme);
                }
            }
            "Lamp" if is("TurnOn", "turn_on") => board.lamp = true,
            "Lamp" if is("TurnOff", "turn_off") => board.lamp = false,
            _ => {}
        }
        Ok(())
    }

    fn names(&self) -> [&'static str; 4] {
        [if self.old_names { "Speaker" } else { "AudioSpeaker" }, "Screen", "Lamp", "Battery"]
    }

    fn states(&self, board: &Board) -> Vec<String> {
        let Board { volume, brightness, theme, lamp } = board;
        let states = [
            format!("{{\"volume\":{volume}}}"),
            format!("{{\"theme\":\"{theme}\",\"brightness\":{brightness}}}"),
            format!("{{\"power\":{lamp}}}"),
            "{\"level\":88,\"charging\":false}".to_owned(),
        ];
        let named = self.names().into_iter().zip(states);
        named.map(|(name, state)| format!("{{\"name\":\"{name}\",\"state\":{state}}}")).collect()
    }

    fn descriptors(&self) -> Vec<String> {
        let [speaker, screen, lamp, battery] = self.names();
        let old = self.old_names;
        let say = |chinese, english| if old { chinese } else { english };
        let volume = value(say("当前音量", "Volume now"), "number");
        let to_100 = value(say("0到100的整数", "A whole number from 0 to 100"), "number");
        let theme = value(say("当前主题", "Theme now"), "string");
        let brightness = value(say("当前亮度", "Brightness now"), "number");
        let theme_name = value("light / dark", "string");
        let power = value(say("灯是否打开", "Whether it is on"), "boolean");
        let level = value(say("当前电量", "Level now"), "number");
        let charging = value(say("是否充电中", "Whether it is charging"), "boolean");
        let m = |old_name: &'static str, name: &'static str| if old { old_name } else { name };
        let set = say("设置", "Sets it");
        let methods = [
            method(m("SetVolume", "set_volume"), set, &format!("{{\"volume\":{to_100}}}")),
            method(m("SetTheme", "set_theme"), set, &format!("{{\"theme_name\":{theme_name}}}")),
            method(
                m("SetBrightness", "set_brightness"),
                set,
                &format!("{{\"brightness\":{to_100}}}"),
            ),
            method(m("TurnOn", "turn_on"), say("打开灯", "Turns it on"), NOTHING),
            method(m("TurnOff", "turn_off"), say("关闭灯", "Turns it off"), NOTHING),
        ];
        let [set_volume, set_theme, set_brightness, turn_on, turn_off] = methods;
        vec![
            thing(
                speaker,
                say("扬声器", "The loudspeaker"),
                &format!("{{\"volume\":{volume}}}"),
                &format!("{{{set_volume}}}"),
            ),
            thing(
                screen,
                say("屏幕", "The screen"),
                &format!("{{\"theme\":{theme},\"brightness\":{brightness}}}"),
                &format!("{{{set_theme},{set_brightness}}}"),
            ),
            thing(
                lamp,
                say("测试灯", "A lamp"),
                &format!("{{\"power\":{power}}}"),
                &format!("{{{turn_on},{turn_off}}}"),
            ),
            thing(
                battery,
                say("电池", "The battery"),
                &format!("{{\"level\":{level},\"charging\":{charging}}}"),
                NOTHING,
            ),
        ]
    }
}

fn value(description: &str, kind: &str) -> String {
    format!("{{\"description\":{},\"type\":\"{kind}\"}}", json!(description))
}

fn method(name: &str, description: &str, parameters: &str) -> String {
    let description = json!(description);
    format!("\"{name}\":{{\"description\":{description},\"parameters\":{parameters}}}")
}

fn thing(name: &str, description: &str, properties: &str, methods: &str) -> String {
    let description = json!(description);
    format!(
        "{{\"name\":\"{name}\",\"description\":{description},\"properties\":{properties},\
         \"methods\":{methods}}}"
    )
}
