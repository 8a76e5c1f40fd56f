-- What a named request asked for, as a hash, empty for those of before; the fence of the lock under
-- which it was noted; an empty answer is none, or none yet.
ALTER TABLE chat_turns ADD COLUMN request_hash TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE chat_turns ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
CREATE INDEX chat_turns_by_age ON chat_turns (session_id, fence);

-- The named requests that were known when a snapshot was made. Of snapshots of before nobody knows:
-- they have all of today, so that none is carried out twice.
CREATE TABLE chat_snapshot_turns (
    snapshot_id TEXT COLLATE "C" NOT NULL REFERENCES chat_snapshots (snapshot_id) ON DELETE CASCADE,
    request_key TEXT COLLATE "C" NOT NULL,
    answer TEXT COLLATE "C" NOT NULL,
    request_hash TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    PRIMARY KEY (snapshot_id, request_key)
);
INSERT INTO chat_snapshot_turns (snapshot_id, request_key, answer, request_hash, fence)
    SELECT s.snapshot_id, t.request_key, t.answer, t.request_hash, t.fence
    FROM chat_snapshots s JOIN chat_turns t ON t.session_id = s.session_id;
