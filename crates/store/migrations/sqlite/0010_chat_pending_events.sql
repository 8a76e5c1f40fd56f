-- Events that were stored with the change of a session that they tell of, until they are published.
CREATE TABLE chat_pending_events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL REFERENCES chat_sessions (session_id) ON DELETE CASCADE,
    event TEXT NOT NULL
) STRICT;
CREATE INDEX chat_pending_events_by_session ON chat_pending_events (session_id, number);
