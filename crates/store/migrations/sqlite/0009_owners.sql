-- The address under which a device or a waiting code is counted; empty for those of before.
ALTER TABLE devices ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE INDEX devices_by_address ON devices (address);
ALTER TABLE activations ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE INDEX activations_by_address ON activations (address, expires_ms);

-- Devices that were deleted, or bound to another client: their tokens are refused if they were made
-- until then.
CREATE TABLE revocations (
    device_id TEXT NOT NULL PRIMARY KEY,
    until_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX revocations_by_time ON revocations (until_ms);

-- Who created a session: an address, or a credential; empty for those of before, which nobody owns.
-- stored_bytes is what it and its turns have stored, in bytes.
ALTER TABLE chat_sessions ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE chat_sessions ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE chat_sessions SET stored_bytes =
    (SELECT COALESCE(SUM(LENGTH(CAST(m.message AS BLOB))), 0) FROM chat_messages m
    WHERE m.session_id = chat_sessions.session_id);
CREATE INDEX chat_sessions_by_owner ON chat_sessions (owner);
ALTER TABLE chat_snapshots ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE chat_snapshots SET stored_bytes =
    (SELECT COALESCE(SUM(LENGTH(CAST(m.message AS BLOB))), 0) FROM chat_snapshot_messages m
    WHERE m.snapshot_id = chat_snapshots.snapshot_id);

-- The address that registered a museum client, under which its sessions are counted.
ALTER TABLE museum_sessions ADD COLUMN address TEXT NOT NULL DEFAULT '';
CREATE INDEX museum_sessions_by_address ON museum_sessions (address);
