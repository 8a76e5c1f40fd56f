-- The message of a session up to which the model refuses the messages: its number, 0 for none, and its time in
-- nanoseconds, because another message may have the number after a rollback.
ALTER TABLE chat_sessions ADD COLUMN refused_number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chat_sessions ADD COLUMN refused_ns INTEGER NOT NULL DEFAULT 0;
