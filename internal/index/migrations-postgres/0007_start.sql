-- How the program started: warm, cold, or not known.
ALTER TABLE runs ADD COLUMN start TEXT NOT NULL DEFAULT '';
