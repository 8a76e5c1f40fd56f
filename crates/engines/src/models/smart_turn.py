# Converts the published Smart Turn v3.2 to a graph that runtimes other than ONNX Runtime load too;
# running it twice gives the same bytes. One quantised bias has a scale of one element and a zero
# point without dimensions, although the standard requires the same shape: here both have none.
"""Usage: smart_turn.py SOURCE_FOLDER OUTPUT_FOLDER

SOURCE_FOLDER holds smart-turn.onnx; OUTPUT_FOLDER gets model.onnx.
"""

import sys
from pathlib import Path

import onnx


def main(source: Path, output: Path) -> None:
    model = onnx.load(source / "smart-turn.onnx")
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear" or len(node.input) < 3:
            continue
        scale, zero_point = tensors.get(node.input[1]), tensors.get(node.input[2])
        if scale and zero_point and list(scale.dims) == [1] and not zero_point.dims:
            del scale.dims[:]
    onnx.checker.check_model(model)
    output.mkdir(parents=True, exist_ok=True)
    onnx.save(model, output / "model.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
