-- A run's number in run_text is when it was made (microseconds * 1024), as of SQLite's
-- migration 9.
TRUNCATE run_text;
UPDATE runs SET doc = NULL WHERE doc > 0;
