-- Rows of a file of a derived table that newer layers have instead: a deletion vector of Delta (PROTOCOL.md, "Deletion
-- Vector Format"), or null for none. When the vector of a file changes, its row is retired and another one added.
ALTER TABLE segments ADD COLUMN deletions BLOB;
