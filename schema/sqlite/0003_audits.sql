-- How many steps of a run were played again in another process, to find actions that depend on more than the state,
-- and how many of them had another result. Both grow each time the run ends or pauses.
ALTER TABLE runs ADD COLUMN audited_steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN differing_steps INTEGER NOT NULL DEFAULT 0;
