"""Makes golden_pieces.json: small tokenizers of each kind, and the rows that AutoTokenizer of the
Transformers library makes of 1,000 pairs with them.

    python tests/golden/make_golden_pieces.py [KIND ...]        (needs torch and transformers 5)

The file has the content of each tokenizer's files, and the sha256 of the rows as JSON. Where kinds
are named, the others stay as they are.
"""

import hashlib
import json
import sys
import tempfile
from pathlib import Path

import tokenizers
import transformers

HERE = Path(__file__).parent
FILE = HERE / "golden_pieces.json"
sys.path.insert(0, str(HERE.parent))
from support.texts import pairs  # noqa: E402

LENGTH = 64
SIZE = 420
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def word_pieces(lowercase):
    """The lines of a vocab.txt, trained on the pairs."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=BERT)
    tokenizer.train_from_iterator((" ".join(pair) for pair in pairs(200, seed=1)), trainer)
    number_of = tokenizer.get_vocab()
    return "".join(f"{piece}\n" for piece in sorted(number_of, key=number_of.get))


def byte_level():
    """vocab.json and merges.txt, trained on the pairs."""
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    texts = (" ".join(pair) for pair in pairs(200, seed=1))
    tokenizer.train_from_iterator(texts, vocab_size=SIZE, special_tokens=ROBERTA)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_model(folder)
        return {name: (Path(folder) / name).read_text() for name in ("vocab.json", "merges.txt")}


def unigram():
    """The tokenizer.json of a DeBERTa, trained on the pairs."""
    texts = (" ".join(pair) for pair in pairs(200, seed=1))
    tokenizer = transformers.DebertaV2Tokenizer().train_new_from_iterator(texts, SIZE)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        return {"tokenizer.json": (Path(folder) / "tokenizer.json").read_text()}


def rows_of(files):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_text(content)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        rows = [
            tokenizer(*pair, truncation=True, max_length=LENGTH)["input_ids"] for pair in pairs()
        ]
        tokenizer.save_pretrained(folder)
        saved = ("tokenizer.json", "tokenizer_config.json")
        return rows, {name: (Path(folder) / name).read_text() for name in saved}


def main():
    uncased = {"vocab.txt": word_pieces(True), "config.json": '{"model_type": "bert"}'}
    cased = {
        "vocab.txt": word_pieces(False),
        "tokenizer_config.json": '{"do_lower_case": false}',
        "config.json": '{"model_type": "bert"}',
    }
    roberta = {**byte_level(), "config.json": '{"model_type": "roberta"}'}
    kinds = {"uncased": uncased, "cased": cased, "bpe": roberta}
    for name in list(kinds):
        config = {"config.json": kinds[name]["config.json"]}
        kinds[f"{name}-json"] = config | rows_of(kinds[name])[1]
    size = len(cased["vocab.txt"].splitlines())
    kinds["added"] = {**cased, "added_tokens.json": f'{{"[DEID]": {size}, "q.i.d": {size + 1}}}'}
    kinds["electra"] = {**uncased, "config.json": '{"model_type": "electra"}'}
    kinds["unigram"] = {**unigram(), "config.json": '{"model_type": "deberta-v2"}'}
    golden = json.loads(FILE.read_text()) if sys.argv[1:] else {}
    for name in sys.argv[1:] or kinds:
        files = kinds[name]
        rows, _ = rows_of(files)
        digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
        golden[name] = {"files": files, "rows": digest, "some": rows[:8:7]}
        print(name, sum(map(len, rows)), digest[:8])
    FILE.write_text(json.dumps(golden, ensure_ascii=False, indent=0))


if __name__ == "__main__":
    main()
