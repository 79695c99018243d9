"""Names of columns, keys and labels that may be texts: no message shows them."""

import json

import pytest
from support.cases import cases
from support.commands import at, config_flag, refused, succeeds
from support.pair_files import SECRET

from mednli_jax import checks, get_config, prepare
from mednli_jax.data.labels import Labels
from mednli_jax.errors import DataError
from mednli_jax.nli.pair_rows import columns_of
from mednli_jax.nli.readers import decided, read_nli_file

RANDOM = ("--config.vectors.path=", "--config.vectors.dim=8")  # vectors

HEADER = "premise\thypothesis\tlabel"
ROWS = "".join(f"{SECRET} {n} is ill.\tHe is ill.\tneutral{{}}" for n in range(3))
CSV = (
    f'premise,hypothesis,"label\n{SECRET} is ill.,He is ill.,neutral\nAll is well.,"Yes.",neutral\n'
)
KEYS = "".join(json.dumps({"premise": "a", "hypothesis": "b", SECRET: "c d"}) + "\n" for _ in "ab")


@cases(
    "file",
    {
        "lines that end in CR, and one in LF": (
            "train.tsv",
            f"{HEADER}\n{ROWS}".replace("\n", "\r") + "\n",
        ),
        "lines that end in U+2028": (
            "train.tsv",
            f"{HEADER}\n{ROWS}".replace("\n", "\u2028") + "\n",
        ),
        "a quote that closes late": ("train.csv", CSV),
        "a text as a key": ("train.jsonl", KEYS.replace(SECRET, f"{SECRET} is ill.")),
        "no header": ("train.tsv", f"{SECRET}\t{SECRET} is ill\tneutral\n"),
    },
)
def test_a_header_that_is_a_text_is_not_shown(tmp_path, file):
    name, content = file
    (tmp_path / name).write_bytes(content.encode())
    (tmp_path / "dev.tsv").write_text(f"{HEADER}\na\tb\tneutral\n")

    with at(tmp_path):
        message = refused(prepare, config_flag("bow", "file"), "--config.data.dir=.")

    assert f"{name}:1: " in message
    assert SECRET not in message


def test_labels_that_may_be_texts_are_numbered(tmp_path):
    (tmp_path / "dev.tsv").write_text(f"{HEADER}\na\tb\t{SECRET}\n")
    labels = Labels.of(f"yes,he is {SECRET},no")

    with pytest.raises(DataError, match="is none of yes, label 2, no") as error:
        read_nli_file(tmp_path / "dev.tsv", split="dev", labels=labels)

    assert SECRET not in str(error.value)


def test_a_column_may_have_the_name_of_its_field(tmp_path):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text("note\tclaim\tlabel\na\tb\tyes\nc\td\tno\n")
    columns = "premise:note,hypothesis:claim,label:label"

    with at(tmp_path):
        config = get_config("bow:file")
        config.data.update(dir=".", columns=columns)
        checks.check(config)

    rows = decided("", tmp_path / "train.tsv", columns_of(columns)).names
    assert rows == ("no", "yes")


def test_many_labels_that_are_numbers_are_a_warning(tmp_path):
    for split in ("train", "dev"):
        rows = [f"a {n}\tb\t{n / 4}" for n in range(11)]
        (tmp_path / f"{split}.tsv").write_text("\n".join([HEADER, *rows]))

    with at(tmp_path):
        _, err = succeeds(prepare, config_flag("bow", "file"), "--config.data.dir=.", *RANDOM)

    assert "warning: 11 labels are numbers; if they are scores, map them to classes" in err
