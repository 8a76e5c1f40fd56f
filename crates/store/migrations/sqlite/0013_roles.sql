-- Roles: how the assistant answers, sounds and behaves, where that differs from the configuration.
CREATE TABLE roles (
    role_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    settings TEXT NOT NULL,
    updated_ms INTEGER NOT NULL
) STRICT;

-- What each was, with what it is now.
CREATE TABLE role_versions (
    role_id TEXT NOT NULL REFERENCES roles (role_id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    updated_ms INTEGER NOT NULL,
    PRIMARY KEY (role_id, version)
) STRICT;

-- Who has which; empty for none.
ALTER TABLE devices ADD COLUMN role_id TEXT NOT NULL DEFAULT '';
ALTER TABLE persons ADD COLUMN role_id TEXT NOT NULL DEFAULT '';
