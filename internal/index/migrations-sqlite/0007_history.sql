-- What was run is kept beside what came out of it, as JSON; NULL: it is not kept.
ALTER TABLE run_logs ADD COLUMN source TEXT;

-- The words of runs. A run is put in after its end, by IndexRuns: doc is its number
-- there, 0 for one that nobody looks for, NULL for one that is not in yet.
CREATE VIRTUAL TABLE run_text USING fts5 (
    owner, about, code, output, files,
    content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);

ALTER TABLE runs ADD COLUMN doc INTEGER;

CREATE INDEX runs_doc ON runs (doc) WHERE doc > 0;
CREATE INDEX runs_without_doc ON runs (finished_us) WHERE doc IS NULL AND finished_us IS NOT NULL;

CREATE TRIGGER run_text_removed AFTER DELETE ON runs WHEN old.doc > 0 BEGIN
    DELETE FROM run_text WHERE rowid = old.doc;
END;
