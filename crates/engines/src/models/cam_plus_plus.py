# Converts the published CAM++ (speech_campplus_sv_zh_en_16k-common_advanced) from a PyTorch
# checkpoint into an ONNX graph. The graph is built here from the weights, without torch; running it
# twice gives the same bytes.
"""Usage: cam_plus_plus.py SOURCE_FOLDER OUTPUT_FOLDER

SOURCE_FOLDER holds cam-plus-plus.pt; OUTPUT_FOLDER gets model.onnx: from `features` (one, frames, 80 bands, the mean of
each band taken off) to `embedding` (one, 192). At least 3 frames are needed.
"""

import pickle
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BANDS = 80
DIMENSIONS = 192
SEGMENT = 100  # frames over which the context of a layer is averaged, at half the rate of the features
OPSET = 17
EPSILON = 1e-5  # of batch normalisation, as trained
# Number of layers of each dense block, and the dilation of their convolutions.
BLOCKS = [(12, 1), (24, 2), (16, 2)]


class Checkpoint(pickle.Unpickler):
    """Reads the tensors of a PyTorch checkpoint; anything else is refused."""

    STORAGES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}

    def __init__(self, archive: zipfile.ZipFile) -> None:
        [listing] = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        super().__init__(archive.open(listing))
        self.archive = archive
        self.folder = listing.removesuffix("data.pkl")

    def find_class(self, module: str, name: str):
        if module == "torch" and name in self.STORAGES:
            return self.STORAGES[name]
        allowed = {("collections", "OrderedDict"): OrderedDict, ("torch._utils", "_rebuild_tensor_v2"): self.tensor}
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a checkpoint")
        return allowed[module, name]

    def persistent_load(self, pid: tuple) -> np.ndarray:
        _, kind, key, _, length = pid
        return np.frombuffer(self.archive.read(f"{self.folder}data/{key}"), kind, length)

    @staticmethod
    def tensor(storage: np.ndarray, offset: int, shape: tuple, strides: tuple, *_unused) -> np.ndarray:
        contiguous = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
        if strides != contiguous:
            raise pickle.UnpicklingError(f"a tensor of shape {shape} has the strides {strides}")
        return storage[offset : offset + int(np.prod(shape))].reshape(shape)


class Graph:
    """Builds an ONNX graph node by node; every operation returns the name of its output."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes = []
        self.initializers = []

    def constant(self, value: np.ndarray) -> str:
        name = f"c_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def int(self, value: int) -> str:
        self.initializers.append(helper.make_tensor(f"c_{len(self.initializers)}", TensorProto.INT64, [], [value]))
        return self.initializers[-1].name

    def op(self, kind: str, inputs: list[str], output: str | None = None, **attributes) -> str:
        output = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], name=f"n_{output}", **attributes))
        return output

    def relu(self, x: str) -> str:
        return self.op("Relu", [x])

    def normal(self, path: str) -> tuple[np.ndarray, np.ndarray]:
        """The factor and the addend of a batch normalisation."""
        mean, variance = self.weights[f"{path}.running_mean"], self.weights[f"{path}.running_var"]
        factor = self.weights.get(f"{path}.weight", np.float32(1)) / np.sqrt(variance + np.float32(EPSILON))
        return factor, self.weights.get(f"{path}.bias", np.float32(0)) - mean * factor

    def normalised(self, x: str, path: str) -> str:
        """Batch normalisation of (one, channels, frames), then ReLU."""
        factor, addend = (self.constant(part.reshape(1, -1, 1)) for part in self.normal(path))
        return self.relu(self.op("Add", [self.op("Mul", [x, factor]), addend]))

    def convolved(self, x: str, path: str, normal: str | None = None, **attributes) -> str:
        """Convolution, with the batch normalisation after it folded into its weights."""
        weight, bias = self.weights[f"{path}.weight"], self.weights.get(f"{path}.bias")
        if normal:
            assert bias is None, f"{path} has a bias and a normalisation"
            factor, bias = self.normal(normal)
            weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        inputs = [x, self.constant(weight)] + ([] if bias is None else [self.constant(bias)])
        axes = weight.ndim - 2
        # Not every runtime has the defaults for two axes.
        plain = {"strides": [1] * axes, "dilations": [1] * axes, "pads": [0] * axes * 2}
        return self.op("Conv", inputs, **(plain | attributes))


def residual(graph: Graph, x: str, path: str, stride: int) -> str:
    """Two convolutions over bands and frames, and the way around them."""
    around = {"pads": [1, 1, 1, 1]}
    y = graph.relu(graph.convolved(x, f"{path}.conv1", f"{path}.bn1", strides=[stride, 1], **around))
    y = graph.convolved(y, f"{path}.conv2", f"{path}.bn2", **around)
    if f"{path}.shortcut.0.weight" in graph.weights:
        x = graph.convolved(x, f"{path}.shortcut.0", f"{path}.shortcut.1", strides=[stride, 1])
    return graph.relu(graph.op("Add", [y, x]))


def head(graph: Graph, x: str) -> str:
    """From (one, frames, bands) to (one, channels, frames): convolutions that shrink the bands to an eighth."""
    x = graph.op("Unsqueeze", [graph.op("Transpose", [x], perm=[0, 2, 1]), graph.ints(1)])
    around = {"pads": [1, 1, 1, 1]}
    x = graph.relu(graph.convolved(x, "head.conv1", "head.bn1", **around))
    for layer in ("head.layer1", "head.layer2"):
        x = residual(graph, residual(graph, x, f"{layer}.0", 2), f"{layer}.1", 1)
    x = graph.relu(graph.convolved(x, "head.conv2", "head.bn2", strides=[2, 1], **around))
    channels = graph.weights["head.conv2.weight"].shape[0] * BANDS // 8
    return graph.op("Reshape", [x, graph.ints(0, channels, -1)])


class Context:
    """What a layer's gates are computed from: the mean of a segment plus the mean of all frames. All layers of a
    graph have as many frames, so the weights of these means and the segment of each frame are computed once."""

    def __init__(self, graph: Graph, x: str) -> None:
        frames = graph.op("Gather", [graph.op("Shape", [x]), graph.int(2)])
        length, first, step = graph.int(SEGMENT), graph.int(0), graph.int(1)
        self.segment = graph.op("Div", [graph.op("Range", [first, frames, step]), length])
        rounded_up = graph.op("Add", [frames, graph.int(SEGMENT - 1)])
        segments = graph.op("Range", [first, graph.op("Div", [rounded_up, length]), step])
        of_frame = graph.op("Unsqueeze", [self.segment, graph.ints(1)])
        inside = graph.op("Cast", [graph.op("Equal", [of_frame, segments])], to=TensorProto.FLOAT)
        within = graph.op("Div", [inside, graph.op("ReduceSum", [inside, graph.ints(0)], keepdims=1)])
        count = graph.op("Cast", [frames], to=TensorProto.FLOAT)
        self.weights = graph.op("Add", [within, graph.op("Reciprocal", [count])])


def dense_layer(graph: Graph, x: str, path: str, dilation: int, context: Context) -> str:
    """Adds the channels of one layer, each gated by its context."""
    y = graph.normalised(x, f"{path}.nonlinear1.batchnorm")
    y = graph.relu(graph.convolved(y, f"{path}.linear1", f"{path}.nonlinear2.batchnorm"))
    cam = f"{path}.cam_layer"
    local = graph.convolved(y, f"{cam}.linear_local", pads=[dilation, dilation], dilations=[dilation])
    gate = graph.relu(graph.convolved(graph.op("MatMul", [y, context.weights]), f"{cam}.linear1"))
    gate = graph.op("Sigmoid", [graph.convolved(gate, f"{cam}.linear2")])
    gate = graph.op("Gather", [gate, context.segment], axis=2)
    return graph.op("Concat", [x, graph.op("Mul", [local, gate])], axis=1)


def statistics(graph: Graph, x: str) -> str:
    """From (one, channels, frames) to (one, twice the channels): mean and deviation over the frames."""
    mean = graph.op("ReduceMean", [x], axes=[2], keepdims=1)
    apart = graph.op("Sub", [x, mean])
    squares = graph.op("ReduceSum", [graph.op("Mul", [apart, apart]), graph.ints(2)], keepdims=0)
    frames = graph.op("Gather", [graph.op("Shape", [x]), graph.int(2)])
    others = graph.op("Cast", [graph.op("Sub", [frames, graph.int(1)])], to=TensorProto.FLOAT)
    deviation = graph.op("Sqrt", [graph.op("Div", [squares, others])])
    return graph.op("Concat", [graph.op("Squeeze", [mean, graph.ints(2)]), deviation], axis=1)


def build(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = Graph(weights)
    x = head(graph, "features")
    x = graph.convolved(x, "xvector.tdnn.linear", "xvector.tdnn.nonlinear.batchnorm", pads=[2, 2], strides=[2])
    x = graph.relu(x)
    context = Context(graph, x)
    for number, (layers, dilation) in enumerate(BLOCKS, 1):
        for layer in range(1, layers + 1):
            x = dense_layer(graph, x, f"xvector.block{number}.tdnnd{layer}", dilation, context)
        transit = f"xvector.transit{number}"
        x = graph.convolved(graph.normalised(x, f"{transit}.nonlinear.batchnorm"), f"{transit}.linear")
    x = statistics(graph, graph.normalised(x, "xvector.out_nonlinear.batchnorm"))
    factor, addend = graph.normal("xvector.dense.nonlinear.batchnorm")
    dense = weights["xvector.dense.linear.weight"][:, :, 0] * factor[:, None]
    graph.op("Gemm", [x, graph.constant(dense), graph.constant(addend)], "embedding", transB=1)

    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, [1, "frames", BANDS])
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [1, DIMENSIONS])
    built = helper.make_graph(graph.nodes, "cam-plus-plus", [features], [embedding], graph.initializers)
    return helper.make_model(built, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def main(source: Path, output: Path) -> None:
    with zipfile.ZipFile(source / "cam-plus-plus.pt") as archive:
        model = build(Checkpoint(archive).load())
    onnx.checker.check_model(model, full_check=True)
    output.mkdir(parents=True, exist_ok=True)
    onnx.save(model, output / "model.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
