-- The agent whose tool clients a device's conversations have.
ALTER TABLE devices ADD COLUMN agent TEXT NOT NULL DEFAULT 'default';
