-- Tokens of tool clients that were made over the API, or revoked.
CREATE TABLE tool_tokens (
    serial TEXT COLLATE "C" PRIMARY KEY,
    agent TEXT COLLATE "C" NOT NULL,
    name TEXT NOT NULL,
    made_ms BIGINT,
    made_by TEXT NOT NULL,
    revoked_ms BIGINT
);
