-- The hash of each tool's definition as it was seen first, or accepted last. The agent is empty for
-- the tools of tool servers.
CREATE TABLE tool_pins (
    agent TEXT NOT NULL,
    source TEXT NOT NULL,
    tool TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (agent, source, tool)
) STRICT;
