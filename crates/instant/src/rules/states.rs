//! Rule for questions about a state that an offered tool reads. Not for what is found in its result, see `crate::asked`.

use super::Setting;
use crate::act::Act;
use crate::act::{Question, What};
use crate::asked::{
    BATTERY_NAMES, HUMIDITY_NAMES, MUSIC_NAMES, NETWORK_NAMES, TEMPERATURE_NAMES, THEME_NAMES,
    TIMER_NAMES,
};
use crate::bindings::{BRIGHTNESS_NAMES, LIGHT_NAMES, VOLUME_NAMES};
use crate::names::NAMES;
use crate::template::Slots;
use crate::value::Value;

/// Returns what is asked for.
fn what(slots: &Slots) -> Option<What> {
    Some(match slots.text("of") {
        "volume" => What::Volume,
        "screen" => What::Screen,
        "dim" => What::Dim,
        "theme" => What::Theme,
        "battery" => What::Battery,
        "charging" => What::Charging,
        "network" => What::Network,
        "temperature" => What::Temperature,
        "target" => What::Target,
        "humidity" => What::Humidity,
        "timer" => What::Timers,
        "playing" => What::Playing,
        "music" => What::Music,
        "light" => What::Device(NAMES.device("light")?),
        "device" => match slots.get("device") {
            Some(Value::Device(kind)) => What::Device(*kind),
            _ => return None,
        },
        _ => return None,
    })
}

pub(super) fn state(slots: &Slots, setting: &Setting<'_>) -> Option<Vec<Act>> {
    let what = what(slots)?;
    let mut rooms = Setting::rooms(slots).into_iter();
    let room = rooms.next();
    if rooms.next().is_some() {
        return None;
    }
    let device = match what {
        What::Device(kind) => NAMES.devices.get(kind),
        _ => None,
    };
    let of_device: Vec<&str> = device.into_iter().flat_map(|device| device.group.all()).collect();
    let (names, is_general): (&[&str], bool) = match what {
        What::Volume => (&VOLUME_NAMES, true),
        What::Screen => (&BRIGHTNESS_NAMES, true),
        What::Dim => (&LIGHT_NAMES, false),
        What::Theme => (&THEME_NAMES, true),
        What::Battery | What::Charging => (&BATTERY_NAMES, true),
        What::Network => (&NETWORK_NAMES, true),
        What::Temperature | What::Target => (&TEMPERATURE_NAMES, false),
        What::Humidity => (&HUMIDITY_NAMES, false),
        What::Timers => (&TIMER_NAMES, false),
        What::Playing | What::Music => (&MUSIC_NAMES, false),
        What::Device(_) => (&of_device, false),
    };
    let read = setting.context.bindings.read(names, room.as_ref(), is_general)?;
    let question = Question {
        what,
        room,
        is_of_room: read.is_of_room,
        expected: match slots.text("is") {
            "" | "which" => None,
            is => Some(is == "on"),
        },
    };
    Some(vec![Act::Query { read: read.call, question }])
}
