"""Written pairs of a made-up MedNLI with a made-up UMLS and MetaMap's mentions, through prepare and
train: their counts, and where their text lies."""

import json

import pytest
from support.canaries import WORDS, leaks
from support.commands import call_command, json_lines, use_one_device
from support.files import lay_out
from support.ontology_files import umls_name, umls_relation, umls_type
from support.pair_files import official, write_rows

from mednli_jax.data.examples import LABELS

SIZES = (("train", 40), ("dev", 6), ("test", 6))  # premises
DISEASES = WORDS[:60]  # each but the first is a kind of the one before it
SYNONYM_OF = dict(zip(DISEASES, WORDS[60:120], strict=True))
FLAGS = """--config=esim_kd:mednli --config.vectors.path= --config.vectors.dim=8 --config.seeds=0
    --config.model.hidden_size=4 --config.train.epochs=1 --config.train.max_buckets=1
    --config.data.augment=.5 --config.knowledge.mentions=../data/metamap.mmi"""
# Files that hold words: of the prepared arrays, and of the ontology.
OF_CACHE = (r"prepared/[^/]+/(vocabulary|rows)\.json", r"ontologies/[^/]+")


def cui(number):
    return f"C{number + 1:07}"


def write_umls(folder):
    conso, sty, rel = "", "", ""
    for number, disease in enumerate(DISEASES):
        conso += umls_name(cui(number), disease, preferred=True, CODE=str(number))
        conso += umls_name(cui(number), SYNONYM_OF[disease], CODE=str(number))
        sty += umls_type(cui(number), "T047")
        if number:
            rel += umls_relation(cui(number), "PAR", cui(number - 1), "inverse_isa")
    lay_out(folder, {"MRCONSO.RRF": conso, "MRSTY.RRF": sty, "MRREL.RRF": rel})


def write_mednli(folder):
    for split, size in SIZES:
        rows = []
        for number in range(3 * size):
            affirmed, denied = (DISEASES[(number // 3 + n) % 60] for n in (0, 20))
            premise = f"She has {affirmed} ; he denies {denied} ."
            hypothesis = f"She has {DISEASES[(number + 1) % 60]}"
            rows.append(official(f"{split}-{number}", LABELS[number % 3], premise, hypothesis))
        write_rows(folder / f"mli_{split}_v1.jsonl", rows)


def write_metamap(data):
    """The diseases of each sentence of MedNLI."""
    lines = []
    for path in sorted((data / "mednli").iterdir()):
        for row in json_lines(path):
            for side, text in (("p", row["sentence1"]), ("h", row["sentence2"])):
                for word in set(text.split()) & set(DISEASES):
                    place = f"{text.index(word)}/{len(word)}"
                    trigger = f'["{word}"-tx-1-"{word}"-noun-0]'
                    concept = f"{word}|{cui(DISEASES.index(word))}|[dsyn]"
                    ident = f"{row['pairID']}-{side}"
                    lines.append(f"{ident}|MMI|5.18|{concept}|{trigger}|TX|{place}|C01\n")
    (data / "metamap.mmi").write_text("".join(lines))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """data/, cache/ and work/, where prepare and train ran; what they printed."""
    home = tmp_path_factory.mktemp("clinical")
    write_umls(home / "data" / "umls")
    write_mednli(home / "data" / "mednli")
    write_metamap(home / "data")
    (home / "work").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home / "work")
        patch.setenv("MEDNLI_JAX_DATA", str(home / "data"))
        patch.setenv("MEDNLI_JAX_CACHE", str(home / "cache"))
        use_one_device(patch)
        prepared = call_command("prepare", *FLAGS.split())
        trained = call_command("train", *FLAGS.split(), "--workdir=run")
    assert (prepared.code, trained.code) == (0, 0), prepared.err + trained.err
    (home / "printed.txt").write_text(prepared.out + prepared.err + trained.out + trained.err)
    (home / "prepared.txt").write_text(prepared.out + prepared.err)
    return home


@pytest.mark.slow
def test_counts_of_written_pairs_are_in_prepare_log_data_and_page(home):
    written = json.loads((home / "work/run/data.json").read_text())["splits"]["train"]["written"]
    assert written["pairs"] == sum(written["categories"].values()) > 20
    assert {"hypernym", "hyponym, negated", "absent", "present, negated"} <= set(
        written["categories"]
    )
    assert len(set(written["labels"].values())) == 1
    note = f"{written['pairs']} training pairs were written by umls"
    for name in ("prepared.txt", "work/run/log.txt", "work/run/report.html"):
        text = (home / name).read_text()
        assert note in text, name
        assert f"hyponym, negated {written['categories']['hyponym, negated']}" in text, name


@pytest.mark.slow
def test_no_text_lies_outside_private_folders(home):
    assert leaks(home / "work", (r"run/private(/.*)?",)) == {}
    assert leaks(home / "cache", OF_CACHE) == {}
    assert "printed.txt" not in leaks(home)
    assert leaks(home / "work")["run/private/vocabulary.json"] > 60
