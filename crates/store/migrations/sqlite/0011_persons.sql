-- People whose voices are known.
CREATE TABLE persons (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL
) STRICT;

-- What is typical of their voices: 32-bit floating-point numbers, little-endian.
CREATE TABLE person_voices (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id TEXT NOT NULL REFERENCES persons (person_id) ON DELETE CASCADE,
    voice BLOB NOT NULL
) STRICT;
CREATE INDEX person_voices_by_person ON person_voices (person_id, number);

-- What is remembered of them: of kind 'fact' or 'exchange', as JSON.
CREATE TABLE person_memories (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    person_id TEXT NOT NULL REFERENCES persons (person_id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    memory TEXT NOT NULL
) STRICT;
CREATE INDEX person_memories_by_person ON person_memories (person_id, kind, number);
