-- What gateways tell of themselves, and what is wanted of them.

ALTER TABLE gateways ADD COLUMN name text NOT NULL DEFAULT '';
ALTER TABLE gateways ADD COLUMN about bytea NOT NULL DEFAULT '';  -- JSON: what it has to do
ALTER TABLE gateways ADD COLUMN drain float8;  -- seconds until its turns are handed over; null: it takes turns

ALTER TABLE access_keys ADD COLUMN admin boolean NOT NULL DEFAULT false;
