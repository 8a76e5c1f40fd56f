-- What was used on a day, by kind of client, device and role.
CREATE TABLE daily_usage (
    day TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    client TEXT COLLATE "C" NOT NULL,
    role_id TEXT COLLATE "C" NOT NULL,
    turns BIGINT NOT NULL,
    refused BIGINT NOT NULL,
    prompt_tokens BIGINT NOT NULL,
    completion_tokens BIGINT NOT NULL,
    heard_ms BIGINT NOT NULL,
    said_ms BIGINT NOT NULL,
    said_chars BIGINT NOT NULL,
    cost_nano BIGINT NOT NULL,
    PRIMARY KEY (day, kind, client, role_id)
);
CREATE INDEX daily_usage_client ON daily_usage (client);
