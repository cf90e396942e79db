"""A store of a fleet in PostgreSQL, with psycopg: `dpb.fleet.Node(Postgres("host=db dbname=ads"), "ads", ...)`."""

import contextlib
import threading

import dpb.fleet
import psycopg


class Postgres(dpb.fleet.RowStore):
    """The table dpb. Each command is a transaction, and an advisory lock keeps any two apart."""

    def __init__(self, address):
        self.address = address
        self.lock = threading.Lock()
        self.rows = None

    def close(self):
        if self.rows is not None:
            self.rows.close()

    @contextlib.contextmanager
    def transaction(self):
        with self.lock:
            if self.rows is None or self.rows.closed:
                limits = "-c statement_timeout=1000 -c lock_timeout=1000"
                self.rows = psycopg.connect(self.address, autocommit=True, connect_timeout=2, options=limits)
                self.rows.execute("CREATE TABLE IF NOT EXISTS dpb (key bytea PRIMARY KEY, value bytea NOT NULL)")
            with self.rows.transaction():
                self.rows.execute("SELECT pg_advisory_xact_lock(7236, hashtext('dpb'))")
                yield

    def now_ms(self):
        return self.rows.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchone()[0]

    def get(self, key):
        found = self.rows.execute("SELECT value FROM dpb WHERE key = %s", (key,)).fetchone()
        return found and found[0]

    def put(self, key, value):
        put = "INSERT INTO dpb VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
        self.rows.execute(put, (key, value))

    def remove(self, key):
        self.rows.execute("DELETE FROM dpb WHERE key = %s", (key,))

    def list(self, prefix):
        found = "SELECT key, value FROM dpb WHERE key >= %s AND key < %s"
        return self.rows.execute(found, (prefix, prefix + b"\xff" * 256)).fetchall()
