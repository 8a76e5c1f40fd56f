//! Results of calls: whether a tool says that it has done what it was called for, or has failed. Not for what a result means
//! otherwise.

use serde_json::{Map, Value};

/// Result of a call: the text of the tool, or of its error.
pub type Outcome = Result<String, String>;

/// Deepest values of a result that are looked at.
const MOST_DEPTH: usize = 4;
/// Longest text that is searched for a failure, in characters: a longer one is content.
const LONGEST_CHARS: usize = 400;
/// Keys of a value that tells whether a call has succeeded.
const SUCCESS_KEYS: [&str; 6] = ["success", "succeeded", "ok", "done", "is_success", "issuccess"];
/// Keys of a value that tells whether a call has failed, or why.
const FAILURE_KEYS: [&str; 15] = [
    "error",
    "errors",
    "err",
    "iserror",
    "is_error",
    "exception",
    "failure",
    "fault",
    "failed",
    "errmsg",
    "error_message",
    "error_code",
    "errcode",
    "错误",
    "失败原因",
];
/// Keys of a number that is a status of HTTP or the like, of which [`FIRST_FAILED_CODE`] and above are failures.
const CODE_KEYS: [&str; 6] =
    ["code", "status", "status_code", "statuscode", "http_status", "httpstatus"];
const FIRST_FAILED_CODE: f64 = 400.0;
/// Keys of a text that may report a failure.
const TEXT_KEYS: [&str; 15] = [
    "text",
    "message",
    "msg",
    "detail",
    "details",
    "result",
    "status",
    "outcome",
    "reason",
    "description",
    "结果",
    "状态",
    "原因",
    "消息",
    "说明",
];
/// Keys of a value that names the end of a call in words.
const STATUS_KEYS: [&str; 4] = ["status", "result", "outcome", "state"];
/// Ends of a call in words that are successes, where they are the whole value.
const DONE_STATUS: [&str; 8] =
    ["ok", "success", "succeeded", "done", "completed", "成功", "操作成功", "完成"];
/// Ends of a call in words that are failures, where they are the whole value.
const FAILED_STATUS: [&str; 26] = [
    "error",
    "failed",
    "failure",
    "fail",
    "timeout",
    "timed_out",
    "timed out",
    "unavailable",
    "offline",
    "denied",
    "rejected",
    "refused",
    "forbidden",
    "unauthorized",
    "invalid",
    "not_found",
    "not found",
    "cancelled",
    "canceled",
    "aborted",
    "unsupported",
    "false",
    "失败",
    "错误",
    "超时",
    "离线",
];
/// Words of texts that report a failure.
const FAILURE_WORDS: [&str; 40] = [
    "error",
    "failed",
    "failure",
    "fails",
    "could not",
    "couldn't",
    "can not",
    "cannot",
    "can't",
    "unable",
    "timed out",
    "timeout",
    "time out",
    "not found",
    "no such",
    "unknown device",
    "unknown entity",
    "not supported",
    "unsupported",
    "not available",
    "unavailable",
    "not reachable",
    "unreachable",
    "not responding",
    "no response",
    "offline",
    "denied",
    "forbidden",
    "unauthorized",
    "not allowed",
    "not permitted",
    "refused",
    "rejected",
    "invalid",
    "exception",
    "traceback",
    "was not",
    "were not",
    "not called yet",
    "goes on without its result",
];
/// The same in Chinese.
const FAILURE_WORDS_ZH: [&str; 22] = [
    "失败",
    "错误",
    "出错",
    "无法",
    "不能",
    "未能",
    "没能",
    "超时",
    "找不到",
    "没找到",
    "未找到",
    "不存在",
    "不支持",
    "离线",
    "不在线",
    "拒绝",
    "无权",
    "没有权限",
    "异常",
    "不可用",
    "没有响应",
    "无响应",
];
/// Words before one of these that say that there is none.
const NONE_BEFORE: [&str; 10] =
    ["no ", "without ", "without any ", "0 ", "zero ", "无", "没有", "未发生", "没", "未出现"];

/// Reports whether a tool says that it has done what it was called for.
#[must_use]
pub fn has_done(outcome: &Outcome) -> bool {
    let Ok(text) = outcome else { return false };
    match serde_json::from_str::<Value>(text) {
        Ok(value) => !tells_failure(&value, MOST_DEPTH),
        Err(_) => !reports_failure(text),
    }
}

/// Reports whether a tool that was asked has answered: what it says may be about failures.
pub(crate) fn has_answered(outcome: &Outcome) -> bool {
    let Ok(text) = outcome else { return false };
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Bool(is_done)) => is_done,
        Ok(Value::Object(result)) => !says_failed(&result),
        _ => {
            let start: String = text.trim().chars().take(5).collect();
            !start.eq_ignore_ascii_case("error")
        }
    }
}

/// Reports whether a value reports a failure, at any depth.
fn tells_failure(value: &Value, depth: usize) -> bool {
    match value {
        Value::Bool(is_done) => !is_done,
        Value::String(text) => reports_failure(text),
        Value::Array(values) if depth > 0 => values.iter().any(|value| match value {
            // A list of states is content.
            Value::Object(_) => tells_failure(value, depth - 1),
            Value::String(text) => reports_failure(text),
            _ => false,
        }),
        Value::Object(result) if depth > 0 => {
            let nested = |key: &str, value: &Value| match value {
                Value::Object(_) => tells_failure(value, depth - 1),
                Value::Array(_) if key == "content" || key == "results" => {
                    tells_failure(value, depth - 1)
                }
                Value::String(text) => TEXT_KEYS.contains(&key) && reports_failure(text),
                _ => false,
            };
            says_failed(result)
                || ends_in_failure(result)
                || result.iter().any(|(key, value)| nested(&key.to_lowercase(), value))
        }
        _ => false,
    }
}

/// Reports whether the keys of a result say that the call has failed.
fn says_failed(result: &Map<String, Value>) -> bool {
    let is_falsy = |value: &Value| match value {
        Value::Bool(is_true) => !is_true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            matches!(
                text.trim().to_lowercase().as_str(),
                "" | "false" | "no" | "none" | "null" | "0"
            )
        }
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
    };
    // A list of what has failed beside what has succeeded is no failure of the call.
    let has_some = |name: &str| {
        result.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
    };
    let says = |(key, value): (&String, &Value)| {
        let key = key.to_lowercase();
        let key = key.as_str();
        let is_undone = SUCCESS_KEYS.contains(&key) && !value.is_array() && !value.is_null();
        let is_fault = FAILURE_KEYS.contains(&key) && !(key == "failed" && has_some("success"));
        is_undone && is_falsy(value)
            || is_fault && !is_falsy(value)
            || key == "response_type" && value == "error"
    };
    result.iter().any(says)
        || has_failed_code(result) && !says_done(result)
        || result.get("data").and_then(Value::as_object).is_some_and(says_failed)
}

/// Reports whether a result has a code of a failure, as a number or in digits.
fn has_failed_code(result: &Map<String, Value>) -> bool {
    let number = |value: &Value| match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    let is_failed = |value: &Value| number(value).is_some_and(|code| code >= FIRST_FAILED_CODE);
    result
        .iter()
        .any(|(key, value)| CODE_KEYS.contains(&key.to_lowercase().as_str()) && is_failed(value))
}

/// Reports whether a result names a success: then its code is none of a failure, as the code of a lock.
fn says_done(result: &Map<String, Value>) -> bool {
    result.iter().any(|(key, value)| {
        let key = key.to_lowercase();
        let key = key.as_str();
        let is_end = STATUS_KEYS.contains(&key) || matches!(key, "message" | "msg");
        match value {
            Value::Bool(is_true) => *is_true && SUCCESS_KEYS.contains(&key),
            Value::String(text) => {
                is_end && DONE_STATUS.contains(&text.trim().to_lowercase().as_str())
            }
            _ => false,
        }
    })
}

/// Reports whether the end of a call is named in words, and is a failure.
fn ends_in_failure(result: &Map<String, Value>) -> bool {
    result.iter().any(|(key, value)| {
        let is_failure = match value {
            Value::String(text) => FAILED_STATUS.contains(&text.trim().to_lowercase().as_str()),
            Value::Bool(is_true) => key == "result" && !is_true,
            _ => false,
        };
        is_failure && STATUS_KEYS.contains(&key.to_lowercase().as_str())
    })
}

/// Reports whether a text reports a failure.
fn reports_failure(text: &str) -> bool {
    let text = text.trim().to_lowercase().replace('’', "'");
    if text == "false" {
        return true;
    }
    if text.starts_with("error") || text.starts_with("failed") {
        return true;
    }
    if text.chars().count() > LONGEST_CHARS {
        return false;
    }
    let words = FAILURE_WORDS.iter().chain(&FAILURE_WORDS_ZH);
    words.into_iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let before = text.get(..at).unwrap_or_default();
            let is_whole = !word.is_ascii()
                || !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            is_whole && !NONE_BEFORE.iter().any(|none| before.ends_with(none))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_says_so_has_failed() {
        for text in [
            "false",
            r#""false""#,
            r#"{"success":false}"#,
            r#"{"success":"false"}"#,
            r#"{"ok":0}"#,
            r#"{"error":"no such device"}"#,
            r#"{"errors":["x"]}"#,
            r#"{"isError":true,"content":[]}"#,
            r#"{"isError":false,"content":[{"type":"text","text":"Error: offline"}]}"#,
            r#"{"status":"error"}"#,
            r#"{"status":"timeout","message":"late"}"#,
            r#"{"result":false}"#,
            r#"{"result":{"success":false}}"#,
            r#"{"message":"The device is offline"}"#,
            "Error: offline",
            "the device did not answer: timed out",
            "Could not reach the lamp",
            "lamp not found",
            "操作失败",
            "设备离线",
            "找不到这个设备",
            "调用超时",
            "not called yet: the person is asked",
            r#"{"data":{"success":[],"failed":[{"name":"x"}]}}"#,
            r#"{"result":"Device offline"}"#,
            r#"{"result":"设备离线"}"#,
            r#"{"结果":"设备离线"}"#,
            r#"{"status":"The lamp is not reachable"}"#,
            r#"{"outcome":"Request timed out"}"#,
            r#"{"reason":"无法连接"}"#,
            r#"{"description":"the device is unavailable"}"#,
            r#"{"code":404,"reason":"nowhere"}"#,
            r#"{"code":"503"}"#,
            r#"{"status":500}"#,
            r#"{"statusCode":403}"#,
            r#"{"errcode":40001}"#,
            r#"{"data":{"code":400}}"#,
            r#"{"data":{"result":"offline since noon"}}"#,
        ] {
            assert!(!has_done(&Ok(text.to_owned())), "{text}");
        }
        assert!(!has_done(&Err("timeout".to_owned())));
    }

    #[test]
    fn a_tool_that_says_nothing_of_a_failure_has_done_it() {
        for text in [
            "true",
            "",
            "ok",
            "done",
            "null",
            "0",
            "[]",
            r#"{"success":true}"#,
            r#"{"success":true,"error":null}"#,
            r#"{"success":true,"error":""}"#,
            r#"{"error":false}"#,
            r#"{"errors":[]}"#,
            r#"{"status":"ok","code":0}"#,
            r#"{"state":"off"}"#,
            r#"{"state":false}"#,
            r#"{"data":{"success":[{"name":"x"}],"failed":[]}}"#,
            r#"{"isError":false,"content":[{"type":"text","text":"done"}]}"#,
            "finished without errors",
            "No errors.",
            "没有错误",
            "Volume set to 30",
            r#"{"code":200,"message":"ok"}"#,
            r#"{"status":204}"#,
            r#"{"errcode":0}"#,
            r#"{"code":10000,"msg":"success"}"#,
            r#"{"success":true,"code":4711}"#,
            r#"{"result":"the lamp is on","reason":"asked for"}"#,
            r#"{"结果":"成功"}"#,
            r#"{"brightness":400}"#,
        ] {
            assert!(has_done(&Ok(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn an_answer_may_be_about_failures() {
        for text in ["lamp: unavailable", "3 errors today", r#"{"lamp":"offline"}"#] {
            assert!(has_answered(&Ok(text.to_owned())), "{text}");
        }
        for text in [
            "error: x",
            "false",
            r#"{"success":false}"#,
            r#"{"error":"x"}"#,
            r#"{"code":404,"reason":"not reachable"}"#,
        ] {
            assert!(!has_answered(&Ok(text.to_owned())), "{text}");
        }
    }
}
