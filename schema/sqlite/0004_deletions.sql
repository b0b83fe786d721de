-- Rows of a file of a derived table that newer layers have instead: a deletion vector of Delta (PROTOCOL.md, "Deletion
-- Vector Format"), empty if there are none. When the vector of a file changes, its row is retired and another one added.
-- Null for a recorded table, and for a layer from before this column: other layers may have its rows too.
ALTER TABLE segments ADD COLUMN deletions BLOB;
