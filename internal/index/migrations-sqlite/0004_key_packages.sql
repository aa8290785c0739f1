-- The set of Python packages of a key's programs.
ALTER TABLE keys ADD COLUMN packages TEXT NOT NULL DEFAULT '';
