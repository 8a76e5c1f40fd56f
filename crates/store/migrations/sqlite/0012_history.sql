-- What was said in turns, where that is kept: newest last. `searched` is what was heard and said in
-- lower case; `timing` and `sounds` (side, beginning
-- and length of each) are JSON.
CREATE TABLE history (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    turn_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    client TEXT NOT NULL,
    began_ms INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    heard TEXT NOT NULL,
    said TEXT NOT NULL,
    searched TEXT NOT NULL,
    timing TEXT NOT NULL,
    sounds TEXT NOT NULL,
    sound_bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX history_by_client ON history (client, number);
CREATE INDEX history_by_time ON history (began_ms);

-- Their sound, of side 'heard' or 'said': packets of Opus, each after its time in milliseconds since
-- the turn began (32 bits, signed) and its length in bytes (16 bits), big-endian.
CREATE TABLE history_sounds (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    turn_id TEXT NOT NULL REFERENCES history (turn_id) ON DELETE CASCADE,
    side TEXT NOT NULL,
    packets BLOB NOT NULL
) STRICT;
CREATE INDEX history_sounds_by_turn ON history_sounds (turn_id);
