//! Tools of a virtual device: their descriptions, arguments and effects. Not for JSON-RPC, which is
//! in `mcp.rs`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::scripted_tool::ScriptedTool;
use super::tool::{Kind, Tool, int32};

/// Tools of a device, and its deviations from firmware.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolbox {
    /// Set if the board has a camera, with the tool `self.camera.take_photo`.
    pub camera: bool,
    /// Number of generated tools, which fill pages: `self.generated.tool_000` and so on.
    pub generated: usize,
    /// Time for which each call blocks the main loop.
    pub call_takes: Duration,
    /// Deviations of other clients from firmware.
    pub quirks: Quirks,
    /// Scripted tools of a test. One with the name of a firmware tool replaces it.
    pub scripted: Vec<ScriptedTool>,
}

/// Observed deviations of MCP servers in devices other than firmware.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Quirks {
    /// Set if the last page contains `"nextCursor":""`.
    pub empty_cursor: bool,
    /// Set if pictures are returned as JSON in a string, like firmware's own `ImageContent`.
    pub picture_results: bool,
    /// Set if requests of unknown tools and methods are never answered.
    pub ignores_unknown: bool,
    /// Set if no request is answered.
    pub silent: bool,
    /// Additional delay of each answer.
    pub late: Duration,
}

impl Default for Toolbox {
    fn default() -> Self {
        Self {
            camera: true,
            generated: 0,
            call_takes: Duration::from_millis(20),
            quirks: Quirks::default(),
            scripted: Vec::new(),
        }
    }
}

impl Toolbox {
    /// Returns all tools, common ones first; those for people only if the version has them.
    pub(super) fn tools(&self, user_tools: bool) -> Vec<Tool> {
        let percent = Kind::Integer { range: Some((0, 100)), default: None };
        let mut tools = vec![
            Tool::new(
                "self.get_device_status",
                "Tells the present state of the device: loudspeaker, screen, battery, network. \
                 Call it before changing something relative to what it is now.",
                vec![],
            ),
            Tool::new(
                "self.audio_speaker.set_volume",
                "Sets the volume of the loudspeaker, 0 to 100.",
                vec![("volume", percent.clone())],
            ),
            Tool::new(
                "self.screen.set_brightness",
                "Sets the brightness of the screen, 0 to 100.",
                vec![("brightness", percent)],
            ),
            Tool::new(
                "self.screen.set_theme",
                "Sets the theme of the screen: `light` or `dark`.",
                vec![("theme", Kind::String)],
            ),
        ];
        if self.camera {
            tools.push(Tool::new(
                "self.camera.take_photo",
                "Takes a photo and answers a question about it.",
                vec![("question", Kind::String)],
            ));
        }
        for n in 0..self.generated {
            let description =
                format!("Does nothing, for the {n}th time. {}", "Filling. ".repeat(24));
            let any = Kind::Integer { range: None, default: Some(7) };
            let arguments = vec![("flag", Kind::Boolean), ("number", any), ("text", Kind::String)];
            tools.push(Tool::new(&format!("self.generated.tool_{n:03}"), &description, arguments));
        }
        if user_tools {
            tools.extend(users_tools());
        }
        tools.retain(|tool| self.scripted.iter().all(|scripted| scripted.name() != tool.name));
        // In front, so that they are on the first page.
        tools.splice(0..0, self.scripted.iter().map(ScriptedTool::tool));
        tools
    }
}

fn users_tools() -> [Tool; 7] {
    let url = || vec![("url", Kind::String)];
    let quality = Kind::Integer { range: Some((1, 100)), default: Some(80) };
    let tool = |name, description, arguments| Tool::new(name, description, arguments).for_users();
    [
        tool("self.get_system_info", "Tells about chip, memory and firmware.", vec![]),
        tool("self.reboot", "Restarts the device.", vec![]),
        tool("self.upgrade_firmware", "Installs firmware from an address.", url()),
        tool("self.screen.get_info", "Tells the size of the screen.", vec![]),
        tool(
            "self.screen.snapshot",
            "Uploads a picture of the screen.",
            vec![("url", Kind::String), ("quality", quality)],
        ),
        tool("self.screen.preview_image", "Shows a picture on the screen.", url()),
        tool("self.assets.set_download_url", "Sets where assets come from.", url()),
    ]
}

/// State of the board that the tools read and change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Board {
    /// Volume of the loudspeaker, 0 to 100.
    pub volume: i32,
    /// Brightness of the screen, 0 to 100.
    pub brightness: i32,
    /// Theme of the screen: `light` or `dark`.
    pub theme: String,
    /// True while the lamp of old boards is on.
    pub lamp: bool,
}

impl Default for Board {
    fn default() -> Self {
        Self { volume: 70, brightness: 75, theme: "light".into(), lamp: false }
    }
}

impl Board {
    /// Executes a tool with checked arguments, and returns the text of its result.
    pub(super) fn call(&mut self, tool: &str, arguments: &Map<String, Value>) -> String {
        let number = |name: &str| arguments.get(name).map(int32).unwrap_or_default();
        match tool {
            "self.get_device_status" => self.status(),
            "self.get_system_info" => r#"{"version":2,"chip_model_name":"esp32s3"}"#.into(),
            "self.screen.get_info" => r#"{"width":320,"height":240,"monochrome":false}"#.into(),
            "self.audio_speaker.set_volume" => {
                self.volume = number("volume");
                "true".into()
            }
            "self.screen.set_brightness" => {
                self.brightness = number("brightness");
                "true".into()
            }
            "self.screen.set_theme" => {
                let theme = arguments.get("theme").and_then(Value::as_str).unwrap_or_default();
                let known = matches!(theme, "light" | "dark");
                if known {
                    theme.clone_into(&mut self.theme);
                }
                known.to_string()
            }
            _ => "true".into(),
        }
    }

    fn status(&self) -> String {
        let Self { volume, brightness, theme, .. } = self;
        format!(
            "{{\"audio_speaker\":{{\"volume\":{volume}}},\"screen\":{{\"brightness\":{brightness},\
             \"theme\":\"{theme}\"}},\"battery\":{{\"level\":88,\"charging\":false}},\
             \"network\":{{\"type\":\"wifi\",\"ssid\":\"home\",\"signal\":\"strong\"}}}}"
        )
    }
}
