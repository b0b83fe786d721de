-- hot.sqlite: the unsealed rows, and the list of Parquet files that belong to the lake.
-- Applied to an empty database; PRAGMA user_version becomes 1.

-- One row. Ties this database to the lake.json beside it.
CREATE TABLE lake (
  format_version INTEGER NOT NULL,
  identity_digest TEXT NOT NULL              -- BLAKE3 of lake.json's content, hex
) STRICT;

-- The runs. `finished` changes once; `repeated_windows` grows each time the run ends or pauses.
CREATE TABLE runs (
  run_id INTEGER PRIMARY KEY AUTOINCREMENT,  -- from 1, in the order in which the lake got them
  uid TEXT NOT NULL UNIQUE,                  -- 128 random bits, hex: names the run across lakes
  arguments TEXT NOT NULL,                   -- what identifies the run, as its caller writes it
  started_at_ms INTEGER NOT NULL,            -- Unix time, milliseconds
  finished INTEGER NOT NULL DEFAULT 0,       -- 1 once the run did all that it was asked for
  repeated_windows INTEGER NOT NULL DEFAULT 0, -- windows of steps that failed in one worker, and not in a fresh one
  logged INTEGER NOT NULL DEFAULT 0          -- 1 once the log of snapshots has the row as it is
) STRICT;

-- The hot log: rows that were appended and are not sealed yet. A frame is never changed.
-- AUTOINCREMENT: a number is never reused.
CREATE TABLE frames (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  table_name TEXT NOT NULL,
  rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL,                    -- of the body, decompressed
  digest BLOB NOT NULL,                      -- BLAKE3 of the table's name and the body
  body BLOB NOT NULL                         -- zstd of an Arrow IPC stream of one record batch
) STRICT;

-- The versions of the sealed part of the lake, from 1. Expired versions have no row; the newest
-- always has one.
CREATE TABLE snapshots (
  snapshot_id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,                        -- what made it: create, seal, dedup, retract, repair, merge, fetch, backfill, import
  created_at_ms INTEGER NOT NULL,            -- Unix time, milliseconds; to be shown: the numbers are the order
  detail TEXT NOT NULL                       -- one line for a person
) STRICT;

-- The manifest: a Parquet file is part of the lake exactly when it is listed here, and of snapshot N when
-- added_in <= N and not retired_in <= N.
CREATE TABLE segments (
  segment_id INTEGER PRIMARY KEY AUTOINCREMENT,
  table_name TEXT NOT NULL,
  path TEXT NOT NULL,                        -- relative to the lake
  rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  digest TEXT NOT NULL,                      -- BLAKE3 of the file, hex
  key_min INTEGER,                           -- of the table's leading key column, where that is a number
  key_max INTEGER,
  layer INTEGER,                             -- of a derived table: its layer; null otherwise
  added_in INTEGER NOT NULL,                 -- the first snapshot that has it
  retired_in INTEGER,                        -- the first snapshot that has it no more; null while the newest has it
  counted_in INTEGER,                        -- of steps: the first snapshot whose layers count them; null before
  blocks BLOB NOT NULL,                      -- BLAKE3 of each 65,536 bytes of the file, 32 bytes each
  blocks_digest BLOB NOT NULL,               -- BLAKE3 of `blocks`
  lost INTEGER NOT NULL DEFAULT 0,           -- 1 once a repair found the file damaged: only older snapshots have it
  UNIQUE (path, added_in)
) STRICT;

-- The newest snapshot has a file once. Retired content may come back.
CREATE UNIQUE INDEX segments_now ON segments (path) WHERE retired_in IS NULL;

-- What was taken back, and why.
CREATE TABLE retractions (
  retraction_id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,                        -- benchmark, run or action
  value TEXT NOT NULL,
  reason TEXT NOT NULL,
  snapshot_id INTEGER NOT NULL               -- the first one without it
) STRICT;

-- The runs that lost episodes to a retraction. None of them continues itself: a run of its own plays what is missing.
CREATE TABLE retracted_runs (
  retraction_id INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  PRIMARY KEY (retraction_id, run_id)
) STRICT, WITHOUT ROWID;

-- What repairs had to drop.
CREATE TABLE losses (
  loss_id INTEGER PRIMARY KEY AUTOINCREMENT,
  table_name TEXT NOT NULL,
  path TEXT NOT NULL,                        -- the file, or the hot log
  rows INTEGER NOT NULL,
  what TEXT NOT NULL,                        -- one line for a person
  snapshot_id INTEGER NOT NULL               -- the first one without them
) STRICT;

-- What the derived tables were made from.
CREATE TABLE derivations (
  name TEXT PRIMARY KEY,                     -- e.g. dedup
  inputs TEXT NOT NULL                       -- digest of the inputs, hex
) STRICT, WITHOUT ROWID;

-- One row: BLAKE3 of the contents of all other tables, except the bodies of frames and the blocks of segments,
-- which have digests of their own. SQLite has no checksums of its pages. Every transaction updates it. 0002 makes it
-- a sum.
CREATE TABLE content (
  digest BLOB NOT NULL
) STRICT;
