-- Devices from outside the private networks have to be bound. Those that are stored already keep working: 2 means that
-- the device counts as bound for them, and is listed for review.
UPDATE devices SET bound = 2 WHERE bound = 0;

-- What was deleted in the last hour: a turn that began before it, and ends later at any instance, is not stored. `kind` is
-- 'history' (of a client, or of all if `client` is empty) or 'device' (whose name leaves the sums of what was used).
CREATE TABLE deletions (
    kind TEXT COLLATE "C" NOT NULL,
    client TEXT COLLATE "C" NOT NULL,
    until_ms BIGINT NOT NULL,
    PRIMARY KEY (kind, client)
);
