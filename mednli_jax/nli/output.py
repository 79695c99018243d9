"""Findings of analyses as text for a terminal, as files in a folder, and as one page."""

from collections.abc import Sequence
from pathlib import Path

from mednli_jax.io import private_folder, say, write_atomic, write_json
from mednli_jax.nli.subject import Finding, Subject
from mednli_jax.report import html
from mednli_jax.report.sections import Section, lines


def text(finding: Finding) -> str:
    """The finding and its notes for a terminal."""
    return "\n".join([*_lines(finding.sections), *finding.notes])


def _lines(sections: Sequence[Section]) -> list[str]:
    return [line for section in sections for line in lines(section)]


def write_finding(folder: Path, analysis: str, finding: Finding, result: dict) -> None:
    """Writes ANALYSIS.json and the pictures; private parts go to private/. Files of the same name are replaced.

    result: what ANALYSIS.json holds. Raises: RunError where they cannot be written.
    """
    files = {f"{analysis}.json": result, **finding.drawn}
    private_folder(folder)
    if finding.private:
        private_folder(folder / "private")
        inside = finding.private
        files[f"private/{analysis}.json"] = {**result, **inside.figures}
        files |= {f"private/{name}": picture for name, picture in inside.drawn.items()}
        if inside.sections:
            files[f"private/{analysis}.txt"] = "\n".join(_lines(inside.sections)) + "\n"
    for name, content in files.items():
        (write_json if isinstance(content, dict) else write_atomic)(folder / name, content)
    say(f"written: {', '.join(str(folder / name) for name in files)}")


def write_page(folder: Path, subject: Subject, findings: Sequence[Finding]) -> None:
    """Writes report.html, the findings on one page."""
    sections = [section for finding in findings for section in finding.sections]
    notes = " ".join([*subject.notes, *(note for finding in findings for note in finding.notes)])
    page = html.corpus_page(subject.name, subject.splits, sections, subject.knowledge, notes)
    write_atomic(folder / "report.html", page)
    say(f"written: {folder / 'report.html'}")
