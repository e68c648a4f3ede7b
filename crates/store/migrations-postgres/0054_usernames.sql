-- Friend requests name an account. `jsonb` refuses U+0000: accounts with it in their JSON are not found by name.
CREATE INDEX users_by_name ON users
    ((CASE WHEN position('\u0000' IN data) = 0 THEN data::JSONB ->> 'username' END));
