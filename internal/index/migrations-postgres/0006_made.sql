-- When the index was made, or got this table. What it does not know is not taken for
-- waste for some time after that: it may be an index of nothing beside the files of a
-- lost one.
CREATE TABLE made (
    at_us BIGINT NOT NULL
);

INSERT INTO made VALUES (CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT));
