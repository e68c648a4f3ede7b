-- Which files which message has, so that a file can be asked whether it is still needed. A file without a message is swept.
CREATE TABLE attachments (
    channel_id INTEGER NOT NULL,
    message_id INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (channel_id, message_id, id),
    FOREIGN KEY (channel_id, message_id) REFERENCES messages (channel_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX attachments_by_id ON attachments (id);
