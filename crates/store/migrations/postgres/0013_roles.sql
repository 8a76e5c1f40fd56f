-- Roles: how the assistant answers, sounds and behaves, where that differs from the configuration.
CREATE TABLE roles (
    role_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL UNIQUE,
    version BIGINT NOT NULL,
    settings TEXT COLLATE "C" NOT NULL,
    updated_ms BIGINT NOT NULL
);

-- What each was, with what it is now.
CREATE TABLE role_versions (
    role_id TEXT COLLATE "C" NOT NULL REFERENCES roles (role_id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    settings TEXT COLLATE "C" NOT NULL,
    updated_ms BIGINT NOT NULL,
    PRIMARY KEY (role_id, version)
);

-- Who has which; empty for none.
ALTER TABLE devices ADD COLUMN role_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE persons ADD COLUMN role_id TEXT COLLATE "C" NOT NULL DEFAULT '';
