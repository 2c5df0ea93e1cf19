"""SQLite: `begin MODE`, `work MODE COUNT` in the current folder, or `check MODE`, which reads
lines `COUNT FOLDER` and answers each with `ok` or with what is wrong."""
import sqlite3
import sys


def value(number):
    return bytes((number * 7 + at) % 251 for at in range(40 + number * 37 % 3000))


def connect(path, mode):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("pragma journal_mode=" + mode)
    db.execute("pragma synchronous=" + ("full" if mode == "wal" else "extra"))
    return db


def check(path, mode, count):
    db = connect(path, mode)
    try:
        said = db.execute("pragma integrity_check").fetchone()[0]
        if said != "ok":
            return "integrity: " + said
        rows = db.execute("select id, version, value from t order by id").fetchall()
        if [row[0] for row in rows] != list(range(len(rows))):
            return "rows are missing"
        if len(rows) < count:
            return "%d transactions, not %d" % (len(rows), count)
        for number, version, data in rows:
            if data != value(number + version):
                return "row %d is wrong" % number
        return "ok"
    finally:
        db.close()


part, mode = sys.argv[1:3]
if part == "begin":
    db = connect("t.db", mode)
    db.execute("create table t (id integer primary key, version integer, value blob)")
    db.close()
elif part == "work":
    db = connect("t.db", mode)
    for number in range(int(sys.argv[3])):
        db.execute("begin")
        db.execute("insert into t values (?, 0, ?)", (number, value(number)))
        other = number * 5 // 7
        db.execute("update t set version = ?, value = ? where id = ?",
                   (number, value(other + number), other))
        db.execute("commit")
        print(number + 1, flush=True)
    db.close()
else:
    for line in sys.stdin:
        count, folder = line.rstrip("\n").split(" ", 1)
        try:
            print(check(folder + "/t.db", mode, int(count)), flush=True)
        except sqlite3.Error as error:
            print("error:", error, flush=True)
