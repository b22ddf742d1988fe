"""Error messages that teach: build one in four parts (``explain``)."""


def explain(did: str, expected: str, why: str = "", try_this: str = "") -> str:
    """Joins the parts of an error message, one a line: what was done, with the value in short form; what was expected
    instead (bad options list the good ones); why it matters, where that is not obvious; what to do now.

    Example:
        >>> print(explain("Lesson('detatch') was asked for.", "Lessons are: detach, no_grad."))
        Lesson('detatch') was asked for.
        Expected: Lessons are: detach, no_grad.
    """
    lines = [did, f"Expected: {expected}"]
    if why:
        lines.append(f"Why it matters: {why}")
    if try_this:
        lines.append(f"Try: {try_this}")
    return "\n".join(lines)
