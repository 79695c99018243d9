"""From a config's `data` and `vectors` sections to a prepared corpus of cloze queries; strings and NumPy only."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mednli_jax.corpora import inventory
from mednli_jax.corpora.cache import Cache
from mednli_jax.corpora.cloze import clicr
from mednli_jax.corpora.cloze.encoding import ClozeEncoding, prepare_cloze
from mednli_jax.corpora.cloze.views import tag_seen, with_titles
from mednli_jax.corpora.demo import cloze as demo_cloze
from mednli_jax.corpora.demo.cloze import load_demo_cloze
from mednli_jax.corpora.demo.nli_facts import demo_files
from mednli_jax.corpora.nli.encoding import Prepared
from mednli_jax.corpora.nli.prepared import cache_folder, config_path, data_folder, warn_of_readers
from mednli_jax.errors import UserError
from mednli_jax.examples import Split
from mednli_jax.knowledge.vectors import vector_files

DEMO, CLICR, FILE = "demo_cloze", "clicr", "file"
CORPORA = (DEMO, CLICR, FILE)


def prepare(config) -> tuple[Prepared, bool]:
    """The config's corpus as arrays, prepared if it is not yet; and whether it was there already.

    Raises: UserError, DataError(s) for a bad config or bad files; nothing half-built is kept.
    """
    data, vectors = config.data, config.vectors
    if data.name not in CORPORA:
        known = ", ".join(CORPORA)
        raise UserError(f"E-CONF-004 config.data.name: unknown corpus '{data.name}'. Fix: give one of {known}.")
    if not 1 <= vectors.dim < 1 << 15:
        raise UserError(f"E-CONF-003 config.vectors.dim is {vectors.dim}. Fix: give 1 to {(1 << 15) - 1}.")
    encoding = ClozeEncoding(
        setup=data.setup,
        max_passage=data.max_passage,
        max_query=data.max_query,
        max_words=data.max_words,
        vectors_path=config_path(config, vectors.path),
        vectors_dim=vectors.dim,
        vectors_seed=vectors.seed,
    )
    clicr.check_wishes(data.limit, data.stray_marks)
    folder = _folder(config)
    sources = demo_files() if folder is None else list(clicr.source_files(folder).values())
    for path in vector_files(encoding.vectors_path) if encoding.vectors_path else ():
        if not path.is_file():  # told before the corpus is read
            raise UserError(f"E-VEC-001 {path}: there is no such file. Fix: check --config.vectors.path.")
    wishes = {"limit": data.limit or 0, "stray_marks": data.stray_marks}
    if data.name == DEMO:
        wishes["demo_format"] = demo_cloze.FORMAT
    found = prepare_cloze(
        data.name,
        lambda: read(data.name, folder, limit=data.limit, stray_marks=data.stray_marks),
        sources,
        encoding,
        Cache(cache_folder()),
        **wishes,
    )
    warn_of_readers(config)
    return found


def read(
    name: str, folder: Path | None = None, *, limit: int | None = None, stray_marks: str = "refuse"
) -> Mapping[str, Split]:
    """Train, dev and test by name, the queries of dev and test tagged seen or unseen.

    name: demo_cloze (bundled); clicr, whose passages begin with their titles, as its published readers and baselines
    read them; or file, a folder in CliCR's layout, whose passages are the contexts alone. limit: first queries of
    train.
    Raises: DataError(s).
    """
    if name == DEMO:
        splits = load_demo_cloze()
        if limit:
            splits = {**splits, "train": replace(splits["train"], examples=splits["train"].examples[:limit])}
        return tag_seen(splits)
    splits = clicr.load(folder, limit=limit, stray_marks=stray_marks)
    if name == CLICR:
        inventory.warn(folder, (CLICR,))
        splits = {title: with_titles(split) for title, split in splits.items()}
    return tag_seen(splits)


def _folder(config) -> Path | None:
    name = config.data.name
    if name == DEMO:
        return None
    if name == FILE and not config.data.dir:
        files = ", ".join(clicr.FILES.values())
        raise UserError(
            "E-CONF-006 no folder is set for your own files. Fix: give --config.data.dir=FOLDER with "
            f"{files} in it, in CliCR's layout."
        )
    folder = data_folder(config)
    if folder is None:
        raise UserError(
            f"E-CONF-006 no data folder is set for corpus '{name}'. Fix: set $MEDNLI_JAX_DATA to the folder that holds "
            f"{name}/, or give --config.data.dir=FOLDER."
        )
    return Path(os.path.expanduser(folder))
