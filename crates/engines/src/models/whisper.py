# Converts a CTranslate2 Whisper model to the int8 encoder, int8 decoder and token table that
# sherpa-onnx loads. The graphs are built here from the weights, without torch; running it twice
# gives the same bytes.
"""Usage: whisper.py SOURCE_FOLDER OUTPUT_FOLDER

SOURCE_FOLDER holds model.bin and tokenizer.json (float16 weights as faster-whisper ships them).
OUTPUT_FOLDER gets encoder.int8.onnx, decoder.int8.onnx and tokens.txt.
"""

import base64
import json
import struct
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

# Languages that automatic detection may choose between.
LANGUAGES = ["zh", "en"]
HEAD_SIZE = 64  # every Whisper size has heads of 64
AUDIO_CONTEXT = 1500  # encoder frames in 30 s
OPSET = 17
END = 2**31 - 1  # "to the end" for Slice


def read_ctranslate2(path: Path) -> dict[str, np.ndarray]:
    """Reads the tensors of a CTranslate2 model.bin: a counted list of (name, shape, type, bytes), then aliases."""
    with path.open("rb") as stream:

        def number(form: str) -> int:
            return struct.unpack(form, stream.read(struct.calcsize(form)))[0]

        def text() -> str:
            return stream.read(number("<H")).rstrip(b"\0").decode()

        number("<I")  # format version
        spec = text()
        if spec != "WhisperSpec":
            raise SystemExit(f"{path}: holds a {spec}, not a Whisper model")
        number("<I")  # revision of the spec
        types = [np.float32, np.int8, np.int16, np.int32, np.float16]
        weights = {}
        for _ in range(number("<I")):
            name = text()
            shape = [number("<I") for _ in range(number("<B"))]
            kind = types[number("<B")]
            weights[name] = np.frombuffer(stream.read(number("<I")), dtype=kind).reshape(shape)
        for _ in range(number("<I")):
            alias = text()
            weights[alias] = weights[text()]
    return weights


class Graph:
    """Builds an ONNX graph node by node; every operation returns the name of its output."""

    def __init__(self) -> None:
        self.nodes = []
        self.initializers = []
        self.count = 0
        self.small = {}

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}_{self.count}"

    def constant(self, value, prefix: str = "c") -> str:
        """Adds a constant; small ones are shared."""
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes()) if array.size < 16 else None
        if key in self.small:
            return self.small[key]
        name = self.fresh(prefix)
        contiguous = np.ascontiguousarray(array) if array.ndim else array
        self.initializers.append(numpy_helper.from_array(contiguous, name))
        if key:
            self.small[key] = name
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        return self.constant(np.float32(value))

    def op(self, kind: str, inputs: list[str], output: str | None = None, **attributes) -> str:
        return self.split(kind, inputs, 1, output, **attributes)[0]

    def split(self, kind: str, inputs: list[str], count: int, output: str | None = None, **attributes) -> list[str]:
        """Adds a node with `count` outputs."""
        outputs = [output] if output else [self.fresh(kind) for _ in range(count)]
        self.nodes.append(helper.make_node(kind, inputs, outputs, name=self.fresh("n_" + kind), **attributes))
        return outputs

    def slice(self, x: str, start: str, end: str, axis: int) -> str:
        return self.op("Slice", [x, start, end, self.ints(axis)])

    def length(self, x: str) -> str:
        """The size of axis 1."""
        return self.slice(self.op("Shape", [x]), self.ints(1), self.ints(2), 0)

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", [self.op("Mul", [x, self.scalar(1 / np.sqrt(2))])])
        doubled = self.op("Mul", [x, self.op("Add", [erf, self.scalar(1)])])
        return self.op("Mul", [doubled, self.scalar(0.5)])

    def stack(self, parts: list[str], output: str) -> None:
        """Stacks the per-layer tensors on a new first axis under the output's name."""
        raised = [self.op("Unsqueeze", [part, self.ints(0)]) for part in parts]
        self.op("Concat", raised, output, axis=0)


class Whisper:
    """The weights with the sizes read from them, and the layers both halves share."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.state, self.mels = weights["encoder/conv1/weight"].shape[:2]
        self.heads = self.state // HEAD_SIZE
        self.vocabulary = weights["decoder/embeddings/weight"].shape[0]
        self.text_context = weights["decoder/position_encodings/encodings"].shape[0]
        self.encoder_layers = self.layers("encoder")
        self.decoder_layers = self.layers("decoder")

    def layers(self, half: str) -> int:
        names = {key.split("/")[1] for key in self.weights if key.startswith(half + "/layer_")}
        return sum(name[len("layer_") :].isdigit() for name in names)

    def tensor(self, key: str) -> np.ndarray:
        return self.weights[key].astype(np.float32)

    def linear(self, g: Graph, x: str, key: str) -> str:
        y = g.op("MatMul", [x, g.constant(self.tensor(key + "/weight").T, "W")])
        bias = key + "/bias"
        return g.op("Add", [y, g.constant(self.tensor(bias), "b")]) if bias in self.weights else y

    def norm(self, g: Graph, x: str, key: str) -> str:
        gamma = g.constant(self.tensor(key + "/layer_norm/gamma"), "g")
        beta = g.constant(self.tensor(key + "/layer_norm/beta"), "b")
        return g.op("LayerNormalization", [x, gamma, beta], axis=-1, epsilon=1e-5)

    def feed_forward(self, g: Graph, x: str, layer: str) -> str:
        y = self.norm(g, x, layer + "ffn")
        y = g.gelu(self.linear(g, y, layer + "ffn/linear_0"))
        return g.op("Add", [x, self.linear(g, y, layer + "ffn/linear_1")])

    def attention(self, g: Graph, query: str, key: str, value: str, mask: str | None = None) -> str:
        """Multi-head attention over tensors of shape (batch, time, state)."""

        def by_head(x: str, order: list[int]) -> str:
            return g.op("Transpose", [g.op("Reshape", [x, g.ints(0, 0, self.heads, HEAD_SIZE)])], perm=order)

        scaled = g.op("Mul", [query, g.scalar(HEAD_SIZE**-0.5)])
        scores = g.op("MatMul", [by_head(scaled, [0, 2, 1, 3]), by_head(key, [0, 2, 3, 1])])
        if mask:
            scores = g.op("Add", [scores, mask])
        weighted = g.op("MatMul", [g.op("Softmax", [scores], axis=-1), by_head(value, [0, 2, 1, 3])])
        joined = g.op("Transpose", [weighted], perm=[0, 2, 1, 3])
        return g.op("Reshape", [joined, g.ints(0, 0, self.state)])

    def projected(self, g: Graph, x: str, key: str, count: int) -> list[str]:
        """One linear layer whose output is cut into `count` tensors of the state's size."""
        return g.split("Split", [self.linear(g, x, key), g.ints(*[self.state] * count)], count, axis=-1)


def build_encoder(w: Whisper) -> Graph:
    """Mel frames in, the decoder's cross-attention keys and values for every layer out."""
    g = Graph()
    x = "mel"
    for name, stride in (("conv1", 1), ("conv2", 2)):
        weight = g.constant(w.tensor(f"encoder/{name}/weight"), "W")
        bias = g.constant(w.tensor(f"encoder/{name}/bias"), "b")
        x = g.gelu(g.op("Conv", [x, weight, bias], kernel_shape=[3], pads=[1, 1], strides=[stride]))
    x = g.op("Transpose", [x], perm=[0, 2, 1])
    positions = g.constant(w.tensor("encoder/position_encodings/encodings"), "pe")
    x = g.op("Add", [x, g.slice(positions, g.ints(0), g.length(x), 0)])
    for index in range(w.encoder_layers):
        layer = f"encoder/layer_{index}/"
        y = w.norm(g, x, layer + "self_attention")
        mixed = w.attention(g, *w.projected(g, y, layer + "self_attention/linear_0", 3))
        x = g.op("Add", [x, w.linear(g, mixed, layer + "self_attention/linear_1")])
        x = w.feed_forward(g, x, layer)
    x = w.norm(g, x, "encoder")
    pairs = [w.projected(g, x, f"decoder/layer_{index}/attention/linear_1", 2) for index in range(w.decoder_layers)]
    g.stack([key for key, _ in pairs], "n_layer_cross_k")
    g.stack([value for _, value in pairs], "n_layer_cross_v")
    return g


def build_decoder(w: Whisper) -> Graph:
    """Tokens and caches in, logits and grown caches out; `offset` counts the tokens already in the caches."""
    g = Graph()
    end = g.op("Add", ["offset", g.length("tokens")])
    embeddings = w.tensor("decoder/embeddings/weight")
    positions = g.constant(w.tensor("decoder/position_encodings/encodings"), "pe")
    x = g.op("Gather", [g.constant(embeddings, "emb"), "tokens"], axis=0)
    x = g.op("Add", [x, g.slice(positions, "offset", end, 0)])
    causal = np.triu(np.full((w.text_context, w.text_context), -np.inf, np.float32), 1)
    mask = g.slice(g.slice(g.constant(causal, "mask"), "offset", end, 0), g.ints(0), end, 1)
    keys, values = [], []

    def layer_of(cache: str, index: int) -> str:
        return g.op("Gather", [cache, g.constant(np.int64(index))], axis=0)

    def grown(cache: str, new: str) -> tuple[str, str]:
        """The tokens seen so far with the new ones, and the cache with the new ones written in."""
        seen = g.op("Concat", [g.slice(cache, g.ints(0), "offset", 1), new], axis=1)
        return seen, g.op("Concat", [seen, g.slice(cache, end, g.ints(END), 1)], axis=1)

    for index in range(w.decoder_layers):
        layer = f"decoder/layer_{index}/"
        y = w.norm(g, x, layer + "self_attention")
        query, key, value = w.projected(g, y, layer + "self_attention/linear_0", 3)
        key, key_cache = grown(layer_of("in_n_layer_self_k_cache", index), key)
        value, value_cache = grown(layer_of("in_n_layer_self_v_cache", index), value)
        keys.append(key_cache)
        values.append(value_cache)
        mixed = w.attention(g, query, key, value, mask)
        x = g.op("Add", [x, w.linear(g, mixed, layer + "self_attention/linear_1")])
        query = w.linear(g, w.norm(g, x, layer + "attention"), layer + "attention/linear_0")
        mixed = w.attention(g, query, layer_of("n_layer_cross_k", index), layer_of("n_layer_cross_v", index))
        x = g.op("Add", [x, w.linear(g, mixed, layer + "attention/linear_2")])
        x = w.feed_forward(g, x, layer)
    x = w.norm(g, x, "decoder")
    g.op("MatMul", [x, g.constant(embeddings.T, "proj")], "logits")
    g.stack(keys, "out_n_layer_self_k_cache")
    g.stack(values, "out_n_layer_self_v_cache")
    return g


def metadata(w: Whisper, tokenizer: dict) -> dict:
    """The keys that sherpa-onnx reads from the encoder of a Whisper model."""
    special = {entry["content"]: entry["id"] for entry in tokenizer["added_tokens"]}
    start, transcribe = special["<|startoftranscript|>"], special["<|transcribe|>"]
    no_speech = special.get("<|nospeech|>", special.get("<|nocaptions|>"))
    return {
        "model_type": "whisper-base",
        "version": 1,
        "maintainer": "hearken",
        "n_mels": w.mels,
        "n_audio_ctx": AUDIO_CONTEXT,
        "n_audio_state": w.state,
        "n_audio_head": w.heads,
        "n_audio_layer": w.encoder_layers,
        "n_vocab": w.vocabulary,
        "n_text_ctx": w.text_context,
        "n_text_state": w.state,
        "n_text_head": w.heads,
        "n_text_layer": w.decoder_layers,
        "sot": start,
        "eot": special["<|endoftext|>"],
        "blank_id": tokenizer["model"]["vocab"]["Ġ"],
        "translate": special["<|translate|>"],
        "transcribe": transcribe,
        "is_multilingual": 1,
        "no_speech": no_speech,
        "no_timestamps": special["<|notimestamps|>"],
        "sot_prev": special["<|startofprev|>"],
        "sot_lm": special["<|startoflm|>"],
        "sot_index": 0,
        "sot_sequence": f"{start},{special['<|en|>']},{transcribe}",
        "all_language_tokens": ",".join(str(special[f"<|{code}|>"]) for code in LANGUAGES),
        "all_language_codes": ",".join(LANGUAGES),
    }


def token_lines(tokenizer: dict) -> list[str]:
    """One `base64-of-bytes id` line per text token; the tokenizer spells bytes with GPT-2's printable stand-ins."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + place): byte for place, byte in enumerate(others)}
    special = {entry["content"] for entry in tokenizer["added_tokens"]}
    lines = []
    for token, number in sorted(tokenizer["model"]["vocab"].items(), key=lambda entry: entry[1]):
        if token in special or any(letter not in byte_of for letter in token):
            continue
        raw = bytes(byte_of[letter] for letter in token)
        lines.append(f"{base64.b64encode(raw).decode()} {number}\n")
    return lines


def save(g: Graph, path: Path, inputs: list[tuple], outputs: list[tuple], properties: dict) -> None:
    """Checks the graph and writes it as a model."""
    graph = helper.make_graph(
        g.nodes,
        "whisper",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        g.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="hearken")
    model.ir_version = 8
    for key, value in properties.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, str(value)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def main(source: Path, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    w = Whisper(read_ctranslate2(source / "model.bin"))
    tokenizer = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    (output / "tokens.txt").write_text("".join(token_lines(tokenizer)), encoding="utf-8")
    real, whole = TensorProto.FLOAT, TensorProto.INT64
    cross = [(f"n_layer_cross_{kind}", real, [w.decoder_layers, "N", "T2", w.state]) for kind in "kv"]

    def caches(way: str) -> list[tuple]:
        shape = [w.decoder_layers, "N", w.text_context, w.state]
        return [(f"{way}_n_layer_self_{kind}_cache", real, shape) for kind in "kv"]

    tokens = ("tokens", whole, ["N", "n_tokens"])
    offset = ("offset", whole, [1])
    logits = ("logits", real, ["N", "n_tokens", w.vocabulary])
    with tempfile.TemporaryDirectory(dir=output) as scratch:
        encoder, decoder = Path(scratch, "encoder.onnx"), Path(scratch, "decoder.onnx")
        save(build_encoder(w), encoder, [("mel", real, ["N", w.mels, "T"])], cross, metadata(w, tokenizer))
        save(build_decoder(w), decoder, [tokens, *caches("in"), *cross, offset], [logits, *caches("out")], {})
        for path in (encoder, decoder):
            quantize_dynamic(
                path,
                output / f"{path.stem}.int8.onnx",
                op_types_to_quantize=["MatMul", "Gather"],
                weight_type=QuantType.QInt8,
                extra_options={"MatMulConstBOnly": True},
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
