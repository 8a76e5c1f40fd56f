-- What was said in turns, where that is kept: newest last. `searched` is what was heard and said in
-- lower case; `timing` and `sounds` (side, beginning
-- and length of each) are JSON.
CREATE TABLE history (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    turn_id TEXT COLLATE "C" NOT NULL UNIQUE,
    kind TEXT COLLATE "C" NOT NULL,
    client TEXT COLLATE "C" NOT NULL,
    began_ms BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    heard TEXT COLLATE "C" NOT NULL,
    said TEXT COLLATE "C" NOT NULL,
    searched TEXT COLLATE "C" NOT NULL,
    timing TEXT COLLATE "C" NOT NULL,
    sounds TEXT COLLATE "C" NOT NULL,
    sound_bytes BIGINT NOT NULL
);
CREATE INDEX history_by_client ON history (client, number);
CREATE INDEX history_by_time ON history (began_ms);

-- Their sound, of side 'heard' or 'said': packets of Opus, each after its time in milliseconds since
-- the turn began (32 bits, signed) and its length in bytes (16 bits), big-endian.
CREATE TABLE history_sounds (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    turn_id TEXT COLLATE "C" NOT NULL REFERENCES history (turn_id) ON DELETE CASCADE,
    side TEXT COLLATE "C" NOT NULL,
    packets BYTEA NOT NULL
);
CREATE INDEX history_sounds_by_turn ON history_sounds (turn_id);
