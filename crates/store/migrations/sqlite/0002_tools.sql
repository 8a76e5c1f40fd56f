-- Tool servers that were added over the API, as JSON; without settings the row only switches one
-- of the configuration on or off.
CREATE TABLE tool_servers (
    name TEXT NOT NULL PRIMARY KEY,
    settings TEXT,
    enabled INTEGER NOT NULL
) STRICT;

-- The sources of tools that a device's conversations go without: a JSON array of names.
ALTER TABLE devices ADD COLUMN tools_off TEXT NOT NULL DEFAULT '[]';
