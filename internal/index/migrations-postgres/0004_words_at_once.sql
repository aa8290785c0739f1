-- Words are put into their index at once: with a list of those that wait for it, a search
-- goes through the list, or through all runs instead, see decision 0130.
ALTER INDEX run_text_words SET (fastupdate = off);
SELECT gin_clean_pending_list('run_text_words');
