"""Reads the tokenizer of a folder of pretrained weights as the Transformers library does.

The result is the content of a tokenizer.json, which the tokenizers library reads. A folder without
this file has a vocab.txt (WordPiece, Wu et al. 2016), or vocab.json and merges.txt (byte-level BPE,
Radford et al. 2019). docs/encoders.md says which file wins.

A tokenizer.json can have parts (its normalizer, say) that differ from those of its tokenizer_class.
Version 5 of Transformers then takes the parts of the class, version 4 those of the file. The reader
does as version 4: it takes the parts of the file, and sets only single options in them, such as
do_lower_case, from tokenizer_config.json (see `read_tokenizer`).
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
    from tokenizers import AddedToken, Tokenizer

TOKENIZER_FILE, WORD_PIECE_FILE = "tokenizer.json", "vocab.txt"
BPE_FILE, MERGES_FILE = "vocab.json", "merges.txt"
SENTENCE_PIECE_FILES = ("spm.model", "spiece.model", "sentencepiece.bpe.model")
CONFIG_FILE, SPECIALS_FILE = "tokenizer_config.json", "special_tokens_map.json"
ADDED_FILE = "added_tokens.json"
WEIGHT_CONFIGS = ("config.json", "bert_config.json")
LONGEST_WORD = 100  # characters; a longer word is an unknown piece
_COPY = "copy the file again from where the weights came from"


# Tokenizer classes of Transformers, without the ending "Fast" that names of version 4 have.
BERT, ROBERTA, GENERIC = "BertTokenizer", "RobertaTokenizer", "PreTrainedTokenizer"
BERT_CLASSES = (BERT, "ElectraTokenizer", "DistilBertTokenizer")
TYPE_ID_CLASSES = ("", BERT, "ElectraTokenizer", GENERIC, "DebertaV2Tokenizer")
OTHER_CLASSES = ("TokenizersBackend", "XLMRobertaTokenizer", "GPT2Tokenizer", "LlamaTokenizer")
CLASS_OF_MODEL = {
    "bert": BERT,
    "electra": BERT,
    "megatron-bert": BERT,
    "roberta": ROBERTA,
    "modernbert": GENERIC,
    "deberta-v2": "DebertaV2Tokenizer",
}
CLASS_OF_FILE = {WORD_PIECE_FILE: BERT, BPE_FILE: ROBERTA}
# The special pieces of a class if no file names them.
SPECIALS_OF_BERT = {
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "pad_token": "[PAD]",
}
SPECIALS_OF_ROBERTA = {
    "cls_token": "<s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
}
SPECIAL_NAMES = {*SPECIALS_OF_BERT.values(), *SPECIALS_OF_ROBERTA.values(), "[MASK]", "<mask>"}


class PairForm(NamedTuple):
    """How two texts become one row: cls premise sep ... sep hypothesis sep.

    Args:
      cls, sep: numbers of the special pieces.
      separators: how many pieces `sep` stand between the texts.
      second_type: the type id of the second text, 0 or 1.
    """

    cls: int
    sep: int
    separators: int
    second_type: int


@dataclass(frozen=True)
class TokenizerFiles:
    """The files of a tokenizer.

    Args:
      file: the one that has the vocabulary: tokenizer.json, vocab.txt or vocab.json.
      class_name: the class of Transformers, without the ending "Fast"; "" if no file names it.
      options: the content of tokenizer_config.json and special_tokens_map.json.
    """

    file: Path
    class_name: str
    options: JsonObject

    @property
    def names(self) -> dict[str, str]:
        """option, such as "cls_token" -> the special piece that it names."""
        names = dict(SPECIALS_OF_ROBERTA if self.class_name == ROBERTA else SPECIALS_OF_BERT)
        for option, value in self.options.items():
            if option.endswith("_token") and value:
                names[option] = _name(value)
        return names

    @property
    def extra_pieces(self) -> list[str]:
        """Special pieces that the options give in lists. The others have an option each, such as
        cls_token."""
        extra: list[str] = []
        for option in ("additional_special_tokens", "extra_special_tokens"):
            values = self.options.get(option) or ()
            extra += map(_name, values.values() if isinstance(values, dict) else values)
        return extra

    @property
    def has_type_ids(self) -> bool:
        """Whether rows come with token_type_ids: 0 for pieces of the first text, 1 for those of the
        second. The class decides if the options do not."""
        inputs = self.options.get("model_input_names")
        if inputs is None:
            return self.class_name in TYPE_ID_CLASSES
        return "token_type_ids" in inputs


def find_tokenizer(path: Path) -> TokenizerFiles:
    """The tokenizer of pretrained weights. path: their folder, a vocabulary file, or a file of
    weights with the tokenizer beside it."""
    is_weights = path.suffix == ".safetensors"
    is_vocabulary = path.is_file() and not is_weights
    folder = path.parent if is_vocabulary or is_weights else path
    options = _optional_json(folder / CONFIG_FILE)
    # Transformers ignores special_tokens_map.json if there is an added_tokens_decoder.
    if "added_tokens_decoder" not in options:
        options |= _optional_json(folder / SPECIALS_FILE)
    config: JsonObject = {}
    for name in WEIGHT_CONFIGS:
        config = config or _optional_json(folder / name)
    full_name = options.get("tokenizer_class") or config.get("tokenizer_class")
    full_name = full_name or CLASS_OF_MODEL.get(config.get("model_type", ""), "")
    class_name = full_name.removesuffix("Fast")
    readable = (*BERT_CLASSES, *TYPE_ID_CLASSES, ROBERTA, *OTHER_CLASSES)
    # Each class "...Fast" is readable, as it has a tokenizer.json.
    if not full_name.endswith("Fast") and class_name not in readable:
        problem = f"'tokenizer_class' is {full_name}, which splits text by a program of its own"
        raise DataError(problem, file=CONFIG_FILE, fix="give weights with another tokenizer")
    file = path if is_vocabulary else _vocabulary_file(folder, class_name)
    return TokenizerFiles(file, class_name or CLASS_OF_FILE.get(file.name, ""), options)


def _vocabulary_file(folder: Path, class_name: str) -> Path:
    """The first file of a folder that can have the vocabulary of a tokenizer of this class."""
    names = [TOKENIZER_FILE]
    if class_name in ("", *BERT_CLASSES):
        names.append(WORD_PIECE_FILE)
    if class_name in ("", ROBERTA):
        names.append(BPE_FILE)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    problem = f"there is no vocabulary ({' or '.join(names)})"
    fix = "name the folder that the weights came in"
    for name in SENTENCE_PIECE_FILES:
        if (folder / name).is_file():
            problem = f"the only vocabulary is a SentencePiece model ({name})"
            fix = (
                f"make {TOKENIZER_FILE}: pip install 'transformers<5' sentencepiece protobuf; "
                'python -c "from transformers import AutoTokenizer as T; '
                "T.from_pretrained('FOLDER').save_pretrained('FOLDER')\""
            )
    raise DataError(problem, file=folder.name, fix=fix)


def read_tokenizer(files: TokenizerFiles) -> JsonObject:
    """The tokenizer of the files as the content of one tokenizer.json. Where an option such as
    do_lower_case differs from the file of the vocabulary, the option wins, as in Transformers; an
    option that no config gives has the default of the class."""
    readers = {WORD_PIECE_FILE: _word_pieces, BPE_FILE: _byte_pairs}
    tokenizer = readers.get(files.file.name, _tokenizer_json)(files)
    options, modules = files.options, library()
    normalizer, splitter = tokenizer.normalizer, tokenizer.pre_tokenizer
    if files.class_name in BERT_CLASSES and isinstance(
        normalizer, modules.normalizers.BertNormalizer
    ):
        normalizer.lowercase = options.get("do_lower_case", True)
        normalizer.strip_accents = options.get("strip_accents")
        normalizer.handle_chinese_chars = options.get("tokenize_chinese_chars", True)
    if files.class_name == ROBERTA and isinstance(splitter, modules.pre_tokenizers.ByteLevel):
        splitter.add_prefix_space = options.get("add_prefix_space", False)
    _add_pieces(tokenizer, files)
    # The form has to give the row that the file's own post_processor gives.
    row, form = _shortest_row(tokenizer), pair_form(tokenizer)
    _set_form(tokenizer, form)
    if _shortest_row(tokenizer) != row:
        problem = "its post_processor makes rows unlike [CLS] premise [SEP] hypothesis [SEP]"
        raise DataError(problem, file=files.file.name, fix="give weights that read pairs of texts")
    if not files.has_type_ids:
        form = form._replace(second_type=0)
    return tokenizer_content(tokenizer, form, files.names)


def tokenizer_content(
    tokenizer: "Tokenizer", form: PairForm, names: Mapping[str, str] = SPECIALS_OF_BERT
) -> JsonObject:
    """The content of a tokenizer.json that splits texts as `tokenizer` does and joins pairs by
    `form`. `tokenizer` itself is changed in the same way.

    names: option, such as "cls_token" -> special piece. A text that contains the name of a special
    piece is split like any other; it never yields the special piece.
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
    """The tokenizer of a tokenizer.json."""
    content = json.dumps(_json(files.file))
    try:
        tokenizer: Tokenizer = library().Tokenizer.from_str(content)
    except Exception:  # the library has no class of its own for its errors
        problem, fix = "the tokenizers library cannot read it", f"{_COPY}, or upgrade tokenizers"
        raise DataError(problem, file=files.file.name, fix=fix) from None
    return tokenizer


def _word_pieces(files: TokenizerFiles) -> "Tokenizer":
    """BERT's tokenizer of a vocab.txt: each line is a piece, and its number is that of the line,
    from 0. Empty lines at the end are not counted."""
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
    """BERT's tokenizer of these pieces, without special pieces."""
    modules = library()
    model = modules.models.WordPiece(
        number_of, unk_token=unknown, max_input_chars_per_word=LONGEST_WORD
    )
    tokenizer: Tokenizer = modules.Tokenizer(model)
    tokenizer.normalizer = modules.normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = modules.pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _byte_pairs(files: TokenizerFiles) -> "Tokenizer":
    """RoBERTa's tokenizer of a vocab.json and the merges.txt beside it."""
    modules, number_of = library(), _json(files.file)
    lines = _text(files.file.with_name(MERGES_FILE)).splitlines()
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    try:
        tokenizer: Tokenizer = modules.Tokenizer(modules.models.BPE(number_of, merges))
    except Exception:  # the library has no class of its own for its errors
        problem = f"it does not fit {BPE_FILE}"
        raise DataError(problem, file=MERGES_FILE, fix=_COPY) from None
    tokenizer.pre_tokenizer = modules.pre_tokenizers.ByteLevel()
    tokenizer.decoder = modules.decoders.ByteLevel()
    tokenizer.post_processor = modules.processors.RobertaProcessing(
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
    """Adds the pieces that the configs declare besides the vocabulary. They are found in a text
    before it is split.

    Raises DataError if a piece would get another number than the declared one.
    """
    present = tokenizer.get_added_tokens_decoder()
    token_of = _declared_tokens(files, present)
    # 1. Tokens with a declared number that the tokenizer lacks, or has with other options. They are
    # compared by repr, because for the library tokens of equal content are equal.
    present_tokens = set(map(repr, present.values()))
    # Sorted, because the library numbers new tokens in the order in which they are added. A token
    # that is present with other options is added again: it keeps its number and gets these options.
    tokens = [token for _, token in sorted(token_of.items()) if repr(token) not in present_tokens]
    # 2. Special pieces without a declared number.
    contents = {token.content for token in token_of.values()}
    for name in files.extra_pieces:
        if name not in contents:
            tokens.append(library().AddedToken(name, special=True))
    tokenizer.add_tokens(tokens)
    # 3. The library has numbered the tokens by itself: check the declared numbers.
    for number, token in token_of.items():
        if tokenizer.token_to_id(token.content) != number:
            has_decoder = files.options.get("added_tokens_decoder") is not None
            source = CONFIG_FILE if has_decoder else ADDED_FILE
            problem = "its numbers do not continue those of the other pieces"
            raise DataError(problem, file=source, fix=_COPY)


def _declared_tokens(
    files: TokenizerFiles, present: Mapping[int, "AddedToken"]
) -> dict[int, "AddedToken"]:
    """number -> added token: those of the option added_tokens_decoder, or without it those of
    added_tokens.json that the tokenizer lacks.

    present: the added tokens of the tokenizer.
    """
    added_token = library().AddedToken
    fields_of = files.options.get("added_tokens_decoder")
    if fields_of is not None:
        return {int(number): added_token(**fields) for number, fields in fields_of.items()}
    special = [_name(value) for key, value in files.options.items() if key.endswith("_token")]
    token_of = {}
    for piece, number in _optional_json(files.file.with_name(ADDED_FILE)).items():
        if number not in present:
            is_plain = piece not in (*special, *files.extra_pieces)
            token_of[int(number)] = added_token(piece, normalized=is_plain)
    return token_of


# ---- the form of a pair ----


def _shortest_row(tokenizer: "Tokenizer") -> tuple[list[int], list[int], list[int]]:
    """(ids, type ids, mask of special pieces) of the shortest pair: two texts of one piece each, as
    the post_processor joins them."""
    words = library().models.WordLevel({"a": 0}, "a")
    text, processor = library().Tokenizer(words).encode("a"), tokenizer.post_processor
    row = processor.process(text, text) if processor else text
    return row.ids, row.type_ids, row.special_tokens_mask


def pair_form(tokenizer: "Tokenizer") -> PairForm:
    """The form of pairs, guessed from the shortest row. The guess is right if `_set_form` with this
    form leaves that row unchanged, which `read_tokenizer` checks."""
    numbers, types, _ = _shortest_row(tokenizer)
    separators = len(numbers) - 4  # all but cls, the two texts and the last sep
    return PairForm(numbers[0], numbers[-1], separators, types[-1])


def _set_form(tokenizer: "Tokenizer", form: PairForm) -> None:
    """Gives the tokenizer a post_processor that joins pairs by `form`."""
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
    """The name of a special piece. value: the name, or the piece's options with the name as
    "content"."""
    return value["content"] if isinstance(value, dict) else value


def _optional_json(path: Path) -> JsonObject:
    """Reads a JSON object; {} if there is no such file."""
    return _json(path) if path.is_file() else {}


def _json(path: Path) -> JsonObject:
    """Reads a JSON object. Raises DataError for another content."""
    try:
        return dict(json.loads(_text(path)))
    except (TypeError, ValueError):
        raise DataError("not a JSON object", file=path.name, fix=_COPY) from None


def _text(path: Path) -> str:
    with open_text(path) as stream:
        return stream.read()
