"""Time and memory of the UMLS reader at full size: `python launch/umls_reader_scale.py [--rows=10000000]`.

Writes a synthetic release into a temporary folder (about 1.4 GB for ten million rows, removed at the end). MRREL.RRF
has --rows rows, a fifth of them is-a, half from another source; there are --concepts concepts with three names each. A
child process reads it twice: the is-a graph only, and all relations. The output is seconds and peak memory of each. The
target is at most 90 s and 2 GB for ten million rows.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from mednli_jax.knowledge.ontology import OntologyOptions
from mednli_jax.knowledge.readers.umls import COLUMNS, LINK_TYPES, read_umls

CHUNK = 200_000
KINDS = 60  # other relations, by name
IS_A, SNOMED = 0.2, 0.5  # shares of the rows


def cuis(concepts: np.ndarray) -> list[str]:
    """The identifiers of the concepts with these indices."""
    return [f"C{concept:07}" for concept in concepts.tolist()]


def write_names(folder: Path, concepts: int) -> None:
    """Writes MRCONSO.RRF (three names per concept, the second one preferred) and MRSTY.RRF (one type per concept)."""
    with open(folder / "MRCONSO.RRF", "w") as names, open(folder / "MRSTY.RRF", "w") as types:
        for concept in range(concepts):
            cui = f"C{concept:07}"
            for number, marks in enumerate(("S|L0|VO|S0|N", "P|L0|PF|S0|Y", "S|L0|PF|S0|Y")):
                text = f"synthetic concept {concept} by its name of number {number}"
                code = 100_000_000 + concept
                names.write(f"{cui}|ENG|{marks}|A{concept:07}{number}||{code}||SNOMEDCT_US|SY|{code}|{text}|9|N|256|\n")
            types.write(
                f"{cui}|{LINK_TYPES[concept % len(LINK_TYPES)]}|B2.2.1.2.1|Synthetic Type|AT{concept:08}|256|\n"
            )


def write_relations(folder: Path, concepts: int, rows: int) -> None:
    """Writes MRREL.RRF. is-a edges go from a concept to one with a lower number, so that there is no cycle."""
    random = np.random.default_rng(0)
    with open(folder / "MRREL.RRF", "w") as file:
        for start in range(0, rows, CHUNK):
            count = min(CHUNK, rows - start)
            child = random.integers(1, concepts, count)
            parent = (child * random.random(count)).astype(np.int64)
            plan = random.random((count, 3))
            lines = []
            ends = zip(cuis(child), cuis(parent), strict=True)
            for row, ((one, two), (is_a, chance, kind)) in enumerate(zip(ends, plan.tolist(), strict=True), start):
                if is_a >= IS_A:
                    rel, rela = "RO", f"made_up_relation_of_kind_{int(kind * KINDS)}"
                elif kind < 0.5:
                    rel, rela = "PAR", "inverse_isa"
                else:
                    rel, rela, one, two = "CHD", "isa", two, one
                source = "SNOMEDCT_US" if chance < SNOMED else "MADEUP"
                lines.append(
                    f"{one}|A0{one[1:]}|SCUI|{rel}|{two}|A0{two[1:]}|SCUI|{rela}|R{row:09}|{row}|{source}|{source}||Y|N||\n"
                )
            file.writelines(lines)


def read(folder: Path, relations: str) -> dict:
    """The report of the child process."""
    begun = time.perf_counter()
    ontology = read_umls(folder, OntologyOptions(relations=relations))
    return {
        "seconds": time.perf_counter() - begun,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "concepts": len(ontology),
        "names": len(ontology.names),
        "is_a": int(ontology.parents.nnz),
        "relations": len(ontology.relations),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of the UMLS reader at full size.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of MRREL.RRF")
    parser.add_argument("--concepts", type=int, default=350_000)
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--read", nargs=2, metavar=("FOLDER", "RELATIONS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read(Path(options.read[0]), options.read[1])))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_names(folder, options.concepts)
        write_relations(folder, options.concepts, options.rows)
        size = sum((folder / file).stat().st_size for file in COLUMNS)
        print(f"made up {options.rows} relations of {options.concepts} concepts, {size / 1e9:.2f} GB", flush=True)
        for relations in ("is_a", "all"):
            command = [sys.executable, __file__, "--read", name, relations]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            figures = json.loads(done.stdout)
            counts = ", ".join(f"{key} {figures[key]}" for key in ("concepts", "names", "is_a", "relations"))
            print(
                f"{relations}: {figures['seconds']:.1f} s, peak {figures['peak'] / 1e9:.2f} GB ({counts})", flush=True
            )


if __name__ == "__main__":
    main()
