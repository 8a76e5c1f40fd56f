-- Dialogues of applications. Their messages are numbered from 1 without gaps, so message_count is
-- also the number of the last; fence is that of the last lock under which something was written.
-- Players are a JSON array of names. Times are milliseconds since 1970, UTC.
CREATE TABLE chat_sessions (
    session_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    creator_id TEXT NOT NULL,
    dm_user_id TEXT NOT NULL,
    status TEXT NOT NULL,
    max_players INTEGER NOT NULL,
    players TEXT NOT NULL,
    message_count INTEGER NOT NULL,
    state_version INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    last_access_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_sessions_by_use ON chat_sessions (last_access_ms, session_id);
CREATE INDEX chat_sessions_by_end ON chat_sessions (status, updated_ms);

-- Everybody of a session, to find the sessions of a person.
CREATE TABLE chat_people (
    session_id TEXT NOT NULL REFERENCES chat_sessions (session_id) ON DELETE CASCADE,
    user_id TEXT NOT NULL,
    PRIMARY KEY (session_id, user_id)
) STRICT;
CREATE INDEX chat_people_by_user ON chat_people (user_id);

-- Messages as JSON.
CREATE TABLE chat_messages (
    session_id TEXT NOT NULL REFERENCES chat_sessions (session_id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (session_id, number)
) STRICT;

-- What was answered to requests that their clients named.
CREATE TABLE chat_turns (
    session_id TEXT NOT NULL REFERENCES chat_sessions (session_id) ON DELETE CASCADE,
    request_key TEXT NOT NULL,
    answer TEXT NOT NULL,
    PRIMARY KEY (session_id, request_key)
) STRICT;

-- Dialogues as they were once: a copy of the messages.
CREATE TABLE chat_snapshots (
    snapshot_id TEXT NOT NULL PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES chat_sessions (session_id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    message_count INTEGER NOT NULL,
    state_version INTEGER,
    created_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX chat_snapshots_by_session ON chat_snapshots (session_id, created_ms);
CREATE TABLE chat_snapshot_messages (
    snapshot_id TEXT NOT NULL REFERENCES chat_snapshots (snapshot_id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    message TEXT NOT NULL,
    PRIMARY KEY (snapshot_id, number)
) STRICT;

-- Sessions of museum clients: what they told of themselves, what they can do, and what was said,
-- all as JSON.
CREATE TABLE museum_sessions (
    session_id TEXT NOT NULL PRIMARY KEY,
    metadata TEXT NOT NULL,
    functions TEXT NOT NULL,
    history TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    last_used_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    requests INTEGER NOT NULL
) STRICT;
CREATE INDEX museum_sessions_by_end ON museum_sessions (expires_ms);

-- Settings that were changed at run time, as JSON, and who did what.
CREATE TABLE settings (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    details TEXT NOT NULL
) STRICT;
