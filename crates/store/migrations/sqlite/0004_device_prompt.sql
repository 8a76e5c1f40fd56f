-- What the model is told of how to behave with this device; empty for the deployment's own.
ALTER TABLE devices ADD COLUMN system_prompt TEXT NOT NULL DEFAULT '';
