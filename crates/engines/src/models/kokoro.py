# Converts the int8 export of Kokoro-82M v1.0 to the files that sherpa-onnx loads: a faster network,
# a few voices, the token table and a Chinese lexicon. Nothing is trained here; running it twice
# gives the same bytes.
"""Usage: kokoro.py SOURCE_FOLDER OUTPUT_FOLDER

SOURCE_FOLDER holds kokoro.onnx, vocabulary.json (the key "vocab" maps phoneme to id), transcription.py (misaki's
pinyin to IPA) and one NAME.bin per voice. OUTPUT_FOLDER gets model.onnx, voices.bin, tokens.txt and lexicon-zh.txt.
"""

import collections
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from pypinyin import Style, lazy_pinyin, phrases_dict

# The index in this list is sherpa's speaker id.
VOICES = ["zf_xiaoxiao", "zm_yunxi", "af_heart"]
STYLE_SHAPE = (510, 1, 256)  # one style per utterance length in tokens
LONGEST_PHRASE = 6
TONES = [("˧˩˧", "↓"), ("˧˥", "↗"), ("˥˩", "↘"), ("˥", "→"), ("ɻ̩", "ɨ"), ("ɹ̩", "ɨ"), ("̯", "")]


class PlainConvolutions:
    """Rewrites int8 convolutions as fp32 ones.

    The export quantises each convolution's input at run time and multiplies integers, for which ONNX Runtime has no
    fast kernel on a CPU. The same weights as floats cost memory and more than halve the time.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.producer = {name: node for node in graph.node for name in node.output}
        self.consumers = collections.defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self.consumers[name].append(node)
        self.replaced = {}  # output name of the last node of a pattern -> the plain convolution
        self.added = set()

    def other_producer(self, node: onnx.NodeProto, known: str) -> onnx.NodeProto:
        """The node that makes the input of `node` which is not `known`."""
        (other,) = [name for name in node.input if name != known]
        return self.producer[other]

    def bias(self, add: onnx.NodeProto, accumulator: str) -> str:
        """The fp32 bias: the export divides it by the scales, rounds, casts and reshapes it before adding."""
        node = self.other_producer(add, accumulator)
        while node.op_type != "Div":
            node = self.producer[node.input[0]]
        return node.input[0]

    def weight(self, convolution: onnx.NodeProto, scale_name: str) -> str:
        """Adds the weights as floats, one scale and zero point per output channel or for all."""
        name = convolution.input[1] + "_f32"
        if name not in self.added:
            quantised = numpy_helper.to_array(self.constants[convolution.input[1]]).astype(np.float32)
            by_channel = [-1] + [1] * (quantised.ndim - 1)
            scale = numpy_helper.to_array(self.constants[scale_name]).astype(np.float32)
            zero = np.float32(0)
            if len(convolution.input) > 3 and convolution.input[3]:
                zero = numpy_helper.to_array(self.constants[convolution.input[3]]).astype(np.float32)
            scale, zero = (part.reshape(by_channel) if part.size > 1 else part for part in (scale, zero))
            weights = ((quantised - zero) * scale).astype(np.float32)
            self.graph.initializer.append(numpy_helper.from_array(weights, name))
            self.added.add(name)
        return name

    def replace(self, convolution: onnx.NodeProto) -> None:
        """ConvInteger, perhaps Add of a bias, Cast and Mul by the scales become one Conv."""
        accumulator = convolution.output[0]
        (cast,) = self.consumers[accumulator]
        inputs = [self.producer[convolution.input[0]].input[0]]
        bias = []
        if cast.op_type == "Add":
            bias = [self.bias(cast, accumulator)]
            (cast,) = self.consumers[cast.output[0]]
        (scaling,) = self.consumers[cast.output[0]]
        if cast.op_type != "Cast" or scaling.op_type != "Mul":
            raise SystemExit(f"kokoro.onnx: {convolution.name} is not followed by the cast and scaling expected")
        scales = self.other_producer(scaling, cast.output[0])
        (scale,) = [name for name in scales.input if name in self.constants]
        inputs += [self.weight(convolution, scale), *bias]
        plain = helper.make_node("Conv", inputs, [scaling.output[0]], name=convolution.name + "_f32")
        plain.attribute.extend(convolution.attribute)
        self.replaced[scaling.output[0]] = plain

    def apply(self) -> None:
        """Rewrites the graph in place and drops unused nodes."""
        for node in list(self.graph.node):
            if node.op_type == "ConvInteger":
                self.replace(node)
        nodes = [self.replaced.get(node.output[0], node) for node in self.graph.node]
        wanted = {port.name for port in self.graph.output}
        kept = []
        for node in reversed(nodes):  # the nodes of an ONNX graph are sorted: users come after makers
            if wanted.intersection(node.output):
                wanted.update(node.input)
                kept.append(node)
        constants = [tensor for tensor in self.graph.initializer if tensor.name in wanted]
        del self.graph.node[:], self.graph.initializer[:]
        self.graph.node.extend(reversed(kept))
        self.graph.initializer.extend(constants)


def metadata() -> dict[str, str]:
    """The keys that sherpa-onnx reads from a Kokoro model."""
    return {
        "model_type": "kokoro",
        "language": "multi-lang",
        "has_espeak": "1",
        "sample_rate": "24000",
        "version": "2",
        "voice": "en-us",
        "style_dim": ",".join(map(str, STYLE_SHAPE)),
        "n_speakers": str(len(VOICES)),
        "speaker_names": ",".join(VOICES),
        "maintainer": "hearken",
        "comment": "kokoro v1.0 int8 with fp32 convolutions",
    }


def write_model(source: Path, output: Path) -> None:
    model = onnx.load(source)
    PlainConvolutions(model.graph).apply()
    for key, value in metadata().items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.checker.check_model(model)
    onnx.save(model, output)


def voices(source: Path) -> bytes:
    """The style vectors of every voice, one after the other."""
    whole = b""
    for name in VOICES:
        styles = (source / f"{name}.bin").read_bytes()
        if len(styles) != np.prod(STYLE_SHAPE) * 4:
            raise SystemExit(f"{name}.bin: {len(styles)} bytes, expected {np.prod(STYLE_SHAPE) * 4}")
        whole += styles
    return whole


def load_transcription(path: Path):
    """Loads misaki's pinyin table as a module without installing misaki."""
    spec = importlib.util.spec_from_file_location("transcription", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def chinese_lines(pinyin_to_ipa, symbols: set[str]) -> list[str]:
    """One `word phoneme phoneme ...` line per Chinese character and per phrase of pypinyin's dictionary."""
    spelled = {}

    def syllable(pinyin: str) -> str | None:
        if pinyin not in spelled:
            try:
                ipa = "".join(pinyin_to_ipa(pinyin)[0])
            except ValueError:  # not a syllable of Mandarin
                ipa = None
            for old, new in TONES if ipa else []:
                ipa = ipa.replace(old, new)
            spelled[pinyin] = ipa
        return spelled[pinyin]

    characters = [chr(code) for code in range(0x4E00, 0x9FA6)]
    phrases = [
        phrase
        for phrase in phrases_dict.phrases_dict
        if 2 <= len(phrase) <= LONGEST_PHRASE and all("\u4e00" <= letter <= "\u9fff" for letter in phrase)
    ]
    lines = []
    for word in characters + phrases:
        syllables = [syllable(one) for one in lazy_pinyin(word, style=Style.TONE3, neutral_tone_with_five=True)]
        if all(syllables):
            phonemes = [letter for letter in "".join(syllables) if letter in symbols]
            lines.append(f"{word} {' '.join(phonemes)}\n")
    return lines


def main(source: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    vocabulary = json.loads((source / "vocabulary.json").read_text(encoding="utf-8"))["vocab"]
    tokens = [f"{symbol} {number}\n" for symbol, number in sorted(vocabulary.items(), key=lambda entry: entry[1])]
    (output / "tokens.txt").write_text("".join(tokens), encoding="utf-8")
    transcription = load_transcription(source / "transcription.py")
    lines = chinese_lines(transcription.pinyin_to_ipa, set(vocabulary))
    (output / "lexicon-zh.txt").write_text("".join(lines), encoding="utf-8")
    (output / "voices.bin").write_bytes(voices(source))
    write_model(source / "kokoro.onnx", output / "model.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
