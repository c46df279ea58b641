"""Files for the fuzzer that the case log has none of: small, and byte for byte the same each time."""

from __future__ import annotations

import subprocess
from pathlib import Path

from PIL import Image

from tests.support.media import picture

CLIPS: dict[str, list[str]] = {
    "theora.ogv": ["-c:v", "libtheora", "-q:v", "5", "-c:a", "libvorbis"],
    "sorenson.flv": ["-c:v", "flv1", "-c:a", "adpcm_swf"],
    "mpeg1.mpg": ["-c:v", "mpeg1video", "-bf", "2", "-c:a", "mp2"],
    "mpeg2.m2ts": ["-c:v", "mpeg2video", "-bf", "2", "-c:a", "ac3", "-mpegts_m2ts_mode", "1"],
}
STILLS = ("still.png", "still.jpg", "still.webp", "moving.webp", "moving.png")
NAMES = (*CLIPS, *STILLS)


def make_bases(folder: Path) -> dict[str, Path]:
    """{name: path} of NAMES."""
    images = [Image.fromarray(picture(number, 96, 64)) for number in range(8)]
    for name in STILLS:
        if name.startswith("moving"):
            images[0].save(folder / name, save_all=True, append_images=images[1:], duration=80)
        else:
            images[0].save(folder / name)
    for name, codecs in CLIPS.items():
        given = ["-f", "lavfi", "-i", "testsrc=s=160x128:r=25:d=2", "-f", "lavfi", "-i", "sine=r=22050:d=2"]
        plain = ["-threads", "1", "-fflags", "+bitexact", "-flags", "+bitexact", "-ac", "2"]
        command = ["ffmpeg", "-nostdin", "-v", "error", *given, *codecs, *plain, folder / name]
        subprocess.run(command, check=True)
    return {name: folder / name for name in NAMES}
