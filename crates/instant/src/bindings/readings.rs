//! The call that reads a state: of a tool that needs no argument, or that needs the room alone. Not for what its result says.

use serde_json::{Map, json};

use super::{Bindings, Place, Reading, room_value, schema};
use crate::referent::Call;
use crate::value::Room;

/// Returns the names of the rooms that a tool lists.
pub(super) fn rooms(reading: &Reading) -> Vec<Vec<String>> {
    match &reading.place {
        Place::Room { rooms, .. } => rooms.iter().flat_map(|value| value.1.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Call that reads, and whether its result is of the wanted room alone.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) call: Call,
    pub(crate) is_of_room: bool,
}

impl Reading {
    fn is_about(&self, names: &[&str]) -> bool {
        schema::mentions(&self.name_words, names) || schema::mentions(&self.words, names)
    }

    /// Makes the call for a room; `None` if the tool does not know the room.
    fn of_room(&self, room: &Room) -> Option<Read> {
        let Place::Room { parameter, rooms, .. } = &self.place else { return None };
        let mut arguments = Map::new();
        arguments.insert(parameter.clone(), json!(room_value(rooms, room)?));
        Some(Read { call: Call { tool: self.tool.clone(), arguments }, is_of_room: true })
    }
}

/// Returns the one item; `None` if there is none, or more than one.
fn only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.next().is_none().then_some(first)
}

impl Bindings {
    /// Returns the call of the one tool that reads what `names` say, in a room if one is given. `is_general` allows the tool that
    /// reads the whole state of a device.
    pub(crate) fn read(
        &self,
        names: &[&str],
        room: Option<&Room>,
        is_general: bool,
    ) -> Option<Read> {
        let is_about = |reading: &&Reading| reading.is_about(names);
        let of_rooms = self.room_readings.iter().filter(is_about);
        if let Some(room) = room
            && let Some(read) = only(of_rooms.filter_map(|reading| reading.of_room(room)))
        {
            return Some(read);
        }
        let has_special = self.readings.iter().any(|reading| is_about(&reading));
        let tool = match self.reading(names) {
            Some(tool) if has_special || is_general => tool,
            _ if has_special => return None,
            _ => self.entities()?,
        };
        let call = Call { tool: tool.to_owned(), arguments: Map::new() };
        Some(Read { call, is_of_room: false })
    }
}
