"""`git add -A` takes nothing from the folders that commands make. test_privacy.py checks this for real commands."""

import subprocess

from made_up_commands import ROOT

from mednli_jax.files import private_folder


def staged(clone):
    """The files that `git add -A` would take."""
    done = subprocess.run(["git", "add", "-A", "-n"], cwd=clone, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_folder_of_the_users_own_is_seen_as_before_but_for_its_private_part(tmp_path):
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "thesis.tex").write_text("x")
    private_folder(tmp_path / "figures")
    (private_folder(tmp_path / "figures" / "private") / "lexical.txt").write_text("x")
    assert staged(tmp_path) == ["add 'figures/thesis.tex'"]


def test_a_folder_of_ours_is_left_out_though_it_has_files(tmp_path):
    """Runs and caches of earlier versions look like this. An existing .gitignore is left as it is."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    private_folder(tmp_path / "run", ours=True)
    assert staged(tmp_path) == []
    (tmp_path / "run" / ".gitignore").write_text("private/\n")
    private_folder(tmp_path / "run", ours=True)
    assert (tmp_path / "run" / ".gitignore").read_text() == "private/\n"


def test_every_folder_is_made_by_the_one_function_or_lies_in_one_that_was():
    """The other calls of mkdir make no folder that git would see."""
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [*(ROOT / "mednli_jax").rglob("*.py"), *(ROOT / "launch").glob("*.py")]
        if path.name != "mutation_check.py"  # works in a temporary folder
        for line in path.read_text().splitlines()
        if "mkdir(" in line or "makedirs(" in line
    }
    assert found == {
        "mednli_jax/files.py: folder.mkdir(mode=0o700, parents=True, exist_ok=True)",  # the function that makes them
        "mednli_jax/files.py: temporary.mkdir(mode=0o700)",  # beside the final folder, in one made by the function
        "mednli_jax/runs.py: run.private.mkdir(mode=0o700, exist_ok=True)",  # inside a run
        "mednli_jax/runs.py: folder.mkdir(mode=0o700, exist_ok=True)",
        "mednli_jax/fitting/folds.py: self.directory.checkpoints.mkdir(mode=0o700, exist_ok=True)",
        "mednli_jax/training/checkpoint.py: self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)",
        'launch/diskne_speed.py: (place / "prepared").mkdir(parents=True)',  # inside a temporary folder
    }
