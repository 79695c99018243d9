"""Reads the tokenizer of a folder of pretrained weights as the Transformers library does.

The result is the content of a tokenizer.json, which the tokenizers library reads. A folder without
this file has a vocab.txt (WordPiece, Wu et al. 2016), or vocab.json and merges.txt (byte-level BPE,
Radford et al. 2019). docs/encoders.md says which file wins.

Versions 4 and 5 of Transformers disagree about a tokenizer.json with parts that its tokenizer_class
does not have: version 5 replaces them. Here, as in version 4, the file is used as it is.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from mednli_jax.errors import DataError, RunError
from mednli_jax.files.reading import open_text
from mednli_jax.types import JsonObject

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER, WORD_PIECES, BPE, MERGES = "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt"
SENTENCE_PIECES = ("spm.model", "spiece.model", "sentencepiece.bpe.model")
CONFIG, SPECIALS, ADDED = "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"
WEIGHT_CONFIGS = ("config.json", "bert_config.json")
LONGEST_WORD = 100  # characters; a longer word is unknown
_COPY = "copy the file again from where the weights came from"


# Classes of the library, without the ending "Fast" that names of version 4 have.
BERT, ROBERTA, GENERIC = "BertTokenizer", "RobertaTokenizer", "PreTrainedTokenizer"
LIKE_BERT = (BERT, "ElectraTokenizer", "DistilBertTokenizer")
WITH_TYPES = ("", BERT, "ElectraTokenizer", GENERIC, "DebertaV2Tokenizer")
OTHERS = ("TokenizersBackend", "XLMRobertaTokenizer", "GPT2Tokenizer", "LlamaTokenizer")
CLASS_OF_MODEL = {
    "bert": BERT,
    "electra": BERT,
    "megatron-bert": BERT,
    "roberta": ROBERTA,
    "modernbert": GENERIC,
    "deberta-v2": "DebertaV2Tokenizer",
}
CLASS_OF_FILE = {WORD_PIECES: BERT, BPE: ROBERTA}
# The special pieces of a class where no file names them.
OF_BERT = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "pad_token": "[PAD]",
}
OF_ROBERTA = {
    "cls_token": "<s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
}
SPECIAL_NAMES = {*OF_BERT.values(), *OF_ROBERTA.values(), "[MASK]", "<mask>"}


class PairForm(NamedTuple):
    """The special pieces of a pair, by number: cls premise sep ... sep hypothesis sep, with so many
    `separators` between the texts. second_type: the type of the second text, 0 or 1."""

    cls: int
    sep: int
    separators: int
    second_type: int


@dataclass(frozen=True)
class TokenizerFiles:
    """The files of a tokenizer.

    Args:
      file: the file that has the pieces.
      class_name: name of the library's class, without the ending "Fast"; "" if no file gives it.
      options: the content of tokenizer_config.json and special_tokens_map.json.
    """

    file: Path
    class_name: str
    options: JsonObject

    @property
    def names(self) -> dict[str, str]:
        """The names of special pieces, by the option that sets them."""
        names = dict(OF_ROBERTA if self.class_name == ROBERTA else OF_BERT)
        for option, value in self.options.items():
            if option.endswith("_token") and value:
                names[option] = _name(value)
        return names

    @property
    def has_types(self) -> bool:
        """Whether the library passes the types of the texts to the model."""
        inputs = self.options.get("model_input_names")
        return self.class_name in WITH_TYPES if inputs is None else "token_type_ids" in inputs


def find_tokenizer(path: Path) -> TokenizerFiles:
    """Finds the tokenizer in a folder, of a vocabulary file, or beside a file of weights."""
    is_weights = path.suffix == ".safetensors"
    is_vocabulary = path.is_file() and not is_weights
    folder = path.parent if is_vocabulary or is_weights else path
    options = _optional_json(folder / CONFIG)
    if "added_tokens_decoder" not in options:  # else the library does not read the other file
        options |= _optional_json(folder / SPECIALS)
    config: JsonObject = {}
    for name in WEIGHT_CONFIGS:
        config = config or _optional_json(folder / name)
    full_name = options.get("tokenizer_class") or config.get("tokenizer_class")
    full_name = full_name or CLASS_OF_MODEL.get(config.get("model_type", ""), "")
    class_name = full_name.removesuffix("Fast")
    if class_name == full_name not in (*LIKE_BERT, *WITH_TYPES, ROBERTA, *OTHERS):
        problem = f"'tokenizer_class' is {full_name}, which no file expresses"
        raise DataError(problem, file=CONFIG, fix="give other weights")
    file = path if is_vocabulary else _vocabulary_file(folder, class_name)
    return TokenizerFiles(file, class_name or CLASS_OF_FILE.get(file.name, ""), options)


def _vocabulary_file(folder: Path, class_name: str) -> Path:
    names = [TOKENIZER]
    if class_name in ("", *LIKE_BERT):
        names.append(WORD_PIECES)
    if class_name in ("", ROBERTA):
        names.append(BPE)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    problem = f"there is no vocabulary ({' or '.join(names)})"
    fix = "name the folder that the weights came in"
    for name in SENTENCE_PIECES:
        if (folder / name).is_file():
            problem = f"the only vocabulary is a SentencePiece model ({name})"
            fix = (
                f"make {TOKENIZER}: pip install 'transformers<5' sentencepiece protobuf; "
                'python -c "from transformers import AutoTokenizer as T; '
                "T.from_pretrained('FOLDER').save_pretrained('FOLDER')\""
            )
    raise DataError(problem, file=folder.name, fix=fix)


def read_tokenizer(files: TokenizerFiles) -> JsonObject:
    """Reads the files of a tokenizer into the content of a tokenizer.json, see
    `tokenizer_content`."""
    readers = {WORD_PIECES: _word_pieces, BPE: _byte_pairs}
    tokenizer = readers.get(files.file.name, _tokenizer_json)(files)
    options, part = files.options, library()
    normalizer, splitter = tokenizer.normalizer, tokenizer.pre_tokenizer
    if files.class_name in LIKE_BERT and isinstance(normalizer, part.normalizers.BertNormalizer):
        normalizer.lowercase = options.get("do_lower_case", True)
        normalizer.strip_accents = options.get("strip_accents")
        normalizer.handle_chinese_chars = options.get("tokenize_chinese_chars", True)
    if files.class_name == ROBERTA and isinstance(splitter, part.pre_tokenizers.ByteLevel):
        splitter.add_prefix_space = options.get("add_prefix_space", False)
    _add_pieces(tokenizer, files)
    row, form = _row(tokenizer), pair_form(tokenizer)
    _set_form(tokenizer, form)
    if _row(tokenizer) != row:
        problem = "its post_processor makes rows unlike [CLS] premise [SEP] hypothesis [SEP]"
        raise DataError(problem, file=files.file.name, fix="give weights that read pairs of texts")
    if not files.has_types:
        form = form._replace(second_type=0)
    return tokenizer_content(tokenizer, form, files.names)


def tokenizer_content(
    tokenizer: "Tokenizer", form: PairForm, names: Mapping[str, str] = OF_BERT
) -> JsonObject:
    """The content of a tokenizer.json whose tokenizer splits texts into pieces and joins pairs into
    rows.

    A text that contains the name of a special piece has ordinary words there.

    names: of special pieces.
    """
    _set_form(tokenizer, form)
    ends = [tokenizer.id_to_token(number) for number in (form.cls, form.sep)]
    tokenizer.add_special_tokens(ends)
    tokenizer.no_truncation()
    padding = tokenizer.token_to_id(names["pad_token"])
    if padding is not None:
        tokenizer.enable_padding(pad_id=padding, pad_token=names["pad_token"])
    content: JsonObject = json.loads(tokenizer.to_str())
    for piece in content["added_tokens"]:
        piece["special"] = piece["content"] in {*ends, *names.values(), *SPECIAL_NAMES}
    return content


# ---- the kinds of files ----


def _tokenizer_json(files: TokenizerFiles) -> "Tokenizer":
    content = json.dumps(_json(files.file))
    try:
        tokenizer: Tokenizer = library().Tokenizer.from_str(content)
    except Exception:  # the library has no class of its own for what it cannot read
        problem, fix = "the tokenizers library cannot read it", f"{_COPY}, or upgrade tokenizers"
        raise DataError(problem, file=files.file.name, fix=fix) from None
    return tokenizer


def _word_pieces(files: TokenizerFiles) -> "Tokenizer":
    lines = re.sub(r"\n\s*\Z", "", _text(files.file)).split("\n")
    pieces = [line.removesuffix("\r") for line in lines]
    number_of = {piece: number for number, piece in enumerate(pieces)}
    for number, piece in enumerate(pieces):
        if number_of[piece] != number:
            problem = f"the piece of number {number} comes again"
            raise DataError(problem, file=files.file.name, fix=_COPY)
    unknown, _ = _special(files, "unk_token", number_of)
    tokenizer = word_piece_tokenizer(number_of, unknown)
    tokenizer.post_processor = library().processors.BertProcessing(
        _special(files, "sep_token", number_of), _special(files, "cls_token", number_of)
    )
    return tokenizer


def word_piece_tokenizer(
    number_of: dict[str, int], unknown: str = "[UNK]", *, lowercase: bool = True
) -> "Tokenizer":
    """BERT's tokenizer, without special pieces."""
    part = library()
    model = part.models.WordPiece(
        number_of, unk_token=unknown, max_input_chars_per_word=LONGEST_WORD
    )
    tokenizer: Tokenizer = part.Tokenizer(model)
    tokenizer.normalizer = part.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = part.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _byte_pairs(files: TokenizerFiles) -> "Tokenizer":
    part, number_of = library(), _json(files.file)
    lines = _text(files.file.with_name(MERGES)).splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    try:
        tokenizer: Tokenizer = part.Tokenizer(part.models.BPE(number_of, merges))
    except Exception:  # see above
        problem = f"it does not fit {BPE}"
        raise DataError(problem, file=MERGES, fix=_COPY) from None
    tokenizer.pre_tokenizer = part.pre_tokenizers.ByteLevel()
    tokenizer.decoder = part.decoders.ByteLevel()
    tokenizer.post_processor = part.processors.RobertaProcessing(
        _special(files, "sep_token", number_of), _special(files, "cls_token", number_of)
    )
    return tokenizer


def _special(files: TokenizerFiles, option: str, number_of: dict[str, int]) -> tuple[str, int]:
    """The (name, number) of a special piece."""
    name = files.names[option]
    if name in number_of:
        return name, number_of[name]
    problem = f"the special piece {name} is missing"
    raise DataError(problem, file=files.file.name, fix="give the tokenizer of the weights")


def _add_pieces(tokenizer: "Tokenizer", files: TokenizerFiles) -> None:
    """Adds the pieces that are found in a text before it is split into words."""
    added_token, present = library().AddedToken, tokenizer.get_added_tokens_decoder()
    special = [_name(value) for key, value in files.options.items() if key.endswith("_token")]
    extra: list[str] = []
    for option in ("additional_special_tokens", "extra_special_tokens"):
        values = files.options.get(option) or ()
        extra += map(_name, values.values() if isinstance(values, dict) else values)
    source, fields_of = CONFIG, files.options.get("added_tokens_decoder")
    if fields_of is None:
        source, fields_of = ADDED, {}
        for piece, number in _optional_json(files.file.with_name(ADDED)).items():
            if number not in present:
                fields_of[number] = {
                    "content": piece,
                    "normalized": piece not in [*special, *extra],
                }
    token_of = {int(number): added_token(**fields) for number, fields in fields_of.items()}
    known = set(map(repr, present.values()))
    tokens = [
        token_of[number] for number in sorted(token_of) if repr(token_of[number]) not in known
    ]
    contents = {token.content for token in token_of.values()}
    tokens += [added_token(name, special=True) for name in extra if name not in contents]
    tokenizer.add_tokens(tokens)
    for number, token in token_of.items():
        if tokenizer.token_to_id(token.content) != number:
            problem = "its numbers do not continue those of the other pieces"
            raise DataError(problem, file=source, fix=_COPY)


# ---- the form of a pair ----


def _row(tokenizer: "Tokenizer") -> tuple[list[int], list[int], list[int]]:
    """The (numbers, text types, special marks) of the row for a pair of texts of one piece each."""
    words = library().models.WordLevel({"a": 0}, "a")
    text, processor = library().Tokenizer(words).encode("a"), tokenizer.post_processor
    row = processor.process(text, text) if processor else text
    return row.ids, row.type_ids, row.special_tokens_mask


def pair_form(tokenizer: "Tokenizer") -> PairForm:
    """The form of the pairs of a tokenizer, which must be that of PairForm."""
    numbers, types, _ = _row(tokenizer)
    return PairForm(numbers[0], numbers[-1], len(numbers) - 4, types[-1])


def _set_form(tokenizer: "Tokenizer", form: PairForm) -> None:
    between, second = "sep:0 " * form.separators, form.second_type
    special = []
    for name, number in (("cls", form.cls), ("sep", form.sep)):
        tokens = [tokenizer.id_to_token(number)]
        special.append({"id": name, "ids": [number], "tokens": tokens})
    tokenizer.post_processor = library().processors.TemplateProcessing(
        single="cls:0 $A:0 sep:0",
        pair=f"cls:0 $A:0 {between}$B:{second} sep:{second}",
        special_tokens=special,
    )


# ---- reading ----


def library() -> ModuleType:
    """Imports the tokenizers library, which is an extra."""
    try:
        import tokenizers  # an extra: it brings ten packages, and encoders alone need it
    except ImportError:
        problem = "the tokenizers library, which encoders' pieces need, is missing"
        raise RunError(problem, fix="pip install 'mednli_jax[bert]'") from None
    return tokenizers


def _name(value: str | JsonObject) -> str:
    """The name of a special piece. value: the name, or a dict with its options."""
    return value["content"] if isinstance(value, dict) else value


def _optional_json(path: Path) -> JsonObject:
    return _json(path) if path.is_file() else {}


def _json(path: Path) -> JsonObject:
    try:
        return dict(json.loads(_text(path)))
    except (TypeError, ValueError):
        raise DataError("not a JSON object", file=path.name, fix=_COPY) from None


def _text(path: Path) -> str:
    with open_text(path) as stream:
        return stream.read()
