"""What a user did wrong, or what is wrong with a file, told in one line and never in the corpus's own words."""

MAX_PROBLEMS = 20


class UserError(Exception):
    """Bad input or usage: the doors print `str(error)` and leave with exit code 2, without a traceback."""


class DataError(UserError):
    """One fault of one file: `E-DATA-017 mli_dev_v1.jsonl:18: field 'gold_label' is missing. Fix: ...`.

    Args:
      code: stable code of the fault, e.g. "E-DATA-017".
      problem: what is wrong, naming fields and counts but never quoting the text.
      file, line, field: where; line counts from 1. `field` is for programs, name it in `problem` too.
      fix: what the user can do.
    """

    def __init__(self, code, problem, *, file=None, line=None, field=None, fix=""):
        self.code, self.problem, self.file, self.line, self.field, self.fix = code, problem, file, line, field, fix
        where = "" if file is None else f" {file}" + ("" if line is None else f":{line}")
        super().__init__(f"{code}{where}: {problem.rstrip('.')}." + (f" Fix: {fix.rstrip('.')}." if fix else ""))


class DataErrors(UserError):
    """Several faults found in one pass over a file: the first 20, then how many more."""

    def __init__(self, errors, total=None):
        self.errors = list(errors)[:MAX_PROBLEMS]
        total = len(errors) if total is None else total
        lines = [str(error) for error in self.errors]
        if total > len(self.errors):
            lines.append(f"... and {total - len(self.errors)} more problems of this kind.")
        super().__init__("\n".join(lines))


class Problems:
    """Collects the faults of one file so that the user sees the first 20 together, not one a run.

    Usage: `problems.add(DataError(...))` while reading, `problems.raise_if_any()` at the end.
    """

    def __init__(self):
        self.first, self.total = [], 0

    def add(self, error):
        self.total += 1
        if len(self.first) < MAX_PROBLEMS:
            self.first.append(error)

    def raise_if_any(self):
        if self.total == 1:
            raise self.first[0]
        if self.total:
            raise DataErrors(self.first, self.total)
