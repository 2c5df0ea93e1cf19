#!/usr/bin/env python3
"""Commits to an SQLite database, one after the other with a pause between them, as many clients
of a NAS do: `commits.py DATABASE SECONDS`. Prints how many there were in a second, and the median
and the longest time of one."""

import sqlite3
import statistics
import sys
import time

PAUSE_S = 0.1

database, seconds = sys.argv[1], float(sys.argv[2])
connection = sqlite3.connect(database, timeout=60, isolation_level=None)
connection.execute("CREATE TABLE IF NOT EXISTS files (id INTEGER PRIMARY KEY, name TEXT)")
times = []
begin = time.monotonic()
while time.monotonic() - begin < seconds:
    before = time.monotonic()
    connection.execute("INSERT INTO files (name) VALUES ('a photo of the sea')")
    times.append(time.monotonic() - before)
    # SLEEP: what a client does between two.
    time.sleep(PAUSE_S)
took = time.monotonic() - begin
if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
    sys.exit("the database is broken")
print(
    f"{len(times) / took:.1f} commits/s, median {statistics.median(times) * 1000:.0f} ms, "
    f"longest {max(times) * 1000:.0f} ms"
)
