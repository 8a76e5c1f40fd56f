//! The rules of the MCP server and of the things of old firmware, each as a test in virtual time.
//! Not for sockets.

use std::time::Duration;

use bytes::Bytes;
use hearken_proto::device::ListenMode;
use serde_json::{Value, json};

use crate::events::{DeviceState, Event, Fact, Output, Upload};
use crate::firmware::tests::{Bench, HELLO, START};
use crate::scripted_tool::ScriptedTool;
use crate::toolbox::{Quirks, Toolbox};

impl Bench {
    fn with(toolbox: Toolbox) -> Self {
        let mut bench = Self::new("2.4.2", ListenMode::Auto);
        bench.device = bench.device.with_tools(toolbox);
        bench.connected()
    }

    fn request(&mut self, ms: u64, id: impl Into<Value>, method: &str, params: Value) -> &mut Self {
        let id: Value = id.into();
        let payload = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.text(ms, &json!({"type": "mcp", "payload": payload}).to_string())
    }

    fn call(&mut self, ms: u64, id: i64, tool: &str, arguments: Value) -> &mut Self {
        self.request(ms, id, "tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The payloads sent, as text.
    fn answers(&self) -> Vec<String> {
        let answers = self.out.iter().filter_map(|o| match o {
            Output::Text(text) => text
                .strip_prefix(r#"{"session_id":"s","type":"mcp","payload":"#)
                .and_then(|rest| rest.strip_suffix('}')),
            _ => None,
        });
        answers.map(str::to_owned).collect()
    }

    /// The last payload, which must be JSON.
    fn answer(&self) -> Value {
        serde_json::from_str(self.answers().last().expect("an answer")).expect("JSON")
    }
}

fn plain() -> Bench {
    Bench::with(Toolbox { call_takes: Duration::ZERO, ..Toolbox::default() })
}

#[test]
fn a_scripted_tool_gives_its_answers_in_order() {
    let camera = "self.camera.take_photo";
    let photo = ScriptedTool::new(camera, "Takes a photo.").boolean("flash");
    let photo = photo.fails("It is dark").answers("a cat");
    let mut bench = Bench::with(Toolbox {
        call_takes: Duration::ZERO,
        scripted: vec![photo],
        ..Toolbox::default()
    });
    bench.call(0, 1, camera, json!({}));
    assert_eq!(bench.answer()["error"]["message"], "Missing valid argument: flash");
    bench.call(1, 2, camera, json!({"flash": false}));
    assert_eq!(bench.answer()["error"]["message"], "It is dark");
    bench.call(2, 3, camera, json!({"flash": true}));
    assert_eq!(bench.answer()["result"]["content"][0]["text"], "a cat");
    assert!(!bench.out.iter().any(|out| matches!(out, Output::Upload(_))), "no real camera");
}

#[test]
fn initialize_returns_the_version() {
    let mut bench = plain();
    bench.request(0, 1, "initialize", json!({"protocolVersion": "2024-11-05"}));
    assert_eq!(
        bench.answers(),
        [
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"virtual-board","version":"2.4.2"}}}"#
        ]
    );
}

#[test]
fn tools_come_in_pages_of_8000_bytes() {
    let mut bench = Bench::with(Toolbox { generated: 40, ..Toolbox::default() });
    let mut names = Vec::new();
    let mut cursor = String::new();
    let mut pages = 0;
    loop {
        bench.out.clear();
        bench.request(0, 2, "tools/list", json!({"cursor": cursor, "withUserTools": false}));
        let text = bench.answers().pop().unwrap();
        assert!(text.len() <= 8_000 + 40, "{} bytes", text.len());
        let result = bench.answer()["result"].take();
        let tools = result["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|t| t["name"].as_str().unwrap().to_owned()));
        pages += 1;
        let Some(next) = result.get("nextCursor") else { break };
        next.as_str().unwrap().clone_into(&mut cursor);
        assert!(!names.contains(&cursor), "the cursor names the next tool");
    }
    assert!(pages >= 3, "{pages}");
    assert_eq!(names.len(), 45);
    assert_eq!(names[0], "self.get_device_status");
    bench.request(0, 3, "tools/list", json!({"cursor": "nobody"}));
    let told = bench.answer()["error"]["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with("Failed to add tool"), "{told}");
}

#[test]
fn user_tools_are_listed_on_request() {
    let list = |with: bool| {
        let mut bench = plain();
        bench.request(0, 2, "tools/list", json!({"withUserTools": with}));
        bench.answer()["result"]["tools"].as_array().unwrap().clone()
    };
    assert_eq!(list(false).len(), 5);
    let all = list(true);
    assert_eq!(all.len(), 12);
    let reboot = all.iter().find(|t| t["name"] == "self.reboot").unwrap();
    assert_eq!(reboot["annotations"]["audience"], json!(["user"]));
    let volume = &all[1]["inputSchema"];
    assert_eq!(
        *volume,
        json!({"type": "object", "required": ["volume"],
            "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}}})
    );
}

#[test]
fn calls_are_validated_and_executed() {
    let done = r#"{"content":[{"type":"text","text":"true"}],"isError":false}"#;
    let volume = "self.audio_speaker.set_volume";
    for (tool, arguments, told) in [
        (volume, json!({"volume": 40}), format!(r#""result":{done}"#)),
        (volume, json!({"volume": -1}), fault("Value is below minimum allowed: 0")),
        (volume, json!({"volume": 101}), fault("Value exceeds maximum allowed: 100")),
        (volume, json!({"volume": "40"}), fault("Missing valid argument: volume")),
        (volume, json!({}), fault("Missing valid argument: volume")),
        (volume, json!(3), fault("Invalid arguments")),
        ("self.nothing", json!({}), fault("Unknown tool: self.nothing")),
        ("say \"hi\"", json!({}), fault("Unknown tool: say \"hi\"")),
        (
            "self.screen.set_theme",
            json!({"theme": "blue"}),
            format!(r#""result":{}"#, done.replace("true", "false")),
        ),
        ("self.screen.snapshot", json!({"url": "x"}), format!(r#""result":{done}"#)),
    ] {
        let mut bench = plain();
        bench.call(0, 7, tool, arguments.clone());
        let wanted = format!(r#"{{"jsonrpc":"2.0","id":7,{told}}}"#);
        assert_eq!(bench.answers(), [wanted], "{tool} {arguments}");
    }
    let mut bench = plain();
    bench.call(0, 1, volume, json!({"volume": 40})).call(1, 2, "self.get_device_status", json!({}));
    let status = bench.answer()["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["audio_speaker"]["volume"], 40);
    assert_eq!(bench.device.board().volume, 40);
}

/// No code, and nothing escaped.
fn fault(message: &str) -> String {
    format!(r#""error":{{"message":"{message}"}}"#)
}

#[test]
fn only_requests_with_a_number_as_id_are_answered() {
    let mut bench = plain();
    let list = "tools/list";
    bench.request(0, "1", list, json!({})).request(0, Value::Null, list, json!({}));
    bench.request(0, 1, "notifications/initialized", json!({})).request(0, 1, list, json!([]));
    bench.text(0, r#"{"type":"mcp","payload":{"id":1,"method":"tools/list"}}"#);
    bench.text(0, r#"{"type":"mcp","payload":{"jsonrpc":"2.0","id":1}}"#);
    assert_eq!(bench.answers(), Vec::<String>::new());
    // A larger id is clamped to 32 bits, so its caller waits in vain.
    bench.request(0, 3_000_000_000_i64, "resources/list", json!({}));
    assert_eq!(bench.answer()["id"], json!(i32::MAX));
    assert_eq!(bench.answer()["error"]["message"], "Method not implemented: resources/list");
}

#[test]
fn calls_run_in_sequence_and_block_everything_else() {
    let mut bench =
        Bench::with(Toolbox { call_takes: Duration::from_secs(2), ..Toolbox::default() });
    let status = "self.get_device_status";
    bench.call(0, 1, status, json!({})).call(100, 2, status, json!({}));
    bench.request(200, 3, "tools/list", json!({})).text(300, START);
    for n in 0..50 {
        bench.at(400 + n, Event::Microphone(Bytes::from_static(b"x")));
    }
    assert_eq!(bench.device.state(), DeviceState::Listening, "tts start waits for the main loop");
    assert_eq!(bench.device.due(), Some(Duration::from_secs(2)));
    bench.at(2_000, Event::Nothing);
    let ids = |bench: &Bench| {
        let id = |text: &String| serde_json::from_str::<Value>(text).unwrap()["id"].clone();
        bench.answers().iter().map(id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&bench), [1]);
    bench.at(4_000, Event::Nothing);
    assert_eq!(ids(&bench), [1, 2, 3]);
    assert_eq!(bench.device.state(), DeviceState::Speaking);
    let dropped = bench.facts().filter(|(_, f)| **f == Fact::UplinkDropped).count();
    assert_eq!(dropped, 10, "microphone packets are queued too");
}

#[test]
fn the_camera_uploads_to_the_url_from_initialize() {
    let photo = "self.camera.take_photo";
    let mut bench = plain();
    bench.call(0, 1, photo, json!({"question": "what?"}));
    assert_eq!(bench.answer()["error"]["message"], "Image explain URL or token is not set");
    let vision = json!({"url": "http://h/vision", "token": "t"});
    bench.request(0, 2, "initialize", json!({"capabilities": {"vision": vision}}));
    bench.call(10, 3, photo, json!({"question": "what?"}));
    let upload =
        Upload { url: "http://h/vision".into(), token: Some("t".into()), question: "what?".into() };
    assert!(bench.out.contains(&Output::Upload(upload)));
    bench.at(5_000, Event::Uploaded(Ok(r#"{"text":"a cat"}"#.into())));
    assert_eq!(bench.answer()["id"], 3);
    assert_eq!(bench.answer()["result"]["content"][0]["text"], r#"{"text":"a cat"}"#);
    bench.call(6_000, 4, photo, json!({"question": "?"}));
    bench.at(36_000, Event::Nothing);
    assert_eq!(bench.answer()["error"]["message"], "Failed to upload photo");
    bench.at(37_000, Event::Uploaded(Ok("late".into())));
    assert_eq!(bench.answer()["id"], 4, "a late response is ignored");
}

#[test]
fn a_reboot_by_tool_is_answered_first() {
    let mut bench = plain();
    bench.call(0, 1, "self.reboot", json!({}));
    assert_eq!(bench.answer()["result"]["isError"], false);
    assert!(bench.out.contains(&Output::Disconnect));
}

#[test]
fn quirks_imitate_the_deviations_of_other_clients() {
    let odd =
        |quirks| Bench::with(Toolbox { call_takes: Duration::ZERO, quirks, ..Toolbox::default() });
    let mut bench = odd(Quirks { empty_cursor: true, ..Quirks::default() });
    bench.request(0, 1, "tools/list", json!({}));
    assert_eq!(bench.answer()["result"]["nextCursor"], "");

    let mut bench = odd(Quirks { picture_results: true, ..Quirks::default() });
    bench.call(0, 1, "self.get_device_status", json!({}));
    let picture = bench.answer()["result"]["content"][0]["image"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&picture).unwrap()["mimeType"], "image/jpeg");

    let mut bench = odd(Quirks { ignores_unknown: true, ..Quirks::default() });
    bench.call(0, 1, "nobody", json!({})).request(0, 2, "prompts/list", json!({}));
    assert_eq!(bench.answers().len(), 0);

    let mut bench = odd(Quirks { silent: true, ..Quirks::default() });
    bench.request(0, 1, "initialize", json!({}));
    assert_eq!(bench.answers().len(), 0);

    let mut bench = odd(Quirks { late: Duration::from_secs(40), ..Quirks::default() });
    bench.request(0, 1, "initialize", json!({})).at(39_999, Event::Nothing);
    assert_eq!(bench.answers().len(), 0);
    bench.at(40_000, Event::Nothing);
    assert_eq!(bench.answers().len(), 1);
}

#[test]
fn old_firmware_sends_descriptions_of_things_and_then_states() {
    for (profile, names, speaker, method) in
        [("1.5.5", "", "Speaker", "SetVolume"), ("1.7.6", "s", "AudioSpeaker", "set_volume")]
    {
        let mut bench = Bench::new(profile, ListenMode::Auto);
        bench.at(0, Event::Button).at(0, Event::SocketOpen).text(0, HELLO);
        let sent: Vec<Value> = bench
            .out
            .iter()
            .filter_map(|o| match o {
                Output::Text(text) => Some(serde_json::from_str(text).unwrap()),
                _ => None,
            })
            .collect();
        let kinds: Vec<_> = sent.iter().map(|m| m["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["hello", "iot", "iot", "iot", "iot", "iot", "listen"], "{profile}");
        for thing in &sent[1..5] {
            assert_eq!(thing["update"], true);
            assert_eq!(thing["session_id"], names);
            assert_eq!(thing["descriptors"].as_array().unwrap().len(), 1);
        }
        let first = &sent[1]["descriptors"][0];
        assert_eq!(first["name"], speaker);
        assert_eq!(first["properties"]["volume"]["type"], "number");
        assert_eq!(first["methods"][method]["parameters"]["volume"]["type"], "number");
        assert_eq!(sent[5]["states"].as_array().unwrap().len(), 4);
        assert_eq!(sent[5]["states"][0], json!({"name": speaker, "state": {"volume": 70}}));
    }
}

#[test]
fn things_execute_commands_and_report_changes_at_the_next_listen() {
    let mut bench = Bench::listening("1.7.6", ListenMode::Auto);
    let commands = json!([
        {"name": "AudioSpeaker", "method": "set_volume", "parameters": {"volume": 55}},
        {"name": "Lamp", "method": "turn_on"},
        {"name": "Screen", "method": "set_theme", "parameters": {}},
        {"name": "Screen", "method": "SetTheme", "parameters": {"theme_name": "dark"}},
        {"name": "Toaster", "method": "toast"},
    ]);
    bench.text(0, &json!({"type": "iot", "commands": commands}).to_string());
    assert_eq!(bench.sent(), Vec::<String>::new(), "commands have no response");
    let board = bench.device.board();
    assert_eq!((board.volume, board.lamp, board.theme.as_str()), (55, true, "light"));
    bench.text(10, START).text(30, r#"{"type":"tts","state":"stop"}"#);
    let states = r#"{"session_id":"s","type":"iot","update":true,"states":[{"name":"AudioSpeaker","state":{"volume":55}},{"name":"Lamp","state":{"power":true}}]}"#;
    assert!(bench.out.contains(&Output::Text(states.into())));
    assert_eq!(bench.sent(), ["iot", "listen start auto"]);
    bench.text(40, r#"{"type":"iot","commands":[{"method":"x"}]}"#);
    assert_eq!(bench.device.state(), DeviceState::Idle, "a command without a name crashes it");
}
