-- Tokens of tool clients that were made over the API, or revoked.
CREATE TABLE tool_tokens (
    serial TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    name TEXT NOT NULL,
    made_ms INTEGER,
    made_by TEXT NOT NULL,
    revoked_ms INTEGER
) STRICT;
