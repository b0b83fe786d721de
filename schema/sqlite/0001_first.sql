-- hot.sqlite: what is not yet sealed, and which Parquet files belong to the lake.
-- Applied to an empty database; PRAGMA user_version becomes 1.

-- One row. Ties this database to the lake.json beside it.
CREATE TABLE lake (
  format_version INTEGER NOT NULL,
  identity_digest TEXT NOT NULL              -- BLAKE3 of lake.json's content, hex
) STRICT;

-- Who wrote. The only rows of hot.sqlite that are ever updated.
CREATE TABLE runs (
  run_id INTEGER PRIMARY KEY AUTOINCREMENT,  -- from 1, in the order in which runs were begun
  arguments TEXT NOT NULL,                   -- what identifies the run, as its caller writes it
  started_at_ms INTEGER NOT NULL,            -- Unix time, milliseconds
  finished INTEGER NOT NULL DEFAULT 0        -- 1 once the run did all that it was asked for
) STRICT;

-- The hot log: rows that were appended and are not sealed. A frame is never changed.
-- AUTOINCREMENT: a number that was once used never comes back.
CREATE TABLE frames (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  table_name TEXT NOT NULL,
  rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL,                    -- of the body, decompressed
  digest BLOB NOT NULL,                      -- BLAKE3 of the table's name and the body
  body BLOB NOT NULL                         -- zstd of an Arrow IPC stream of one record batch
) STRICT;

-- The manifest: a Parquet file is part of the lake exactly when it stands here.
CREATE TABLE segments (
  segment_id INTEGER PRIMARY KEY AUTOINCREMENT,
  table_name TEXT NOT NULL,
  path TEXT NOT NULL UNIQUE,                 -- relative to the lake
  rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  digest TEXT NOT NULL,                      -- BLAKE3 of the file, hex
  key_min INTEGER,                           -- of the table's leading key column, where that is a number
  key_max INTEGER
) STRICT;

-- What the derived tables were made from.
CREATE TABLE derivations (
  name TEXT PRIMARY KEY,                     -- e.g. dedup
  inputs TEXT NOT NULL                       -- digest of the inputs, hex
) STRICT, WITHOUT ROWID;
