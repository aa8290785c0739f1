-- What of its disk and its memory is free on a node, in bytes; 0: not known.
ALTER TABLE nodes ADD COLUMN disk_free BIGINT NOT NULL DEFAULT 0;
ALTER TABLE nodes ADD COLUMN memory_free BIGINT NOT NULL DEFAULT 0;
