-- Images that programs of a key can have, separated by commas; empty: all.
ALTER TABLE keys ADD COLUMN images TEXT NOT NULL DEFAULT '';

-- The name of the image that a run has; empty: none.
ALTER TABLE runs ADD COLUMN image TEXT NOT NULL DEFAULT '';
