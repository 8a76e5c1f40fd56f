//! Tools of one conversation, collected from all its sources and named for the model. Not for
//! calling them: see [`super::calls`].

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hearken_base::pace::Pace;
use hearken_ports::{ImageDescriber, OfferedTool, Tool, ToolRequest, ToolSource};
use tokio::sync::Semaphore;

use super::ToolSettings;
use super::allotment::allot;
use super::finishing::{FinishingCalls, LateResults};
use super::held_call::HeldCall;
use super::image_description::{self, SourceDescriber};
use super::names::{Names, rename};
use super::offer::{BuiltOffer, Offer, Offered, SourceSlot, SourceTools};
use super::toolset_interner::{OfferKey, ToolsetInterner};
use crate::usage::UsageAccount;

/// Returns the current sources of a conversation, besides those of its device.
pub type SourceProvider = Arc<dyn Fn() -> Vec<Arc<dyn ToolSource>> + Send + Sync>;

/// All tools of one conversation.
pub struct Toolbox {
    pub(super) settings: ToolSettings,
    own: Vec<Arc<dyn ToolSource>>,
    others: SourceProvider,
    /// Describes pictures in tool results.
    describer: Option<Arc<dyn ImageDescriber>>,
    /// Rate limit of described pictures.
    pictures: Pace,
    /// Source whose content is in the instructions.
    pub(super) in_instructions: Option<&'static str>,
    interner: ToolsetInterner,
    known: Mutex<KnownSources>,
    /// Calls that continue even if their turn is cut.
    pub(super) finishing: FinishingCalls,
    pub(super) late: LateResults,
    /// Call pending the person's consent.
    held: Mutex<Option<HeldCall>>,
    /// Account for described pictures.
    account: Mutex<Option<UsageAccount>>,
}

#[derive(Default)]
struct KnownSources {
    /// Sources of the last offer. Each name occurs once.
    slots: Vec<SourceSlot>,
    built: Arc<BuiltOffer>,
}

impl Toolbox {
    /// Creates a toolbox of the device's own sources and the sources of `others`, which is called
    /// before each round of a turn. If several sources have the same name, only the first is used.
    pub fn new(
        own: Vec<Arc<dyn ToolSource>>,
        others: SourceProvider,
        settings: ToolSettings,
    ) -> Self {
        let known = Mutex::default();
        let finishing = FinishingCalls::default();
        Self {
            settings,
            own,
            others,
            describer: None,
            pictures: image_description::pace(),
            in_instructions: None,
            interner: ToolsetInterner::default(),
            known,
            finishing,
            late: LateResults::default(),
            held: Mutex::default(),
            account: Mutex::default(),
        }
    }

    /// Sets the interner that shares equal tool lists with other conversations.
    #[must_use]
    pub fn interner(mut self, interner: ToolsetInterner) -> Self {
        self.interner = interner;
        self
    }

    /// Sets the calls that must finish. They continue while any of the conversations that share
    /// this exists.
    #[must_use]
    pub fn finishing(mut self, finishing: FinishingCalls) -> Self {
        self.finishing = finishing;
        self
    }

    /// Sets the describer that converts pictures in tool results to text.
    #[must_use]
    pub fn with_describer(mut self, describer: Option<Arc<dyn ImageDescriber>>) -> Self {
        self.describer = describer;
        self
    }

    /// Sets the source whose content is in the instructions, such as the state of a world. For the
    /// tools of other sources, it counts as an untrusted result that the model has read.
    #[must_use]
    pub fn with_instructions_from(mut self, source: &'static str) -> Self {
        self.in_instructions = Some(source);
        self
    }

    /// Returns those of these calls that continued after their turn was cut, and whose results go
    /// to a turn with these words. The results of all other calls are dropped: the conversation has
    /// moved on.
    pub(crate) fn going_on(&self, calls: Vec<ToolRequest>, asked: &str) -> Vec<ToolRequest> {
        self.late.retain(&calls);
        calls.into_iter().filter(|call| self.late.is_for(&call.id, asked)).collect()
    }

    /// Records that the person agreed to these calls with these words.
    pub(crate) fn agreed_with(&self, calls: &[ToolRequest], said: &str) {
        self.late.note_agreed(calls, said);
    }

    /// Returns the describer of the pictures of a source, if pictures are described.
    pub(super) fn describer_of(&self, source: &str) -> Option<SourceDescriber> {
        let describer = self.describer.clone()?;
        let account = self.account().clone();
        let pace = self.pictures.clone();
        Some(SourceDescriber { describer, pace, account, source: source.into() })
    }

    /// Sets the account for the described pictures of calls that begin from now on.
    pub(crate) fn account_to(&self, account: Option<UsageAccount>) {
        *self.account() = account;
    }

    fn account(&self) -> MutexGuard<'_, Option<UsageAccount>> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ToolSettings {
        &self.settings
    }

    /// Returns the source of an offered tool; `None` if the last offer did not have it, or had
    /// another connection under the name of the tool.
    pub(super) fn slot_of(&self, offered: &Offered) -> Option<SourceSlot> {
        let Offered { source, connection, tool, .. } = offered;
        let is_source = |slot: &&SourceSlot| {
            slot.source.name() == source && slot.source.connection_of(&tool.name) == *connection
        };
        self.known().slots.iter().find(is_source).cloned()
    }

    fn known(&self) -> MutexGuard<'_, KnownSources> {
        self.known.lock().expect("nothing panics while it holds the tools")
    }

    pub(super) fn held(&self) -> MutexGuard<'_, Option<HeldCall>> {
        self.held.lock().expect("nothing panics while it holds the call")
    }

    /// Returns the tools of a source that may be offered.
    fn offerable(&self, source: &dyn ToolSource) -> SourceTools {
        let list = self.permitted(source);
        let connections = list.iter().map(|tool| source.connection_of(&tool.name)).collect();
        SourceTools { list, connections }
    }

    /// Returns the tools of a source, without those that are never offered.
    fn permitted(&self, source: &dyn ToolSource) -> Arc<[Tool]> {
        let tools = source.tools();
        let policies = self.settings.policies.get();
        if !policies.forbid_some() {
            return tools;
        }
        let forbidden = |tool: &&Tool| policies.forbids(&source.provenance(&tool.name));
        if !tools.iter().any(|tool| forbidden(&tool)) {
            return tools;
        }
        tools.iter().filter(|tool| !forbidden(tool)).cloned().collect()
    }

    /// Returns the current tools. A tool has the same name in each offer.
    pub fn offer(&self) -> Arc<Offer> {
        let mut sources = self.own.clone();
        // The sources are collected for each round: some are added or removed while the device is
        // connected. Decision 0026.
        sources.extend((self.others)());
        let mut known = self.known();
        let slots = slots_of(sources, &known.slots);
        let lists: Vec<SourceTools> = slots.iter().map(|p| self.offerable(&*p.source)).collect();
        let of_same =
            |(old, new): (&SourceSlot, &SourceSlot)| old.source.name() == new.source.name();
        let same = known.slots.len() == slots.len()
            && known.slots.iter().zip(&slots).all(of_same)
            && known.built.lists.iter().zip(&lists).all(|(old, new)| old.is_same(new));
        known.slots = slots;
        if !same {
            known.built = self.built(&known, lists);
        }
        Arc::clone(&known.built.offer)
    }

    /// Returns the offer for these lists of the sources. Tools already in `known` have the same
    /// names.
    fn built(&self, known: &KnownSources, lists: Vec<SourceTools>) -> Arc<BuiltOffer> {
        let shared = |of: SourceTools| SourceTools { list: self.interner.list(of.list), ..of };
        let lists: Vec<SourceTools> = lists.into_iter().map(shared).collect();
        let named = |(slot, of): (&SourceSlot, &SourceTools)| {
            (slot.source.name().to_owned(), of.list.as_ptr() as usize)
        };
        let key = OfferKey {
            before: known.built.number,
            max_tools: self.settings.max_tools,
            own: self.own.len(),
            lists: known.slots.iter().zip(&lists).map(named).collect(),
            connections: lists.iter().map(|of| of.connections.clone()).collect(),
        };
        self.interner.built(key, |number| {
            let mut names = known.built.names.clone();
            let offer = Arc::new(self.build_offer(&mut names, &known.slots, &lists));
            BuiltOffer { number, names, lists, offer }
        })
    }

    fn build_offer(&self, names: &mut Names, slots: &[SourceSlot], lists: &[SourceTools]) -> Offer {
        let mut offer = Offer::default();
        let mut tools = Vec::new();
        let lengths: Vec<usize> = lists.iter().map(|of| of.list.len()).collect();
        let shares = allot(&lengths, self.settings.max_tools);
        let dealt: Vec<Vec<usize>> =
            lists.iter().zip(shares).map(|(of, share)| of.within(share)).collect();
        self.warn_of_left_out(slots, lists, &dealt);
        let mut devices = 0;
        for (number, (slot, of)) in slots.iter().zip(lists).enumerate() {
            let source = slot.source.name();
            let places = &dealt[number];
            let list: Vec<&Tool> = places.iter().map(|place| &of.list[*place]).collect();
            let given: Vec<String> = list.iter().map(|t| names.assign(source, &t.name)).collect();
            let renamed: Vec<(&str, &str)> = list
                .iter()
                .zip(&given)
                .map(|(tool, name)| (tool.name.as_str(), name.as_str()))
                .filter(|(old, new)| old != new)
                .collect();
            for (place, name) in places.iter().zip(&given) {
                // Of several tools with one name, the first is offered, with its own definition.
                let Entry::Vacant(vacant) = offer.by_name.entry(name.clone()) else { continue };
                let tool = &of.list[*place];
                let description = rename(&tool.description, &renamed);
                let parameters = tool.parameters.clone();
                let source = source.to_owned();
                let connection = of.connections[*place];
                let schema = OnceLock::new();
                vacant.insert(Offered { source, connection, tool: tool.clone(), schema });
                tools.push(OfferedTool { name: name.clone(), description, parameters });
            }
            if number < self.own.len() {
                devices = tools.len();
            }
        }
        // Tools of all devices come first: model APIs cache the common start of prompts.
        tools.rotate_left(devices);
        names.prune(|(source, tool)| {
            offer.by_name.values().any(|o| o.tool.name == *tool && o.source == *source)
        });
        offer.tools = tools.into();
        offer
    }

    /// Warns of sources of which only the tools at these places are offered, by their names; of a
    /// group of tool clients, by those of the clients.
    fn warn_of_left_out(&self, slots: &[SourceSlot], lists: &[SourceTools], dealt: &[Vec<usize>]) {
        let mut sources = BTreeSet::new();
        for (slot, (of, places)) in slots.iter().zip(lists.iter().zip(dealt)) {
            let mut peers = HashSet::new();
            let left_out = (0..of.list.len()).filter(|place| places.binary_search(place).is_err());
            for place in left_out.filter(|place| peers.insert(of.connections[*place])) {
                sources.insert(slot.source.provenance(&of.list[place].name).source);
            }
        }
        if sources.is_empty() || self.settings.max_tools == 0 {
            return;
        }
        let names: Vec<&str> = sources.iter().map(String::as_str).collect();
        tracing::warn!(
            sources = names.join(", "),
            offered = self.settings.max_tools,
            "offering only a part of the tools of these sources: raise `tools.max_tools`"
        );
    }
}

/// Pairs each source with its existing semaphore. Only the first source with a name is used.
fn slots_of(sources: Vec<Arc<dyn ToolSource>>, before: &[SourceSlot]) -> Vec<SourceSlot> {
    let mut slots: Vec<SourceSlot> = Vec::with_capacity(sources.len());
    for source in sources {
        if slots.iter().any(|p| p.source.name() == source.name()) {
            continue;
        }
        let old = before.iter().find(|p| p.source.name() == source.name());
        let semaphore = old.map_or_else(
            || Arc::new(Semaphore::new(source.at_once().max(1))),
            |p| Arc::clone(&p.semaphore),
        );
        slots.push(SourceSlot { source, semaphore });
    }
    slots
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use futures_util::future::BoxFuture;
    use hearken_base::language::Language;
    use hearken_ports::{ChatMessage, Role, ToolCall, ToolError, ToolOutput};
    use serde_json::json;
    use tokio::time::Instant;

    use super::super::{ToolPolicies, ToolPolicy};
    use super::*;

    struct Fixed(&'static str, Mutex<Arc<[Tool]>>);

    impl ToolSource for Fixed {
        fn name(&self) -> &str {
            self.0
        }

        fn tools(&self) -> Arc<[Tool]> {
            self.1.lock().unwrap().clone()
        }

        fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
            Box::pin(async { Err(ToolError::Unknown(call.name)) })
        }
    }

    fn source(name: &'static str, tools: &[&str]) -> Arc<Fixed> {
        Arc::new(Fixed(name, Mutex::new(list(tools))))
    }

    #[test]
    fn tools_common_to_all_devices_come_first_under_the_remaining_names() {
        let device = source("device", &["a", "b"]);
        let notes = source("notes", &["b", "c"]);
        let others: SourceProvider = Arc::new(move || vec![notes.clone()]);
        let toolbox = Toolbox::new(vec![device], others, ToolSettings::default());
        assert_eq!(names(&toolbox), ["notes_b", "c", "a", "b"]);
    }

    fn list(tools: &[&str]) -> Arc<[Tool]> {
        let tool = |name: &&str| Tool {
            name: (*name).into(),
            description: format!("Does {name}, unlike self.b."),
            parameters: json!({"type": "object", "properties": {"self.b": {}}}),
            finishes: false,
            destructive: false,
        };
        tools.iter().map(tool).collect()
    }

    fn fixed(sources: Vec<Arc<dyn ToolSource>>, settings: ToolSettings) -> Toolbox {
        Toolbox::new(sources, Arc::new(Vec::new), settings)
    }

    fn names(toolbox: &Toolbox) -> Vec<String> {
        toolbox.offer().tools().iter().map(|t| t.name.clone()).collect()
    }

    #[test]
    fn an_untrusted_result_counts_even_if_only_the_answer_remains() {
        let toolbox = fixed(vec![source("notes", &["a"])], ToolSettings::default());
        let mut asked = ChatMessage::new(Role::User, "hi");
        assert!(!toolbox.has_read_untrusted(std::slice::from_ref(&asked)));
        asked.note_read(["a".to_owned()]);
        assert!(toolbox.has_read_untrusted(std::slice::from_ref(&asked)));
        let toolbox = toolbox.with_instructions_from("world");
        assert!(toolbox.has_read_untrusted(&[]));
    }

    #[test]
    fn tools_of_all_sources_are_offered_under_valid_names() {
        let device = source("device", &["self.a", "self.b"]);
        let notes = source("notes", &["self.b"]);
        let toolbox = fixed(vec![device.clone(), notes], ToolSettings::default());
        assert_eq!(names(&toolbox), ["self_a", "self_b", "notes_self_b"]);
        let offer = toolbox.offer();
        assert_eq!(offer.tools()[0].description, "Does self_a, unlike self_b.");
        assert_eq!(offer.tools()[2].description, "Does notes_self_b, unlike notes_self_b.");
        assert_eq!(
            offer.tools()[2].parameters,
            json!({"type": "object", "properties": {"self.b": {}}})
        );
        let found = offer.find("notes_self_b").unwrap();
        assert_eq!((found.source.as_str(), found.tool.name.as_str()), ("notes", "self.b"));
        assert!(Arc::ptr_eq(&offer, &toolbox.offer()), "nothing changed");
        *device.1.lock().unwrap() = list(&[]);
        assert_eq!(names(&toolbox), ["notes_self_b"], "the name of a tool is stable");
        *device.1.lock().unwrap() = list(&["self.b", "self.a", "self.a"]);
        assert_eq!(names(&toolbox), ["self_b", "self_a", "notes_self_b"]);
    }

    #[test]
    fn an_unknown_name_resolves_to_its_only_match() {
        let device = source("device", &["self.audio.set_volume", "天气", "Get", "get"]);
        let other = source("notes", &["self_audio_set volume", "天气"]);
        let offer = fixed(vec![device, other], ToolSettings::default()).offer();
        for (name, meant) in [
            ("self_audio_set_volume", Some("self_audio_set_volume")),
            ("self.audio.set_volume", Some("self_audio_set_volume")),
            (" Self.Audio.set_volume", Some("self_audio_set_volume")),
            ("self_audio_set volume", Some("self_audio_set_volume")),
            ("notes.self_audio_set_volume", Some("notes_self_audio_set_volume")),
            ("天气", Some("tool_dd4acd3f")),
            ("Get", Some("Get")),
            ("GET", None),
            ("weather", None),
            ("", None),
        ] {
            assert_eq!(offer.resolve_name(name), meant, "{name}");
        }
    }

    #[test]
    fn conversations_with_the_same_tools_share_their_offers() {
        let interner = ToolsetInterner::default();
        let toolbox = |tools: &[&str]| {
            let device = source("device", tools);
            let own: Vec<Arc<dyn ToolSource>> = vec![device.clone()];
            let toolbox = Toolbox::new(own, Arc::new(Vec::new), ToolSettings::default());
            (toolbox.interner(interner.clone()), device)
        };
        let [(one, device), (two, _), (other, _)] = [&["a"], &["a"], &["b"]].map(|t| toolbox(t));
        let first = one.offer();
        assert!(Arc::ptr_eq(&first, &two.offer()));
        assert_eq!(names(&other), ["b"]);
        // One toolbox changes; the other is not affected.
        *device.1.lock().unwrap() = list(&["b"]);
        assert_eq!(names(&one), ["b"]);
        assert!(Arc::ptr_eq(&first, &two.offer()));
    }

    #[test]
    fn the_number_of_offered_tools_is_limited() {
        let settings = ToolSettings { max_tools: 3, ..ToolSettings::default() };
        let sources: Vec<Arc<dyn ToolSource>> =
            vec![source("a", &["1", "2"]), source("b", &["3", "4"]), source("c", &["5"])];
        assert_eq!(names(&fixed(sources, settings)), ["1", "3", "5"], "a source has its share");
    }

    /// Source of tools of several peers: the tool `1.a` is called over the connection 1.
    struct Peers(Arc<[Tool]>);

    impl ToolSource for Peers {
        fn name(&self) -> &str {
            "clients"
        }

        fn tools(&self) -> Arc<[Tool]> {
            Arc::clone(&self.0)
        }

        fn connection_of(&self, tool: &str) -> u64 {
            tool.split('.').next().and_then(|number| number.parse().ok()).unwrap_or_default()
        }

        fn call(&self, call: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
            Box::pin(async { Err(ToolError::Unknown(call.name)) })
        }
    }

    #[test]
    fn no_peer_takes_the_room_of_other_sources_and_peers() {
        let flood: Vec<String> = (0..200).map(|n| format!("1.{n}")).collect();
        let of_peers = [
            flood.iter().map(String::as_str).collect::<Vec<_>>(),
            vec!["2.open", "2.close", "2.stop", "3.ring"],
        ];
        let peers = Peers(list(&of_peers.concat()));
        let home = source("home", &["lamp", "fan"]);
        let settings = ToolSettings { max_tools: 9, ..ToolSettings::default() };
        let toolbox = fixed(vec![Arc::new(peers), home], settings);
        let dealt = ["1_0", "1_1", "1_2", "2_open", "2_close", "2_stop", "3_ring", "lamp", "fan"];
        assert_eq!(names(&toolbox), dealt);
        let offer = toolbox.offer();
        assert_eq!((offer.connection("2_stop"), offer.connection("3_ring")), (2, 3));
    }

    #[test]
    fn sources_may_change_between_offers() {
        let others: Arc<Mutex<Vec<Arc<dyn ToolSource>>>> = Arc::default();
        let asked = Arc::clone(&others);
        let now: SourceProvider = Arc::new(move || asked.lock().unwrap().clone());
        let toolbox = Toolbox::new(vec![source("device", &["a"])], now, ToolSettings::default());
        assert_eq!(names(&toolbox), ["a"]);
        let first = source("notes", &["b"]);
        *others.lock().unwrap() = vec![first.clone(), source("notes", &["not this"])];
        assert_eq!(names(&toolbox), ["b", "a"]);
        let offer = toolbox.offer();
        let slot = || toolbox.slot_of(offer.find("b").unwrap());
        let semaphore = slot().unwrap().semaphore;
        // Removed and added again with the same tools: calls reach the new source, not the old one.
        let second: Arc<dyn ToolSource> = source("notes", &["b"]);
        *others.lock().unwrap() = vec![Arc::clone(&second)];
        assert!(Arc::ptr_eq(&offer, &toolbox.offer()), "nothing changed for the model");
        let found = slot().unwrap();
        assert!(Arc::ptr_eq(&found.source, &second) && Arc::ptr_eq(&found.semaphore, &semaphore));
        others.lock().unwrap().clear();
        assert_eq!(names(&toolbox), ["a"]);
        assert!(slot().is_none());
        assert_eq!(offer.find("b").unwrap().source, "notes", "an existing offer is unchanged");
    }

    #[test]
    fn no_later_tool_replaces_one_of_the_same_name() {
        let tool = |description: &str| Tool {
            name: "b".into(),
            description: description.into(),
            parameters: json!({"title": description}),
            finishes: false,
            destructive: description == "deletes",
        };
        for both in [["deletes", "reads"], ["reads", "deletes"]] {
            let list: Arc<[Tool]> = both.map(tool).into();
            let source = Fixed("notes", Mutex::new(Arc::clone(&list)));
            let offer = fixed(vec![Arc::new(source)], ToolSettings::default()).offer();
            let [shown] = &offer.tools()[..] else { panic!("one tool has this name") };
            assert_eq!(shown.description, both[0]);
            assert_eq!(shown.parameters, list[0].parameters);
            assert_eq!(offer.find("b").unwrap().tool, list[0]);
        }
    }

    /// Source of one tool over the connection with this number, which it records at each call.
    struct Peer {
        connection: u64,
        called: Arc<Mutex<Vec<u64>>>,
    }

    impl ToolSource for Peer {
        fn name(&self) -> &str {
            "clients"
        }

        fn tools(&self) -> Arc<[Tool]> {
            list(&["open"])
        }

        fn connection_of(&self, _tool: &str) -> u64 {
            self.connection
        }

        fn call(&self, _: ToolCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
            self.called.lock().unwrap().push(self.connection);
            Box::pin(async { Ok(ToolOutput::text("opened")) })
        }
    }

    #[tokio::test]
    async fn a_call_reaches_only_the_connection_that_was_offered() {
        let open = || ToolRequest { id: "1".into(), name: "open".into(), ..ToolRequest::default() };
        for (offered, now) in [(0, 0), (1, 1), (1, 2), (2, 1), (0, 1), (1, 0)] {
            for policy in [ToolPolicy::Allow, ToolPolicy::Ask] {
                let patterns = [("*".to_owned(), policy)].into();
                let policies = ToolPolicies { patterns, ..ToolPolicies::default() };
                let settings =
                    ToolSettings { policies: policies.into(), ..ToolSettings::default() };
                let called = Arc::<Mutex<Vec<u64>>>::default();
                let number = Arc::new(AtomicU64::new(offered));
                let calls_of = Arc::clone(&called);
                let current = Arc::clone(&number);
                let others: SourceProvider = Arc::new(move || {
                    let connection = current.load(Ordering::Relaxed);
                    vec![Arc::new(Peer { connection, called: Arc::clone(&calls_of) })]
                });
                let toolbox = Toolbox::new(Vec::new(), others, settings);
                let offer = toolbox.offer();
                let screen = || toolbox.screen(&offer, &[open()], &[], "open", Language::English);
                let held = screen().held;
                number.store(now, Ordering::Relaxed);
                let later = toolbox.offer();
                assert_eq!(Arc::ptr_eq(&offer, &later), offered == now);
                assert_eq!(offer.tools(), later.tools(), "the model sees no difference");
                if let Some((held, _)) = held {
                    assert_eq!(held.permitted(true, &later).is_ok(), offered == now);
                }
                let mut screened = screen();
                assert_eq!(screened.held.is_some(), policy == ToolPolicy::Ask && offered == now);
                let until = Instant::now() + Duration::from_secs(9);
                // Also if another offer comes between the decision and the call.
                let mut calls = toolbox.begin(&offer, &[open()], "open", until);
                while calls.next().await.is_some() {}
                let gone = "error: the tool cannot be reached: it was taken away meanwhile";
                let said = if offered == now { "opened" } else { gone };
                assert_eq!(calls.ended(0).unwrap().text, said);
                if offered != now {
                    assert_eq!(screened.results(Vec::new()), [gone]);
                }
                assert_eq!(*called.lock().unwrap(), [now; 1][..usize::from(offered == now)]);
            }
        }
    }
}
