-- The hash of each tool's definition as it was seen first, or accepted last. The agent is empty for
-- the tools of tool servers.
CREATE TABLE tool_pins (
    agent TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (agent, source, tool)
);
