//! Demo tools of `hearken text-client`: those of a fictitious device. Not for real ones.

use serde_json::{Map, Value, json};

use super::screen::word;

/// Tools with their state.
#[derive(Debug)]
pub(super) struct Toolset {
    volume: u64,
}

impl Toolset {
    /// Creates the tools `get_battery` and `set_volume`.
    pub(super) fn demo() -> Self {
        Self { volume: 70 }
    }

    /// Returns the message that registers them.
    pub(super) fn registration(&self) -> Value {
        let battery = json!({ "type": "object", "properties": {}, "required": [] });
        let volume =
            json!({ "type": "integer", "description": "0-100", "minimum": 0, "maximum": 100 });
        let volume =
            json!({ "type": "object", "properties": { "volume": volume }, "required": ["volume"] });
        json!({
            "type": "register_tools",
            "tools": [
                {
                    "name": "get_battery", "parameters": battery,
                    "description": "Get the battery level of this device in percent (获取设备当前电量)",
                },
                {
                    "name": "set_volume", "parameters": volume,
                    "description": "Set the volume of this device (设置设备音量)",
                },
            ],
        })
    }

    /// Renders the list of tools for people.
    pub(super) fn shown(&self) -> String {
        format!("get_battery\nset_volume (the volume is {})", self.volume)
    }

    fn call(&mut self, name: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
        match name {
            "get_battery" => Ok(json!({ "level": 85, "charging": false })),
            "set_volume" => match arguments.get("volume").and_then(Value::as_u64) {
                Some(volume @ 0..=100) => {
                    self.volume = volume;
                    Ok(json!({ "volume": volume, "status": "set" }))
                }
                _ => Err("volume must be a whole number from 0 to 100".into()),
            },
            _ => Err(format!("Tool '{name}' not found")),
        }
    }
}

/// Returns the `tool_result` for this `tool_callback`.
pub(super) fn answer(toolset: Option<&mut Toolset>, call: &Value) -> Value {
    let name = word(call, "tool_name");
    let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
    let outcome = match toolset {
        Some(toolset) => toolset.call(name, &arguments),
        None => Err(format!("Tool '{name}' not found")),
    };
    match outcome {
        Ok(result) => json!({
            "type": "tool_result", "call_id": call["call_id"], "success": true, "result": result,
        }),
        Err(error) => json!({
            "type": "tool_result", "call_id": call["call_id"], "success": false, "error": error,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_callback_is_answered() {
        let mut toolset = Toolset::demo();
        for (name, arguments, success) in [
            ("get_battery", json!({}), true),
            ("set_volume", json!({ "volume": 50 }), true),
            ("set_volume", json!({ "volume": 101 }), false),
            ("set_volume", json!({ "volume": "50" }), false),
            ("dance", Value::Null, false),
        ] {
            let call = json!({ "call_id": "7", "tool_name": name, "arguments": arguments });
            let result = answer(Some(&mut toolset), &call);
            assert_eq!((&result["call_id"], &result["success"]), (&json!("7"), &json!(success)));
            assert_eq!(result["error"].is_string(), !success, "{result}");
        }
        assert!(toolset.shown().contains("is 50"));
        assert_eq!(answer(None, &json!({ "tool_name": "get_battery" }))["success"], false);
    }
}
