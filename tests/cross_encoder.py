"""A cross-encoder of a few nodes, in fastembed's layout."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
VOCABULARY = ("red", "roses", "sun", "moss", "shade", "paint", "in", "the", "need", "and")


def build_cross_encoder(folder: Path) -> Path:
    """Write the model: logit = 2 * (pairs of equal known words of query and text) - 3."""
    (folder / "onnx").mkdir(parents=True)
    onnx.save(_graph(), folder / "onnx" / "model.onnx")
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *VOCABULARY))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": 128, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    return folder


def _graph() -> onnx.ModelProto:
    names = ("input_ids", "attention_mask", "token_type_ids")
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in names
    ]
    out = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])
    constants = {
        "special": np.array(len(SPECIAL) - 1),
        "one": np.array(1),
        "axis_1": np.array([1]),
        "axis_2": np.array([2]),
        "axes": np.array([1, 2]),
        "two": np.array(2, np.float32),
        "three": np.array(3, np.float32),
    }
    node = helper.make_node
    nodes = [
        node("Greater", ["input_ids", "special"], ["word"]),
        node("Equal", ["token_type_ids", "one"], ["second"]),
        node("Not", ["second"], ["first"]),
        node("And", ["word", "first"], ["asked"]),
        node("And", ["word", "second"], ["told"]),
        node("Unsqueeze", ["input_ids", "axis_2"], ["rows"]),
        node("Unsqueeze", ["input_ids", "axis_1"], ["columns"]),
        node("Equal", ["rows", "columns"], ["equal"]),
        node("Unsqueeze", ["asked", "axis_2"], ["asked_rows"]),
        node("Unsqueeze", ["told", "axis_1"], ["told_columns"]),
        node("And", ["asked_rows", "told_columns"], ["across"]),
        node("And", ["equal", "across"], ["shared"]),
        node("Cast", ["shared"], ["ones"], to=TensorProto.FLOAT),
        node("ReduceSum", ["ones", "axes"], ["count"], keepdims=0),
        node("Mul", ["count", "two"], ["twice"]),
        node("Sub", ["twice", "three"], ["logit"]),
        node("Unsqueeze", ["logit", "axis_1"], ["logits"]),
    ]
    tensors = [
        numpy_helper.from_array(
            value if value.dtype == np.float32 else value.astype(np.int64), name
        )
        for name, value in constants.items()
    ]
    graph = helper.make_graph(nodes, "overlap", inputs, [out], tensors)
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model
