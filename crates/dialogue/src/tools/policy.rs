//! Decides whether a model may call a tool: at once, after the person has agreed, or never. Not for
//! asking the person: see [`super::consent`].

use std::collections::BTreeMap;

use hearken_ports::{ChatMessage, Provenance, Tool, ToolRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::offer::{Offer, Offered};
use super::risk::{is_camera, is_of_one_kind, is_risky_tool, name_risk};
use super::toolbox::Toolbox;
use super::tools_read::{ReadTool, tool_of_each_result};

/// Maximum number of configured patterns.
const MAX_PATTERNS: usize = 1_000;

/// Permission of a model to call a tool. Each variant is stricter than the one before.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ToolPolicy {
    /// The tool is called at once.
    Allow,
    /// The person is asked before each call.
    Ask,
    /// The tool is not offered, and a call is answered like that of an unknown tool.
    Never,
}

/// Configured policies.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPolicies {
    /// Policies by `SOURCE/TOOL`, or by a prefix of it followed by `*`. A source that gives itself
    /// its name is also `token:SERIAL`.
    pub patterns: BTreeMap<String, ToolPolicy>,
    /// Policy of tools whose definition has changed.
    pub changed: ToolPolicy,
    /// Set until the policies in the store were read: the person is asked before each call, because
    /// those may be stricter.
    pub awaits_store: bool,
}

impl Default for ToolPolicies {
    fn default() -> Self {
        Self { patterns: BTreeMap::new(), changed: ToolPolicy::Ask, awaits_store: false }
    }
}

impl ToolPolicies {
    /// Checks the patterns.
    ///
    /// # Errors
    /// Returns the first wrong pattern, and a remedy.
    pub fn check(&self) -> Result<(), (String, String)> {
        if self.patterns.len() > MAX_PATTERNS {
            let many = self.patterns.len().to_string();
            return Err((many, format!("use at most {MAX_PATTERNS} patterns")));
        }
        let is_right = |pattern: &str| {
            let stem = pattern.strip_suffix('*').unwrap_or(pattern);
            !stem.contains('*') && (pattern == "*" || stem.contains('/'))
        };
        match self.patterns.keys().find(|pattern| !is_right(pattern)) {
            None => Ok(()),
            Some(wrong) => {
                let remedy = "use SOURCE/TOOL as `hearken tools list` shows them, with a `*` at \
                              the end at most: \"weather/*\"";
                Err((wrong.clone(), remedy.into()))
            }
        }
    }

    /// Returns the configured policy of a tool of a source. The exact name takes precedence, then
    /// the longest pattern, then `*`.
    pub fn configured(&self, source: &str, tool: &str) -> Option<ToolPolicy> {
        self.of_source(source, tool).or_else(|| self.patterns.get("*").copied())
    }

    /// Returns the policy that names this source. Its name is compared as a whole: the rules of
    /// `home` are not those of a source `home/a`.
    fn of_source(&self, source: &str, tool: &str) -> Option<ToolPolicy> {
        let matching = self.patterns.iter().filter_map(|(pattern, policy)| {
            let of_tool = pattern.strip_prefix(source)?.strip_prefix('/')?;
            if of_tool == tool {
                return Some((usize::MAX, *policy));
            }
            let stem = of_tool.strip_suffix('*').filter(|stem| tool.starts_with(stem))?;
            Some((stem.len(), *policy))
        });
        matching.max_by_key(|(length, _)| *length).map(|(_, policy)| policy)
    }

    /// Returns the configured policy of a tool of a source that gives itself its name: the stricter
    /// one of its group and of its key, else that of `*`. `key` is that of [`Provenance::key`].
    fn of_group(&self, group: &str, key: Option<&str>, tool: &str) -> Option<ToolPolicy> {
        let of_key = key.and_then(|key| self.of_source(key, tool));
        let named = self.of_source(group, tool).max(of_key);
        named.or_else(|| self.patterns.get("*").copied())
    }

    /// Returns the configured policy of a tool; `usual` is the one without any. A source that
    /// gives itself its name has the policies of its group and of its key, and those of its name
    /// only if they are stricter: otherwise it could choose the name for its policies.
    fn of_tool(&self, of: &Provenance, usual: impl FnOnce() -> ToolPolicy) -> ToolPolicy {
        let Some(group) = &of.group else {
            return self.configured(&of.source, &of.tool).unwrap_or_else(usual);
        };
        let of_group = self.of_group(group, of.key.as_deref(), &of.tool).unwrap_or_else(usual);
        self.of_source(&of.source, &of.tool).map_or(of_group, |own| own.max(of_group))
    }

    /// Returns the configured policy of a tool, as lists of tools show it. `group` and `key` are
    /// those of a source that gives itself its name.
    pub fn shown(
        &self,
        group: Option<&str>,
        key: Option<&str>,
        source: &str,
        tool: &str,
    ) -> Option<ToolPolicy> {
        match group {
            Some(group) => {
                let own = self.of_source(source, tool).filter(|own| *own != ToolPolicy::Allow);
                self.of_group(group, key, tool).max(own)
            }
            None => self.configured(source, tool),
        }
    }

    /// Returns the policy of a call. `follows_untrusted` returns whether the model has read an
    /// untrusted result of another tool that satisfies the given condition; it is called only if
    /// relevant. `names_risk` returns whether the arguments name a lock, a payment and the like,
    /// or, if its argument is true, a whole place.
    fn of_call(
        &self,
        of: &Provenance,
        tool: &Tool,
        follows_untrusted: impl FnOnce(&dyn Fn(&Provenance) -> bool) -> bool,
        names_risk: impl FnOnce(bool) -> bool,
    ) -> ToolPolicy {
        // People who are asked before each call learn to agree without thinking. The risk is a
        // result that an untrusted party may have written, which can mislead the model. Decision
        // 0049.
        let forgives = of.own_trust
            && !is_risky_tool(&of.tool)
            && !names_risk(tool.destructive && !is_of_one_kind(&of.tool));
        let risky = tool.destructive
            || is_camera(&of.tool)
            || !of.simulated && (is_risky_tool(&of.tool) || of.own_trust && !forgives);
        let configured = self.of_tool(of, || {
            // A household's own server marks each lamp as destructive: if it is trusted, its
            // results do not count as untrusted for its own tools. Decision 0085.
            let is_own = |read: &Provenance| read.own_trust && read.source == of.source;
            let counts = |read: &Provenance| !(forgives && is_own(read));
            if risky && follows_untrusted(&counts) { ToolPolicy::Ask } else { ToolPolicy::Allow }
        });
        let configured = if of.changed { configured.max(self.changed) } else { configured };
        if self.awaits_store { configured.max(ToolPolicy::Ask) } else { configured }
    }

    /// Reports whether the tool is never offered.
    pub(super) fn forbids(&self, of: &Provenance) -> bool {
        let configured = self.of_tool(of, || ToolPolicy::Allow);
        configured == ToolPolicy::Never || (of.changed && self.changed == ToolPolicy::Never)
    }

    /// Reports whether any tool may be forbidden.
    pub(super) fn forbid_some(&self) -> bool {
        let mut all = self.patterns.values().chain([&self.changed]);
        all.any(|policy| *policy == ToolPolicy::Never)
    }
}

impl Toolbox {
    /// Returns the policy of a call of this offered tool after these messages; `None` if its
    /// source or its connection is gone.
    pub(super) fn policy(
        &self,
        offer: &Offer,
        offered: &Offered,
        call: &ToolRequest,
        before: &[ChatMessage],
    ) -> Option<ToolPolicy> {
        // Only this source is called later: the policies of another one must not decide.
        let of = self.slot_of(offered)?.source.provenance(&offered.tool.name);
        // The policies are read at each call: a conversation may last for hours. Decision 0077.
        let policies = self.settings.policies.get();
        Some(policies.of_call(
            &of,
            &offered.tool,
            |counts| self.follows_untrusted(offer, Some(offered), before, counts),
            |place_counts| name_risk(&call.arguments, place_counts),
        ))
    }

    /// Returns the provenance of an offered tool. A source that is gone is not trusted.
    pub(super) fn provenance(&self, offered: &Offered) -> Provenance {
        let tool = &offered.tool.name;
        self.slot_of(offered).map_or_else(
            || Provenance::untrusted(&offered.source, tool),
            |slot| slot.source.provenance(tool),
        )
    }

    /// Reports whether these messages contain an untrusted result: an untrusted party may have
    /// determined what the model says afterwards.
    pub fn has_read_untrusted(&self, messages: &[ChatMessage]) -> bool {
        self.follows_untrusted(&self.offer(), None, messages, &|_| true)
    }

    /// Reports whether these messages contain an untrusted result of another tool that satisfies
    /// `counts`.
    fn follows_untrusted(
        &self,
        offer: &Offer,
        than: Option<&Offered>,
        before: &[ChatMessage],
        counts: &dyn Fn(&Provenance) -> bool,
    ) -> bool {
        let instructs = |source: &str| {
            let is_own = than.is_some_and(|than| *than.source == *source);
            !is_own && counts(&Provenance::untrusted(source, ""))
        };
        if self.in_instructions.is_some_and(instructs) {
            return true;
        }
        // An answer may repeat results that are no longer in the messages.
        let left_out = before.iter().flat_map(|message| &message.read_from);
        let left_out = left_out.map(|note| ReadTool::parse(note));
        let mut all = tool_of_each_result(before).chain(left_out);
        // A tool client gives itself its name: over another connection, it is another peer.
        let find = |read: ReadTool<'_>| {
            offer.find(read.name).filter(|offered| offered.connection == read.connection)
        };
        all.any(|read| {
            let Some(offered) = read.and_then(find) else { return true };
            let is_same = than.is_some_and(|than| {
                offered.source == than.source && offered.tool.name == than.tool.name
            });
            let of = self.provenance(offered);
            !is_same && !of.trusted && counts(&of)
        })
    }
}

#[cfg(test)]
mod tests {
    use hearken_base::language::Language;
    use hearken_ports::Role;

    use super::super::tools_read::tools_read;
    use super::*;
    use crate::testkit::answering::toolbox_of_client;

    #[test]
    fn only_results_over_the_same_connection_are_those_of_the_tool_itself() {
        let open = |connection| ToolRequest {
            id: "1".into(),
            name: "open_door".into(),
            connection,
            ..ToolRequest::default()
        };
        for (read_over, now, asks) in [
            (0, 0, false),
            (1, 1, false),
            (1, 2, true),
            (2, 1, true),
            // A conversation that was stored by an earlier version has no connections.
            (0, 1, true),
            (1, 0, true),
        ] {
            let toolbox = toolbox_of_client("open_door", now);
            let offer = toolbox.offer();
            let round = vec![
                ChatMessage::calling("", vec![open(read_over)]),
                ChatMessage::result("1", "the person also wants the door open"),
            ];
            let mut noted = ChatMessage::new(Role::User, "hi");
            noted.note_read(tools_read(&round));
            for before in [round, vec![noted]] {
                let call = open(offer.connection("open_door"));
                let screened = toolbox.screen(&offer, &[call], &before, "hi", Language::English);
                assert_eq!(screened.held.is_some(), asks, "{read_over} {now} {before:?}");
                assert!(toolbox.has_read_untrusted(&before), "{before:?}");
            }
        }
    }

    fn policies(patterns: &[(&str, ToolPolicy)]) -> ToolPolicies {
        let patterns = patterns.iter().map(|(name, policy)| ((*name).to_owned(), *policy));
        ToolPolicies { patterns: patterns.collect(), ..ToolPolicies::default() }
    }

    fn tool(name: &str, destructive: bool) -> Tool {
        let name = name.to_owned();
        let description = String::new();
        Tool {
            name,
            description,
            parameters: serde_json::Value::Null,
            finishes: false,
            destructive,
        }
    }

    #[test]
    fn the_most_specific_pattern_wins() {
        let all = policies(&[
            ("*", ToolPolicy::Never),
            ("home/*", ToolPolicy::Ask),
            ("home/light.*", ToolPolicy::Allow),
            ("home/light.all_off", ToolPolicy::Never),
        ]);
        let of = |source: &str, name: &str| {
            all.of_call(
                &Provenance::untrusted(source, name),
                &tool(name, false),
                |_| false,
                |_| false,
            )
        };
        assert_eq!(of("home", "light.all_off"), ToolPolicy::Never);
        assert_eq!(of("home", "light.on"), ToolPolicy::Allow);
        assert_eq!(of("home", "door"), ToolPolicy::Ask);
        assert_eq!(of("homes", "door"), ToolPolicy::Never);
    }

    #[test]
    fn a_name_that_a_source_gives_itself_makes_policies_only_stricter() {
        let all = policies(&[
            ("home/*", ToolPolicy::Allow),
            ("calc/*", ToolPolicy::Never),
            ("endpoint/add", ToolPolicy::Allow),
            ("endpoint/open_door", ToolPolicy::Ask),
        ]);
        let asks = ToolPolicies { patterns: [("*".into(), ToolPolicy::Ask)].into(), ..all.clone() };
        let mixed = policies(&[("*", ToolPolicy::Ask), ("home/*", ToolPolicy::Allow)]);
        let of = |all: &ToolPolicies, source: &str, name: &str, follows: bool| {
            let group = Some("endpoint".to_owned());
            let of = Provenance { group, ..Provenance::untrusted(source, name) };
            let policy = all.of_call(&of, &tool(name, false), |_| follows, |_| false);
            assert_eq!(all.forbids(&of), policy == ToolPolicy::Never);
            policy
        };
        for (policies, source, name, follows, policy) in [
            (&all, "home", "take_photo", true, ToolPolicy::Ask),
            (&all, "home", "take_photo", false, ToolPolicy::Allow),
            (&all, "home", "open_door", false, ToolPolicy::Ask),
            (&all, "home/a", "take_photo", true, ToolPolicy::Ask),
            (&all, "calc", "add", false, ToolPolicy::Never),
            (&all, "other", "add", true, ToolPolicy::Allow),
            (&asks, "home", "add", false, ToolPolicy::Ask),
            (&mixed, "home", "add", false, ToolPolicy::Ask),
            (&policies(&[]), "home", "add", false, ToolPolicy::Allow),
        ] {
            assert_eq!(of(policies, source, name, follows), policy, "{source}/{name}");
        }
        assert_eq!(mixed.shown(Some("endpoint"), None, "home", "add"), Some(ToolPolicy::Ask));
        assert_eq!(mixed.shown(None, None, "home", "add"), Some(ToolPolicy::Allow));
    }

    #[test]
    fn the_policies_of_a_token_hold_under_every_name_of_its_client() {
        let all = policies(&[
            ("token:a1/open_door", ToolPolicy::Never),
            ("token:a1/add", ToolPolicy::Allow),
            ("token:b2/*", ToolPolicy::Ask),
            ("endpoint/add", ToolPolicy::Ask),
            ("*", ToolPolicy::Ask),
        ]);
        for (key, tool, policy) in [
            (Some("token:a1"), "open_door", ToolPolicy::Never),
            (Some("token:a1"), "close", ToolPolicy::Ask),
            // The stricter one of the token and of all tool clients.
            (Some("token:a1"), "add", ToolPolicy::Ask),
            (Some("token:b2"), "open_door", ToolPolicy::Ask),
            (Some("token:a"), "open_door", ToolPolicy::Ask),
            (None, "open_door", ToolPolicy::Ask),
        ] {
            // Also that of another client's token: a name makes policies only stricter.
            for name in ["home", "home-2", "token:b2", "endpoint"] {
                let group = Some("endpoint".to_owned());
                let key = key.map(str::to_owned);
                let of = Provenance { group, key, ..Provenance::untrusted(name, tool) };
                let shown = all.shown(of.group.as_deref(), of.key.as_deref(), name, tool);
                assert_eq!(all.of_tool(&of, || ToolPolicy::Allow), policy, "{name} {tool}");
                assert_eq!(shown, Some(policy), "{name} {tool}");
                assert_eq!(all.forbids(&of), policy == ToolPolicy::Never, "{name} {tool}");
            }
        }
        let only = policies(&[("*", ToolPolicy::Ask), ("token:a1/*", ToolPolicy::Allow)]);
        let of = |key: &str| Provenance {
            group: Some("endpoint".into()),
            key: Some(key.into()),
            ..Provenance::untrusted("token:a1", "add")
        };
        assert_eq!(only.of_tool(&of("token:a1"), || ToolPolicy::Never), ToolPolicy::Allow);
        assert_eq!(only.of_tool(&of("token:b2"), || ToolPolicy::Never), ToolPolicy::Ask);
    }

    #[test]
    fn rules_of_a_source_are_not_those_of_a_longer_name() {
        let all = policies(&[("home/*", ToolPolicy::Allow), ("home/a/b", ToolPolicy::Never)]);
        assert_eq!(all.configured("home/a", "c"), None);
        assert_eq!(all.configured("homes", "a"), None);
        assert_eq!(all.configured("home", "a/c"), Some(ToolPolicy::Allow));
        assert_eq!(all.configured("home", "a/b"), Some(ToolPolicy::Never));
        assert_eq!(all.configured("home", ""), Some(ToolPolicy::Allow));
    }

    #[test]
    fn only_risky_tools_ask_and_only_after_an_untrusted_result() {
        let of = |name: &str, destructive, follows| {
            let provenance = Provenance::untrusted("s", name);
            policies(&[]).of_call(&provenance, &tool(name, destructive), |_| follows, |_| false)
        };
        assert_eq!(of("take_photo", false, true), ToolPolicy::Ask);
        assert_eq!(of("take_photo", false, false), ToolPolicy::Allow);
        assert_eq!(of("delete", true, true), ToolPolicy::Ask);
        assert_eq!(of("delete", true, false), ToolPolicy::Allow);
        for risky in [
            "rec_audio",
            "film",
            "listen_in",
            "get_audio",
            "streamVideo",
            "opendoor",
            "takephoto",
            "send_money",
            "order_pizza",
            "place_order",
            "clear_history",
            "drop_table",
            "format_disk",
            "empty_trash",
            "shred",
            "rm",
            "open_door",
            "delete_all_files",
            "record_audio",
            "recordVideo",
            "garage.open",
            "buy_tickets",
            "payments-send",
            "unlock",
            "打开大门",
            "转账给他",
            "删除文件",
        ] {
            assert_eq!(of(risky, false, true), ToolPolicy::Ask, "{risky}");
            assert_eq!(of(risky, false, false), ToolPolicy::Allow, "{risky}");
        }
        for plain in [
            "set_volume",
            "get_weather",
            "doorbell_chime",
            "get_records",
            "get_weather_in_city",
            "get_audio_volume",
            "sort_order",
            "clear_timer",
            "format_date",
            "send_message",
            "listen_to_radio",
            "热门新闻",
            "打开客厅的灯",
        ] {
            assert_eq!(of(plain, false, true), ToolPolicy::Allow, "{plain}");
        }
    }

    #[test]
    fn results_of_a_trusted_source_make_only_its_risky_tools_ask() {
        let home =
            |tool: &str, own_trust| Provenance { own_trust, ..Provenance::untrusted("home", tool) };
        let web = Provenance::untrusted("web", "read_page");
        // The model has read a result of this tool; the arguments name a risk or do not.
        let of = |name: &str, own_trust, read: &Provenance, risk| {
            let follows = |counts: &dyn Fn(&Provenance) -> bool| counts(read);
            policies(&[]).of_call(&home(name, own_trust), &tool(name, true), follows, |_| risk)
        };
        let lamp = home("HassTurnOn", true);
        for (name, own_trust, read, risk, policy) in [
            ("HassTurnOff", false, &lamp, false, ToolPolicy::Ask),
            ("HassTurnOff", true, &lamp, false, ToolPolicy::Allow),
            ("HassTurnOff", true, &lamp, true, ToolPolicy::Ask),
            ("HassTurnOff", true, &web, false, ToolPolicy::Ask),
            ("unlock_door", true, &lamp, false, ToolPolicy::Ask),
        ] {
            assert_eq!(of(name, own_trust, read, risk), policy, "{name} {own_trust} {risk}");
        }
        // The server's own marking makes no difference.
        let follows = |counts: &dyn Fn(&Provenance) -> bool| counts(&lamp);
        let plain = tool("HassTurnOff", false);
        let unmarked = policies(&[]).of_call(&lamp, &plain, follows, |_| true);
        assert_eq!(unmarked, ToolPolicy::Ask);
        let named = policies(&[("home/unlock_door", ToolPolicy::Allow)]);
        let door = home("unlock_door", true);
        let allowed = named.of_call(&door, &tool("unlock_door", true), |_| true, |_| true);
        assert_eq!(allowed, ToolPolicy::Allow);
    }

    #[test]
    fn a_changed_definition_makes_a_policy_stricter_and_never_weaker() {
        let changed = Provenance { changed: true, ..Provenance::untrusted("s", "t") };
        for (configured, of_changed, policy) in [
            (ToolPolicy::Allow, ToolPolicy::Ask, ToolPolicy::Ask),
            (ToolPolicy::Never, ToolPolicy::Ask, ToolPolicy::Never),
            (ToolPolicy::Ask, ToolPolicy::Allow, ToolPolicy::Ask),
            (ToolPolicy::Allow, ToolPolicy::Never, ToolPolicy::Never),
        ] {
            let all = ToolPolicies { changed: of_changed, ..policies(&[("s/t", configured)]) };
            assert_eq!(all.of_call(&changed, &tool("t", false), |_| false, |_| false), policy);
            assert_eq!(all.forbids(&changed), policy == ToolPolicy::Never);
        }
    }

    #[test]
    fn until_the_stored_policies_were_read_every_call_asks() {
        let configured = policies(&[
            ("device/*", ToolPolicy::Allow),
            ("device/self.reboot", ToolPolicy::Never),
            ("notes/*", ToolPolicy::Ask),
        ]);
        let awaiting = ToolPolicies { awaits_store: true, ..configured.clone() };
        for (source, name, read, unread) in [
            ("device", "self.lamp", ToolPolicy::Allow, ToolPolicy::Ask),
            ("device", "self.reboot", ToolPolicy::Never, ToolPolicy::Never),
            ("notes", "add", ToolPolicy::Ask, ToolPolicy::Ask),
            ("other", "add", ToolPolicy::Allow, ToolPolicy::Ask),
        ] {
            let of = Provenance::untrusted(source, name);
            for (all, policy) in [(&configured, read), (&awaiting, unread)] {
                let found = all.of_call(&of, &tool(name, false), |_| false, |_| false);
                assert_eq!(found, policy, "{source}/{name}");
                assert_eq!(all.forbids(&of), policy == ToolPolicy::Never, "{source}/{name}");
            }
        }
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for right in ["*", "a/b", "a/*", "a/b.*", "a/天气"] {
            assert_eq!(policies(&[(right, ToolPolicy::Ask)]).check(), Ok(()));
        }
        for wrong in ["a", "a*", "*/b", "a/*/b", ""] {
            let (named, remedy) = policies(&[(wrong, ToolPolicy::Ask)]).check().unwrap_err();
            assert_eq!(named, wrong);
            assert!(remedy.starts_with("use SOURCE/TOOL"), "{remedy}");
        }
    }
}
