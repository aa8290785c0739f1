-- What programs and requests of each owner have used, by day (days since 1970, UTC) and key (empty: none). The account
-- is the owner itself, or the owner of the key that named a user.
CREATE TABLE consumption (
    account TEXT    NOT NULL,
    day     INTEGER NOT NULL,
    owner   TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    runs    INTEGER NOT NULL,
    cpu_us  INTEGER NOT NULL,
    memory  INTEGER NOT NULL, -- byte-seconds
    stored  INTEGER NOT NULL, -- bytes
    sent    INTEGER NOT NULL, -- bytes
    PRIMARY KEY (account, day, owner, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX consumption_day ON consumption (day);

-- The sums of a month, which is named by its first day, of what a quota may bound: "owner:" and a name, or "key:" and
-- an id. An account has what its users have, too.
CREATE TABLE consumption_months (
    month   INTEGER NOT NULL,
    subject TEXT    NOT NULL,
    runs    INTEGER NOT NULL,
    cpu_us  INTEGER NOT NULL,
    memory  INTEGER NOT NULL,
    stored  INTEGER NOT NULL,
    sent    INTEGER NOT NULL,
    PRIMARY KEY (month, subject)
) STRICT, WITHOUT ROWID;

-- What a key may use in a month, as engine.MonthQuota writes it; empty: what its owner may.
ALTER TABLE keys ADD COLUMN month TEXT NOT NULL DEFAULT '';
