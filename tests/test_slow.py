"""Runs killed by `kill -9` at random moments resume bit for bit, and a browser runs no script of a page.

$MEDNLI_JAX_KILLS is the number of kills of each protocol.
"""

import contextlib
import html
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest
from made_up_commands import call_command, environment_of
from made_up_protocols import PROTOCOLS, flags_of, results, write_home
from made_up_runs import GOLD, edit, write_run

from mednli_jax.report import __main__ as report

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
KILLS = int(os.environ.get("MEDNLI_JAX_KILLS", "20"))
COLD = 4  # one of so many runs compiles anew
EPOCHS = 12


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("kill")
    write_home(home)
    complete(home, "plateau", "source")
    return home


def start(home, protocol, folder):
    resume = ["--resume"] if (home / folder).is_dir() else []
    epochs = 4 if protocol == "folds" else EPOCHS
    command = [sys.executable, "-m", "mednli_jax.train", *flags_of(protocol, folder, epochs), *resume]
    environment = {**os.environ, **environment_of(home)}
    del environment["JAX_COMPILATION_CACHE_DIR"]  # compiled programs then lie in the cache of home
    with open(home / "out.txt", "a") as out:
        return subprocess.Popen(command, cwd=home, stdout=out, stderr=out, env=environment, start_new_session=True)


def complete(home, protocol, folder):
    """Runs until the run is complete. Returns the seconds that this took."""
    started = time.monotonic()
    assert start(home, protocol, folder).wait() == 0, (home / "out.txt").read_text()[-3000:]
    return time.monotonic() - started


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_runs_killed_at_random_resume_bit_for_bit(home, protocol):
    """A kill hits start, compilation (anew in every fourth run), epochs, saves or evaluation; some runs, twice."""
    draw = random.Random(protocol)
    cold, length = (complete(home, protocol, f"{protocol}-{kind}") for kind in ("cold", "whole"))
    expected = results(home / f"{protocol}-whole")
    killed = attempts = resumed = 0
    while killed < KILLS:
        anew = resumed % COLD == COLD - 1
        if anew:
            shutil.rmtree(home / "cache" / "compiled")
        folder = f"{protocol}-{resumed}"
        resumed += 1
        for _ in range(draw.choice((1, 2))):
            attempts += 1
            assert attempts < 3 * KILLS + 3, "too few kills find a run under way"
            process = start(home, protocol, folder)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0.2, 0.9) * (cold if anew else length))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        complete(home, protocol, folder)
        assert results(home / folder) == expected
        shutil.rmtree(home / folder)
    print(f"\n{protocol}: {killed} kills in {attempts} attempts; {resumed} runs of {length:.1f} s, none differs")


# -- pages -------------------------------------------------------------------------------------------------------------

CHROMIUM = shutil.which("chromium")
MARK = "zqx"  # a page whose title is this has run a script
PAYLOADS = {
    "script": f"<script>document.title='{MARK}'</script>",
    "image": f"\"><img src=x onerror=document.title='{MARK}'>",
    "attribute": f"' onmouseover='{MARK}' \" autofocus onfocus=\"document.title='{MARK}'",
    "drawing": f"</title></desc></text></svg><svg onload=document.title='{MARK}'>",
    "comment": f"--><script>document.title='{MARK}'</script><!--",
}


def opened(path, folder):
    """(title, whether a policy stopped something) of a page in headless Chromium."""
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--enable-logging=stderr")
    command = [CHROMIUM, *flags, f"--user-data-dir={folder}", "--dump-dom", path.absolute().as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, check=True)
    return title_of(done.stdout), "Content Security Policy" in done.stderr


def title_of(text):
    return html.unescape(text.partition("<title>")[2].partition("</title>")[0])


@pytest.mark.skipif(CHROMIUM is None, reason="needs Debian's chromium")
@pytest.mark.parametrize("name", PAYLOADS)
def test_a_browser_runs_no_script_of_a_page(name, tmp_path, tmp_path_factory, monkeypatch):
    """Strings of the run hold a payload. The page's policy would stop a script, too, but has nothing to stop."""
    monkeypatch.chdir(tmp_path)
    browser, text = tmp_path_factory.mktemp("chromium"), PAYLOADS[name]
    (tmp_path / "bare.html").write_text(f'<!DOCTYPE html><meta charset="utf-8"><title>x</title><p>{text}</p>')
    if name != "attribute":  # which needs a tag around it
        assert opened(tmp_path / "bare.html", browser)[0] == MARK
    write_run(tmp_path / "run", GOLD, uids=[f"{text}{number}" for number in range(len(GOLD))])
    edit(tmp_path / "run" / "result.json", corpus=text, config=text, model=text, notes=[text])
    edit(tmp_path / "run" / "env.json", command=[text], commit=text)
    for flags in ((), ("--public", "--out=public.html"), ("run", "--compare", "--out=compared.html")):
        code, _, err = call_command(report, "run", *flags)
        assert code == 0, err
    for path in (tmp_path / "run" / "report.html", tmp_path / "public.html", tmp_path / "compared.html"):
        assert opened(path, browser) == (title_of(path.read_text()), False)
    assert MARK in json.dumps((tmp_path / "run" / "report.html").read_text())
