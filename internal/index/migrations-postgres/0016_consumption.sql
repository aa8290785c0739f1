-- What programs and requests of each owner have used, by day (days since 1970, UTC) and key (empty: none). The account
-- is the owner itself, or the owner of the key that named a user.
CREATE TABLE consumption (
    account TEXT   COLLATE "C" NOT NULL,
    day     BIGINT NOT NULL,
    owner   TEXT   COLLATE "C" NOT NULL,
    key     TEXT   COLLATE "C" NOT NULL,
    runs    BIGINT NOT NULL,
    cpu_us  BIGINT NOT NULL,
    memory  BIGINT NOT NULL, -- byte-seconds
    stored  BIGINT NOT NULL, -- bytes
    sent    BIGINT NOT NULL, -- bytes
    PRIMARY KEY (account, day, owner, key)
);

CREATE INDEX consumption_day ON consumption (day);

-- The sums of a month, which is named by its first day, of what a quota may bound: "owner:" and a name, or "key:" and
-- an id. An account has what its users have, too.
CREATE TABLE consumption_months (
    month   BIGINT NOT NULL,
    subject TEXT   COLLATE "C" NOT NULL,
    runs    BIGINT NOT NULL,
    cpu_us  BIGINT NOT NULL,
    memory  BIGINT NOT NULL,
    stored  BIGINT NOT NULL,
    sent    BIGINT NOT NULL,
    PRIMARY KEY (month, subject)
);

-- What a key may use in a month, as engine.MonthQuota writes it; empty: what its owner may.
ALTER TABLE keys ADD COLUMN month TEXT NOT NULL DEFAULT '';
