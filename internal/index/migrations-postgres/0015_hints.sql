-- What a run was told about what its program missed; empty: nothing.
ALTER TABLE runs ADD COLUMN hint TEXT NOT NULL DEFAULT '';
