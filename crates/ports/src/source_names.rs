//! Names of the sources of tools that this server has by itself. Configured servers and connected
//! tool clients have other names: tools are identified by the name of their source. Not for the
//! names of tools.

/// Defines the names and the list of all of them.
macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// All names.
        pub const ALL: &[&str] = &[$($name),*];
    };
}

names! {
    /// Tools of a device, which it reports over MCP.
    DEVICE = "device";
    /// Things of a device with firmware without MCP.
    THINGS = "things";
    /// Tool clients of a device's agent, as one source.
    ENDPOINT = "endpoint";
    /// Built-in tools.
    BUILTIN = "builtin";
    /// Tools of the state server, for chat sessions.
    STATE = "state";
    /// Tools that a text client registered for its session.
    CLIENT = "client";
    /// Tools about the people who speak to a device.
    SPEAKERS = "speakers";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_differ() {
        for (place, name) in ALL.iter().enumerate() {
            assert!(!ALL[place + 1..].contains(name), "{name}");
        }
    }
}
