"""The tables of the SQLite file under ``progress`` (``TABLES``), and every statement on their rows."""

TABLES = {
    "exercise": """
        lesson TEXT NOT NULL,
        exercise TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('passed', 'partial', 'not attempted', 'error')),
        earned REAL NOT NULL CHECK (earned BETWEEN 0 AND possible),
        best REAL NOT NULL CHECK (best BETWEEN 0 AND possible),
        possible REAL NOT NULL,
        count INTEGER NOT NULL CHECK (count >= 0),
        hints INTEGER NOT NULL CHECK (hints >= 0),
        first_at TEXT NOT NULL,
        last_at TEXT NOT NULL,
        PRIMARY KEY (lesson, exercise)
    """,
    "prediction": """
        lesson TEXT NOT NULL,
        question TEXT NOT NULL,
        first_right INTEGER NOT NULL CHECK (first_right IN (0, 1)),
        last_right INTEGER NOT NULL CHECK (last_right IN (0, 1)),
        count INTEGER NOT NULL CHECK (count >= 1),
        first_at TEXT NOT NULL,
        last_at TEXT NOT NULL,
        PRIMARY KEY (lesson, question)
    """,
    # Files of version 1.0 have no such table; the next write adds it, and a course of version 1.0 reads on past it.
    "misconception": """
        home TEXT NOT NULL,
        lesson TEXT NOT NULL,
        exercise TEXT NOT NULL,
        claim TEXT NOT NULL,
        name TEXT NOT NULL,
        notebook TEXT NOT NULL,
        heading TEXT NOT NULL,
        count INTEGER NOT NULL CHECK (count >= 1),
        first_at TEXT NOT NULL,
        last_at TEXT NOT NULL,
        cleared_at TEXT,
        PRIMARY KEY (home, lesson, exercise)
    """,
}

# An exercise whose points have changed since keeps its best share of them.
RECORD = """
    INSERT INTO exercise (lesson, exercise, status, earned, best, possible, count, hints, first_at, last_at)
    VALUES (:lesson, :exercise, :status, :earned, :earned, :possible, 1, 0, :now, :now)
    ON CONFLICT (lesson, exercise) DO UPDATE SET
        status = excluded.status,
        earned = excluded.earned,
        best = max(excluded.earned, CASE
            WHEN possible = excluded.possible THEN best
            WHEN possible > 0 THEN min(best * excluded.possible / possible, excluded.possible)
            ELSE 0 END),
        possible = excluded.possible,
        count = count + 1,
        last_at = excluded.last_at
"""
RECORD_HINT = """
    INSERT INTO exercise (lesson, exercise, status, earned, best, possible, count, hints, first_at, last_at)
    VALUES (:lesson, :exercise, 'not attempted', 0, 0, 0, 0, :number, :now, :now)
    ON CONFLICT (lesson, exercise) DO UPDATE SET hints = max(hints, excluded.hints)
"""
RECORD_PREDICTION = """
    INSERT INTO prediction (lesson, question, first_right, last_right, count, first_at, last_at)
    VALUES (:lesson, :question, :right, :right, 1, :now, :now)
    ON CONFLICT (lesson, question) DO UPDATE SET
        last_right = excluded.last_right, count = count + 1, last_at = excluded.last_at
"""
RECORD_TOLD = """
    INSERT INTO misconception
        (home, lesson, exercise, claim, name, notebook, heading, count, first_at, last_at, cleared_at)
    VALUES (:home, :lesson, :exercise, :claim, :name, :notebook, :heading, 1, :now, :now, NULL)
    ON CONFLICT (home, lesson, exercise) DO UPDATE SET
        claim = excluded.claim, name = excluded.name, notebook = excluded.notebook, heading = excluded.heading,
        count = count + 1, last_at = excluded.last_at, cleared_at = NULL
"""
# A later answer is free of it where the claim that showed it was judged and held, not where that was never reached. An
# answer that passed is free of all, also where a claim has other words by now.
RECORD_CLEARED = """
    UPDATE misconception SET cleared_at = :now
    WHERE lesson = :lesson AND exercise = :exercise AND cleared_at IS NULL AND last_at < :now
        AND (claim = :claim OR :status = 'passed')
"""
ATTEMPTS = """
    SELECT lesson, exercise, earned, best, possible, status, count, hints FROM exercise ORDER BY lesson, exercise
"""
PREDICTIONS = """
    SELECT lesson, question, last_right, first_right, count FROM prediction ORDER BY first_at, lesson, question
"""
MISCONCEPTIONS = """
    SELECT home, lesson, exercise, name, notebook, heading, count, first_at, last_at, cleared_at
    FROM misconception ORDER BY last_at, home
"""
RESET_MISCONCEPTIONS = """
    DELETE FROM misconception
    WHERE (:lesson IS NULL OR lesson = :lesson) AND (:exercise IS NULL OR exercise = :exercise)
"""
RESET_EXERCISES = """
    DELETE FROM exercise WHERE (:lesson IS NULL OR lesson = :lesson) AND (:exercise IS NULL OR exercise = :exercise)
"""
RESET_PREDICTIONS = """
    DELETE FROM prediction WHERE (:lesson IS NULL OR lesson = :lesson) AND :exercise IS NULL
"""
