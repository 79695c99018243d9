"""A run that is interrupted anywhere and resumed ends bit-identical to an unbroken one, whatever its protocol."""

import json
import signal
import threading

import pytest
from made_up_commands import call_command, environment_of, read_json, use_one_device
from made_up_protocols import PROTOCOLS, flags_of, results, write_home

from mednli_jax import cli, train
from mednli_jax.training.session import Session

FAST = ("plateau", "reader", "features", "folds")
EPOCHS = 3


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("resume")
    write_home(home)
    return home


def interrupt(patch, number):
    """A SIGINT arrives when the loop asks for the n-th time whether to stop: after a chunk of steps, or a tree."""
    asked, count = Session.should_stop, 0

    def should_stop(session):
        nonlocal count
        count += 1
        if count == number:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # trees grow in another thread
        return asked(session)

    patch.setattr(Session, "should_stop", should_stop)


@pytest.mark.parametrize(
    "protocol", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in PROTOCOLS]
)
def test_an_interrupted_run_resumes_bit_for_bit(home, monkeypatch, protocol):
    """It is interrupted twice, the second time after it was resumed. Its seconds are those of all sessions."""
    monkeypatch.chdir(home)
    use_one_device(monkeypatch)
    for name in ("MEDNLI_JAX_DATA", "MEDNLI_JAX_CACHE"):
        monkeypatch.setenv(name, environment_of(home)[name])
    if protocol == "transfer" and not (home / "source").is_dir():
        assert call_command(train, *flags_of("plateau", "source", 1))[0] == 0
    whole, broken = f"{protocol}-whole", f"{protocol}-broken"
    code, _, err = call_command(train, *flags_of(protocol, whole, EPOCHS))
    assert code == 0, err
    spent, rounding = 0, 0.1 if protocol == "features" else 0  # trees grow within the rounding of the seconds
    for number, more in ((4, ()), (2, ("--resume",))):
        with monkeypatch.context() as patch:
            interrupt(patch, number)
            code, _, err = call_command(train, *flags_of(protocol, broken, EPOCHS), *more)
        assert (code, "--resume" in err) == (cli.INTERRUPTED, True), err
        result = read_json(home, broken, "result.json")
        assert result["status"] == "interrupted"
        assert result["seconds"] > spent - rounding
        spent = result["seconds"]
    code, _, err = call_command(train, *flags_of(protocol, broken, EPOCHS), "--resume")
    assert code == 0, err
    assert results(home / broken) == results(home / whole)
    assert read_json(home, broken, "result.json")["seconds"] > spent - rounding
    rows = (home / broken / "metrics.jsonl").read_text().splitlines() if protocol != "features" else []
    assert all(json.loads(row)["seconds"] > 0 for row in rows)
