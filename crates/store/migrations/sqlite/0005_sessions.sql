-- Sessions of text clients: what each remembers, as the session itself writes it.
CREATE TABLE sessions (
    session_id TEXT PRIMARY KEY,
    state TEXT NOT NULL,
    last_used_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_last_used ON sessions (last_used_ms);
