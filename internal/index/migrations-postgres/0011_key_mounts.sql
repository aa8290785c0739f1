-- The mounts of a key's programs.
ALTER TABLE keys ADD COLUMN mounts TEXT NOT NULL DEFAULT '';
