"""Deterministic stand-in ONNX models for the golden tests.

    python -m tests.golden.standins FOLDER [--fixed-batch]

No learned weights: every number comes from geometry, hand-picked constants or a small integer hash, so the
models are the same on every machine (bytes of the files may differ with the version of onnx; results may
not). They keep the file names, tensor names and shapes of the models they stand for, but look for
*painted* faces: a tinted ellipse with five coloured discs
    left eye = red, right eye = green, nose = blue, left mouth corner = yellow, right mouth corner = cyan
(left and right as seen in the picture). Nothing here works on photographs, and nothing here may ever be
shipped in a product; in particular nsfw_1 to nsfw_3 only react to a pure magenta test picture.

The batch axis is symbolic where the graph allows it; with --fixed-batch every batch axis is 1, like in most
published files. Each X.onnx comes with an X.hash: CRC-32 of the file, 8 hexadecimal digits.
"""

import sys
import zlib
from pathlib import Path

from tests.golden import finders, painters

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
ZERO, HALF = ([0.0] * 3, [1.0] * 3), ([0.5] * 3, [0.5] * 3)
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])


def models():
    """Every stand-in as a ModelProto."""
    return [
        finders.yoloface("yoloface_8n"),
        finders.anchor_detector("scrfd_2.5g", 0.98),
        finders.anchor_detector("retinaface_10g", 0.95),
        finders.yunet("yunet_2023_mar"),
        finders.fan4("2dfan4"),
        finders.peppa("peppa_wutz"),
        finders.fan_68_5("fan_68_5"),
        finders.arcface("arcface_w600k_r50"),
        finders.fairface("fairface"),
        painters.swapper("inswapper_128", 128, *ZERO, False, 512, 100, emap=True),
        painters.swapper("hyperswap_1a_256", 256, *HALF, True, 512, 110, extra_mask=True),
        painters.swapper("simswap_256", 256, *IMAGENET, False, 512, 120),
        painters.swapper("simswap_unofficial_512", 512, *ZERO, False, 512, 130),
        painters.swapper("ghost_1_256", 256, *HALF, True, 512, 140, scale=0.12),
        painters.swapper("hififace_unofficial_256", 256, *HALF, True, 512, 150),
        painters.swapper("blendswap_256", 256, *ZERO, False, 112, 160),
        painters.swapper("uniface_256", 256, *HALF, True, 256, 170),
        painters.converter("crossface_simswap", 200),
        painters.converter("crossface_ghost", 210),
        painters.converter("crossface_hififace", 220),
        painters.enhancer("gfpgan_1.4", 512, 300),
        painters.enhancer("codeformer", 512, 310, weight=True),
        painters.enhancer("gpen_bfr_256", 256, 320),
        painters.xseg("xseg_1", 5.0, 4.9, 5),
        painters.xseg("xseg_2", 3.0, 3.1, 9),
        painters.xseg("xseg_3", 6.0, 5.6, 3),
        painters.bisenet("bisenet_resnet_34", 400),
        painters.bisenet("bisenet_resnet_18", 430),
        painters.nsfw("nsfw_1", 640, *ZERO, 9),
        painters.nsfw("nsfw_2", 384, *HALF, 2),
        painters.nsfw("nsfw_3", 448, *CLIP, 4),
    ]


def build(folder: Path, *, fixed_batch: bool = False) -> Path:
    """Write all stand-ins into a folder; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for model in models():
        if fixed_batch:
            for value in (*model.graph.input, *model.graph.output):
                for axis in value.type.tensor_type.shape.dim:
                    if axis.dim_param == "N":
                        axis.dim_value = 1
        data = model.SerializeToString(deterministic=True)
        (folder / f"{model.graph.name}.onnx").write_bytes(data)
        (folder / f"{model.graph.name}.hash").write_text(f"{zlib.crc32(data):08x}")
    return folder


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if not word.startswith("-")]
    if len(arguments) != 1:
        sys.exit(__doc__)
    build(Path(arguments[0]), fixed_batch="--fixed-batch" in sys.argv)
