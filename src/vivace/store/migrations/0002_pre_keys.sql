-- Who may come in, at every gateway. As in keys.json there is the hash of a key and never the key.

CREATE TABLE access_keys (
    id text COLLATE "C" PRIMARY KEY,        -- whom its turns belong to
    name text COLLATE "C" NOT NULL UNIQUE,
    sha256 text COLLATE "C" NOT NULL UNIQUE CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    created_at date NOT NULL,
    CHECK (id ~ '^[A-Za-z0-9_.:/-]+$'),
    CHECK (name ~ '^[A-Za-z0-9_.:/-]+$')
);

-- One row, by which gateways know that they have to read the others. The revision is no counter: a
-- database that was restored or failed over would count again what it had counted before.
CREATE TABLE access_keys_now (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision uuid NOT NULL,
    ever boolean NOT NULL                   -- there was a key, so nobody comes in without one
);
INSERT INTO access_keys_now (revision, ever) VALUES (gen_random_uuid(), false);

-- By a trigger, so that no change goes unnoticed, not even one made by hand.
CREATE FUNCTION access_keys_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE access_keys_now
    SET revision = gen_random_uuid(), ever = ever OR EXISTS (SELECT FROM access_keys);
    RETURN NULL;
END $$;

CREATE TRIGGER access_keys_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON access_keys
FOR EACH STATEMENT EXECUTE FUNCTION access_keys_changed();
