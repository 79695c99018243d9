"""Made-up files of NLI4CT and RQE in the official layouts."""

import json

from support.files import write

TRIALS = {"NCT01": ["Outcome:", "  12 of 40", "", "Group B  9 of 41"], "NCT02": ["None given"]}


def statement(text, label, *evidence, **fields):
    """A statement on the results of NCT01; on those of NCT02, too, with evidence for both."""
    row = {"Type": "Single", "Section_id": "Results", "Primary_id": "NCT01", "Statement": text}
    row |= {"Label": label, "Primary_evidence_index": evidence[0]}
    if len(evidence) > 1:
        row |= {"Type": "Comparison", "Secondary_id": "NCT02"}
        row["Secondary_evidence_index"] = evidence[1]
    return row | fields


def write_trials(folder, **splits):
    """Writes files of statements, and the trials beside them."""
    for name, sections in TRIALS.items():
        write(folder / "CT json" / f"{name}.json", json.dumps({"Results": sections}))
    for name, statements in splits.items():
        write(folder / f"{name}.json", json.dumps(statements))


SINGLE = {"a": statement("12 answered .", "Entailment", [3, 1])}
STATEMENTS = {
    "train": SINGLE,
    "dev": {"b": statement("NCT02 is larger .", "Contradiction", [0], [0])},
    "Gold_test": {"c": statement("9 answered .", "Contradiction", [1])},
}


def questions(*pairs):
    """RQE's XML of (chq, faq, value)."""
    rows = []
    for number, (chq, faq, value) in enumerate(pairs, 1):
        texts = f"<chq>\n {chq}\n</chq><faq>{faq}</faq>"
        rows.append(f'<pair pid="{number}" type="x" value="{value}">{texts}</pair>')
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<RQE>{"".join(rows)}</RQE>'


def write_clinical_corpora(folder):
    """Writes NLI4CT, NLI4CT of 2024 and RQE into a data folder."""
    write_trials(folder / "nli4ct" / "Complete_dataset", **STATEMENTS)
    training = {name: STATEMENTS[name] for name in ("train", "dev")}
    change = {"Intervention": "Preserving", "Causal_type": ["Paraphrase", "c"]}
    changed = statement("Nine answered .", "Contradiction", [1], **change)
    test = {**STATEMENTS["Gold_test"], "d": changed}
    write_trials(folder / "nli4ct_2024", **training, gold_test=test)
    pairs = [(f"How is case {number}", "Is it?", "true") for number in range(100)]
    write(folder / "rqe" / "RQE_Train_8588_AMIA2016.xml", questions(*pairs))
    write(folder / "rqe" / "RQE_Test_302_pairs_AMIA2016.xml", questions(("Who?", "He?", "false")))
