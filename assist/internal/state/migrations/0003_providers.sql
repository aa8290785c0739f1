-- Something of ours at a provider, written before it is made there. entry is the
-- JSON of provider.Entry; holder is the process that looks after it.
CREATE TABLE ledger (
  key    TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  entry  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX ledger_of_holder ON ledger (holder);

-- Files that were sent to a provider, by what they are. upload is the JSON of
-- provider.CachedUpload.
CREATE TABLE uploads (
  key    TEXT NOT NULL,       -- JSON of provider.UploadKey
  id     TEXT NOT NULL,       -- at the provider
  upload TEXT NOT NULL,
  PRIMARY KEY (key, id)
) STRICT, WITHOUT ROWID;

-- What happened with providers, added up over all processes. counts is the JSON
-- of provider.Counts.
CREATE TABLE provider_counts (
  provider TEXT NOT NULL,
  model    TEXT NOT NULL,
  counts   TEXT NOT NULL,
  PRIMARY KEY (provider, model)
) STRICT, WITHOUT ROWID;
