-- Events that were stored with the change of a session that they tell of, until they are published.
CREATE TABLE chat_pending_events (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id TEXT COLLATE "C" NOT NULL REFERENCES chat_sessions (session_id) ON DELETE CASCADE,
    event TEXT COLLATE "C" NOT NULL
);
CREATE INDEX chat_pending_events_by_session ON chat_pending_events (session_id, number);
