//! The tools of one conversation, gathered from all its sources and named for the model. Not for
//! calling them, which is [`super::calls`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::ToolSettings;
use super::names::{Names, rename};
use crate::ports::{OfferedTool, Tool, ToolSource};

/// Calls that a source takes at once, unless it takes but one.
const AT_ONCE: usize = 8;

/// All tools of one conversation. Calls that are to finish though their turn is cut live as long
/// as this does.
pub struct Toolbox {
    pub(super) settings: ToolSettings,
    sources: Vec<Place>,
    known: Mutex<Known>,
    pub(super) finishing: Mutex<JoinSet<()>>,
}

/// A source, and how many calls it takes now.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) source: Arc<dyn ToolSource>,
    pub(super) gate: Arc<Semaphore>,
}

#[derive(Default)]
struct Known {
    names: Names,
    /// What each source had when the offer was made.
    lists: Vec<Arc<[Tool]>>,
    offer: Arc<Offer>,
}

/// The tools offered in one round of a turn.
#[derive(Default)]
pub struct Offer {
    tools: Arc<[OfferedTool]>,
    by_name: HashMap<String, (usize, Tool)>,
}

impl Offer {
    /// As the model sees them.
    pub fn tools(&self) -> &Arc<[OfferedTool]> {
        &self.tools
    }

    /// The number of the source and the tool that a name stands for.
    pub(super) fn find(&self, name: &str) -> Option<&(usize, Tool)> {
        self.by_name.get(name)
    }
}

impl Toolbox {
    /// The tools of these sources.
    pub fn new(sources: Vec<Arc<dyn ToolSource>>, settings: ToolSettings) -> Self {
        let place = |source: Arc<dyn ToolSource>| {
            let places = if source.one_at_a_time() { 1 } else { AT_ONCE };
            Place { source, gate: Arc::new(Semaphore::new(places)) }
        };
        let sources = sources.into_iter().map(place).collect();
        Self { settings, sources, known: Mutex::default(), finishing: Mutex::default() }
    }

    /// How tools are offered and called.
    pub fn settings(&self) -> &ToolSettings {
        &self.settings
    }

    pub(super) fn place(&self, number: usize) -> &Place {
        &self.sources[number]
    }

    /// The tools as they are now. A tool keeps its name from offer to offer.
    pub fn offer(&self) -> Arc<Offer> {
        let lists: Vec<Arc<[Tool]>> = self.sources.iter().map(|p| p.source.tools()).collect();
        let mut known = self.known.lock().expect("nothing panics while it holds the tools");
        let same = known.lists.len() == lists.len()
            && known.lists.iter().zip(&lists).all(|(old, new)| Arc::ptr_eq(old, new) || old == new);
        if !same {
            known.offer = Arc::new(self.gather(&mut known.names, &lists));
            known.lists = lists;
        }
        Arc::clone(&known.offer)
    }

    fn gather(&self, names: &mut Names, lists: &[Arc<[Tool]>]) -> Offer {
        let mut offer = Offer::default();
        let mut tools = Vec::new();
        let all: usize = lists.iter().map(|list| list.len()).sum();
        if all > self.settings.max_tools && self.settings.max_tools > 0 {
            tracing::warn!(
                all,
                offered = self.settings.max_tools,
                "more tools than may be offered"
            );
        }
        for (number, list) in lists.iter().enumerate() {
            let source = self.sources[number].source.name();
            let list = &list[..list.len().min(self.settings.max_tools - tools.len())];
            let given: Vec<String> = list.iter().map(|t| names.give(source, &t.name)).collect();
            let renamed: Vec<(&str, &str)> = list
                .iter()
                .zip(&given)
                .map(|(tool, name)| (tool.name.as_str(), name.as_str()))
                .filter(|(old, new)| old != new)
                .collect();
            for (tool, name) in list.iter().zip(&given) {
                let description = rename(&tool.description, &renamed);
                let parameters = tool.parameters.clone();
                let entry = (number, tool.clone());
                if offer.by_name.insert(name.clone(), entry).is_none() {
                    tools.push(OfferedTool { name: name.clone(), description, parameters });
                }
            }
        }
        names.tidy(|(source, tool)| {
            offer
                .by_name
                .values()
                .any(|(number, t)| t.name == *tool && self.sources[*number].source.name() == source)
        });
        offer.tools = tools.into();
        offer
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use crate::ports::{ToolCall, ToolError, ToolOutput};

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

    fn list(tools: &[&str]) -> Arc<[Tool]> {
        let tool = |name: &&str| Tool {
            name: (*name).into(),
            description: format!("Does {name}, unlike self.b."),
            parameters: json!({"type": "object", "properties": {"self.b": {}}}),
            finishes: false,
        };
        tools.iter().map(tool).collect()
    }

    fn names(toolbox: &Toolbox) -> Vec<String> {
        toolbox.offer().tools().iter().map(|t| t.name.clone()).collect()
    }

    #[test]
    fn tools_of_all_sources_are_offered_under_legal_names() {
        let (device, notes) =
            (source("device", &["self.a", "self.b"]), source("notes", &["self.b"]));
        let toolbox = Toolbox::new(vec![device.clone(), notes], ToolSettings::default());
        assert_eq!(names(&toolbox), ["self_a", "self_b", "notes_self_b"]);
        let offer = toolbox.offer();
        assert_eq!(offer.tools()[0].description, "Does self_a, unlike self_b.");
        assert_eq!(offer.tools()[2].description, "Does notes_self_b, unlike notes_self_b.");
        assert_eq!(
            offer.tools()[2].parameters,
            json!({"type": "object", "properties": {"self.b": {}}})
        );
        let (number, tool) = offer.find("notes_self_b").unwrap();
        assert_eq!((*number, tool.name.as_str()), (1, "self.b"));
        assert!(Arc::ptr_eq(&offer, &toolbox.offer()), "nothing changed");
        *device.1.lock().unwrap() = list(&[]);
        assert_eq!(names(&toolbox), ["notes_self_b"], "a tool keeps its name");
        *device.1.lock().unwrap() = list(&["self.b", "self.a", "self.a"]);
        assert_eq!(names(&toolbox), ["self_b", "self_a", "notes_self_b"]);
    }

    #[test]
    fn no_more_tools_are_offered_than_may_be() {
        let settings = ToolSettings { max_tools: 3, ..ToolSettings::default() };
        let sources: Vec<Arc<dyn ToolSource>> =
            vec![source("a", &["1", "2"]), source("b", &["3", "4"]), source("c", &["5"])];
        assert_eq!(names(&Toolbox::new(sources, settings)), ["1", "2", "3"]);
    }
}
