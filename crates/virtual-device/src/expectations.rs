//! Whether a session brought what a recording expects. Not for printing.

use hearken_proto::recording::Expect;
use serde_json::Value;

use super::firmware::Fact;
use super::report::Report;
use super::text_similarity::error_rate;

/// One expectation and what came of it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ExpectationResult {
    /// What was expected.
    pub what: &'static str,
    /// Whether it held.
    pub held: bool,
    /// What was found.
    pub found: String,
}

/// Compares a report with the expectations. `readback` is the part of the reply that recognition
/// read back from its audio; where None, that expectation is not checked.
pub fn judge(expect: &Expect, report: &Report, readback: Option<f64>) -> Vec<ExpectationResult> {
    let mut verdicts = Vec::new();
    if let Some(said) = &expect.transcript {
        let heard = report.transcript();
        let error = error_rate(said, &heard);
        let most = expect.max_error.unwrap_or(0.0);
        verdicts.push(ExpectationResult {
            what: "transcript",
            held: !heard.is_empty() && error <= most + 1e-9,
            found: format!(
                "`{heard}` for `{said}`: {:.0} % wrong, {:.0} % allowed",
                error * 100.0,
                most * 100.0
            ),
        });
    }
    if expect.reply == Some(true) {
        let (reply, played) = (report.reply(), report.packets().played);
        let found = format!("`{reply}`, {played} packets played");
        verdicts.push(ExpectationResult {
            what: "reply",
            held: !reply.is_empty() && played > 0,
            found,
        });
    }
    if let (Some(least), Some(read)) = (expect.readback, readback) {
        let found = format!("{:.0} % read back, {:.0} % wanted", read * 100.0, least * 100.0);
        verdicts.push(ExpectationResult { what: "readback", held: read + 1e-9 >= least, found });
    }
    if !expect.order.is_empty() {
        let missing = first_missing(&expect.order, report);
        let found =
            missing.map_or_else(|| "as wanted".into(), |m| format!("no `{m}` in its place"));
        verdicts.push(ExpectationResult { what: "order", held: missing.is_none(), found });
    }
    for wanted in &expect.calls {
        let called =
            report.calls().any(|c| c.name == wanted.name && c.arguments == wanted.arguments);
        let all: Vec<String> = report
            .calls()
            .map(|c| format!("{} {}", c.name, Value::Object(c.arguments.clone())))
            .collect();
        let found = if all.is_empty() { "no tool".into() } else { all.join(", ") };
        verdicts.push(ExpectationResult { what: "call", held: called, found });
    }
    verdicts
}

fn first_missing<'a>(order: &'a [String], report: &Report) -> Option<&'a str> {
    let mut wanted = order.iter().peekable();
    for (_, fact) in report.facts() {
        // All found: nothing is missing.
        let next = wanted.peek()?;
        let matches = match fact {
            Fact::Message { kind, .. } => kind == *next,
            Fact::PacketReceived => "audio" == *next,
            _ => false,
        };
        if matches {
            wanted.next();
        }
    }
    wanted.next().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use hearken_proto::recording::ExpectedCall;

    use super::*;
    use crate::events::ToolUse;
    use crate::report::What;
    use std::time::Duration;

    fn report(facts: &[(&str, Option<&str>)]) -> Report {
        let mut report = Report::default();
        for (at, (kind, text)) in facts.iter().enumerate() {
            let fact = Fact::Message { kind: (*kind).into(), text: text.map(str::to_owned) };
            report.add(Duration::from_millis(at as u64), What::Noticed(fact));
        }
        report
    }

    #[test]
    fn each_expectation_is_judged() {
        let report = report(&[("stt", Some("你好吗")), ("tts start", None), ("tts stop", None)]);
        let expect = Expect {
            transcript: Some("你好".into()),
            max_error: Some(0.5),
            reply: Some(true),
            readback: Some(0.8),
            order: ["stt", "tts stop"].map(String::from).to_vec(),
            ..Expect::default()
        };
        let held = |readback| {
            let verdicts = judge(&expect, &report, readback);
            verdicts.iter().map(|v| (v.what, v.held)).collect::<Vec<_>>()
        };
        assert_eq!(held(None), [("transcript", true), ("reply", false), ("order", true)]);
        assert_eq!(held(Some(0.7))[2], ("readback", false));
        let strict = Expect {
            transcript: Some("你好".into()),
            order: ["tts stop", "stt"].map(String::from).to_vec(),
            ..Expect::default()
        };
        let verdicts = judge(&strict, &report, None);
        assert!(verdicts.iter().all(|v| !v.held), "{verdicts:?}");
    }

    #[test]
    fn calls_are_judged_by_name_and_arguments() {
        let forty = serde_json::json!({"volume": 40}).as_object().unwrap().clone();
        let mut report = Report::default();
        let call = ToolUse { name: "volume".into(), arguments: forty.clone() };
        report.add(Duration::ZERO, What::Noticed(Fact::ToolCalled(call)));
        let wanted = |name: &str, arguments: &serde_json::Map<String, Value>| ExpectedCall {
            name: name.into(),
            arguments: arguments.clone(),
        };
        let none = serde_json::Map::new();
        let calls = vec![wanted("volume", &forty), wanted("volume", &none), wanted("lamp", &forty)];
        let verdicts = judge(&Expect { calls, ..Expect::default() }, &report, None);
        assert_eq!(verdicts.iter().map(|v| v.held).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(verdicts[0].found, r#"volume {"volume":40}"#);
    }
}
