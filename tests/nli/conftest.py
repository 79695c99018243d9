"""The command `analyze` on small corpora in which three words tell the label."""

import pytest
from made_up_commands import call_command, write_shared_premises

from mednli_jax import analyze
from mednli_jax.nli import analyses

MESH = "id\tname\ttree_numbers\tsynonyms\nD1\tBrain Injury\tC10.100\t\nD2\tGout\tC05.100\t\nD3\tJoint Pain\tC05\t\n"
OBO = "format-version: 1.2\n\n[Term]\nid: X:1\nname: joint pain\n\n[Term]\nid: X:2\nname: gout\nis_a: X:1\n"


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Runs the command on made-up corpora and a small ontology: (exit code, stdout, stderr)."""
    (tmp_path / "own.tsv").write_text(MESH)
    (tmp_path / "own.obo").write_text(OBO)
    for split in ("train", "dev", "test"):
        if split != "test":
            write_shared_premises(tmp_path / "own" / f"{split}.jsonl")
        write_shared_premises(tmp_path / "snli" / f"snli_1.0_{split}.jsonl")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDNLI_JAX_DATA", str(tmp_path))
    monkeypatch.delitem(analyses.ANALYSES, "aflite", raising=False)  # this analysis has tests of its own

    def call(name, *flags):
        return call_command(analyze, name, "--config.knowledge.ontology=own.tsv", *flags, words=1)

    return call
