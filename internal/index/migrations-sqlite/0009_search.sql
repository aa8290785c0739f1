-- A run's number in run_text is when it was made (microseconds * 1024) and not the next
-- one, so that the newest come first without sorting. In which column a word is
-- counts, where in it does not; beginnings of one and two characters have lists of
-- their own, longer ones are looked up among the words.
DROP TRIGGER run_text_removed;
DROP TABLE run_text;

CREATE VIRTUAL TABLE run_text USING fts5 (
    owner, about, code, output, files,
    content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2', detail = column, prefix = '1 2'
);

CREATE VIRTUAL TABLE run_text_words USING fts5vocab (run_text, instance);

UPDATE runs SET doc = NULL WHERE doc > 0;

CREATE TRIGGER run_text_removed AFTER DELETE ON runs WHEN old.doc > 0 BEGIN
    DELETE FROM run_text WHERE rowid = old.doc;
END;
