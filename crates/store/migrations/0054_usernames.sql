-- Friend requests name an account.
CREATE INDEX users_by_name ON users (data ->> '$.username');
