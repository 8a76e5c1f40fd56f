-- Devices that asked us for their settings, the codes that they wait with to be bound, and the
-- keys that prove a device's serial number. Times are milliseconds since 1970, UTC.

CREATE TABLE devices (
    device_id TEXT NOT NULL PRIMARY KEY,
    client_id TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    board TEXT NOT NULL DEFAULT '',
    chip TEXT NOT NULL DEFAULT '',
    serial_number TEXT NOT NULL DEFAULT '',
    firmware_version TEXT NOT NULL DEFAULT '',
    first_seen_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    bound INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The strangers that were seen last stay; see the store.
CREATE INDEX devices_by_strangeness ON devices (bound, last_seen_ms);

-- A code belongs to one device and client; it is gone (NULL) once somebody entered it, while the
-- challenge stays until it expires.
CREATE TABLE activations (
    device_id TEXT NOT NULL,
    client_id TEXT NOT NULL,
    code TEXT UNIQUE,
    challenge TEXT NOT NULL,
    expires_ms INTEGER NOT NULL,
    PRIMARY KEY (device_id, client_id)
) STRICT;

CREATE INDEX activations_by_end ON activations (expires_ms);

CREATE TABLE provisioning (
    serial_number TEXT NOT NULL PRIMARY KEY,
    hmac_key BLOB NOT NULL
) STRICT;
