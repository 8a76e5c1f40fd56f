-- People whose voices are known.
CREATE TABLE persons (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person_id TEXT COLLATE "C" NOT NULL UNIQUE,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    created_ms BIGINT NOT NULL
);

-- What is typical of their voices: 32-bit floating-point numbers, little-endian.
CREATE TABLE person_voices (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (person_id) ON DELETE CASCADE,
    voice BYTEA NOT NULL
);
CREATE INDEX person_voices_by_person ON person_voices (person_id, number);

-- What is remembered of them: of kind 'fact' or 'exchange', as JSON.
CREATE TABLE person_memories (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person_id TEXT COLLATE "C" NOT NULL REFERENCES persons (person_id) ON DELETE CASCADE,
    kind TEXT COLLATE "C" NOT NULL,
    memory TEXT COLLATE "C" NOT NULL
);
CREATE INDEX person_memories_by_person ON person_memories (person_id, kind, number);
