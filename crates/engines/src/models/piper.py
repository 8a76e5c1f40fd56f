# Converts a Piper voice (ONNX plus its JSON) to the files that sherpa-onnx loads: the same network
# with sherpa's metadata, and a token table. Nothing is trained or re-quantised here; running it
# twice gives the same bytes.
"""Usage: piper.py SOURCE_FOLDER OUTPUT_FOLDER

SOURCE_FOLDER holds voice.onnx and voice.json; OUTPUT_FOLDER gets model.onnx and tokens.txt.
"""

import json
import sys
from pathlib import Path

import onnx


def metadata(config: dict) -> dict[str, str]:
    """The keys that sherpa-onnx reads from a VITS model of Piper's kind."""
    return {
        "model_type": "vits",
        "comment": "piper",
        "language": config["language"]["name_english"],
        "voice": config["espeak"]["voice"],
        "has_espeak": "1",
        "n_speakers": str(config["num_speakers"]),
        "sample_rate": str(config["audio"]["sample_rate"]),
    }


def token_lines(config: dict) -> list[str]:
    """One `symbol id` line per phoneme; Piper maps each symbol to a list whose first entry is the id."""
    table = config["phoneme_id_map"].items()
    return [f"{symbol} {ids[0]}\n" for symbol, ids in table if symbol != "\n"]


def main(source: Path, output: Path) -> None:
    config = json.loads((source / "voice.json").read_text(encoding="utf-8"))
    model = onnx.load(source / "voice.onnx")
    for key, value in metadata(config).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    output.mkdir(parents=True, exist_ok=True)
    onnx.save(model, output / "model.onnx")
    (output / "tokens.txt").write_text("".join(token_lines(config)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
