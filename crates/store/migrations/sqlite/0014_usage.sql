-- What was used on a day, by kind of client, device and role.
CREATE TABLE daily_usage (
    day TEXT NOT NULL,
    kind TEXT NOT NULL,
    client TEXT NOT NULL,
    role_id TEXT NOT NULL,
    turns INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    heard_ms INTEGER NOT NULL,
    said_ms INTEGER NOT NULL,
    said_chars INTEGER NOT NULL,
    cost_nano INTEGER NOT NULL,
    PRIMARY KEY (day, kind, client, role_id)
) STRICT;
CREATE INDEX daily_usage_client ON daily_usage (client);
