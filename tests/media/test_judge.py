"""The judge of the cases finds what is wrong, and passes what is right: bad outputs made on purpose."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.media.check import check
from tests.support.cases import cases

pytestmark = pytest.mark.media
X264 = ["-c:v", "libx264", "-preset", "ultrafast", "-crf", "14"]
CODED = [*X264, "-c:a", "copy"]
TICKS = ["-enc_time_base", "-1", "-vsync", "passthrough"]
"""FFmpeg's own default snaps frames to 1 / rate."""


def made(case: str, output: Path, *arguments: str) -> Path:
    """The case through ffmpeg."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-i", str(cases()[case].path), *arguments, str(output)]
    subprocess.run(command, check=True, timeout=30)
    return output


def findings(case: str, output: Path) -> set[str]:
    """What the judge finds wrong, without the numbers."""
    report = check(cases()[case].path, output, cases()[case].flags)
    print(report)
    return {line.partition(":")[0] for line in report.wrong}


@pytest.mark.parametrize("case", ["M00", "M01", "M07", "M09", "M14", "M40", "M44"])
def test_a_careful_transcode_is_right(tmp_path: Path, case: str) -> None:
    output = tmp_path / f"out{cases()[case].path.suffix}"
    assert findings(case, made(case, output, "-map", "0", *CODED, *TICKS)) == set()


def test_fields_in_their_order_are_right(tmp_path: Path) -> None:
    output = made("X50", tmp_path / "out.mp4", *CODED, "-flags", "+ilme+ildct", *TICKS)
    assert findings("X50", output) == set()


def test_a_copy_of_the_file_is_right(tmp_path: Path) -> None:
    assert (
        findings("M62", made("M62", tmp_path / "out.mov", "-map", "0:v", "-map", "0:a", "-c", "copy"))
        == set()
    )


def test_another_picture_inside_the_face_box_is_right(tmp_path: Path) -> None:
    box = "drawbox=x=iw*0.2:y=ih*0.1:w=iw*0.5:h=ih*0.7:color=red:t=fill"
    assert findings("M00", made("M00", tmp_path / "out.mp4", "-vf", box, *CODED)) == set()


@pytest.mark.parametrize(
    ("case", "arguments", "wrong"),
    [
        ("M00", ["-vf", "select='not(eq(n,50))'", "-vsync", "vfr"], "frame count"),
        ("M00", ["-vf", "select='not(eq(n,50))',setpts=N/30/TB"], "frame count"),
        ("M00", ["-vf", "shuffleframes=0 1 2 4 3"], "frame order"),
        ("M00", ["-vf", "setpts=PTS*1.001", *TICKS], "pts shape"),
        ("M00", ["-vf", "hflip"], "frame order"),
        ("M00", ["-vf", "setsar=4/3"], "display shape"),
        ("M00", ["-vf", "scale=out_color_matrix=bt709", "-colorspace", "smpte170m"], "colour patches"),
        ("M00", ["-vf", "scale=out_range=pc", "-color_range", "tv"], "colour patches"),
        ("M00", ["-vf", "drawbox=x=0:y=ih*0.9:w=iw:h=ih/60:color=red:t=fill"], "psnr outside face"),
        ("M00", ["-an"], "audio streams"),
        ("M00", ["-af", "volume=0", "-c:a", "aac"], "audio 0 same sound"),
        ("M00", ["-af", "adelay=8:all=1", "-c:a", "aac"], "audio 0 av_sync"),
        ("M00", ["-af", "asetrate=48096,aresample=48000", "-c:a", "aac"], "audio 0 drift"),
        ("M00", ["-af", "atrim=end=3", "-c:a", "aac"], "audio 0 length"),
        ("M00", ["-af", "pan=stereo|c0=c1|c1=c0", "-c:a", "aac"], "audio 0 channel order"),
        ("M00", ["-ac", "1", "-c:a", "aac"], "audio 0 layout"),
        ("M01", ["-vsync", "cfr", "-r", "30"], "frame count"),
        ("M01", ["-vf", "setpts=N/22/TB", "-vsync", "vfr"], "pts shape"),
        ("M07", ["-vf", "setpts=PTS-STARTPTS"], "audio 0 av_sync"),
        ("M14", ["-map", "0:v", "-map", "0:a:0"], "audio streams"),
        ("M14", ["-map", "0:v", "-map", "0:a:1", "-map", "0:a:0"], "lang"),
        ("M53", ["-pix_fmt", "yuv420p", "-colorspace", "1", "-color_primaries", "1"], "hdr policy"),
        ("M64", ["-map", "0:v", "-map", "0:a", "-map_chapters", "-1"], "chapters"),
        ("M64", ["-map", "0:v", "-map", "0:a", "-map_chapters", "-1"], "subs"),
        ("X50", ["-vf", "setfield=bff", "-flags", "+ilme+ildct"], "field shown first"),
        ("M80", ["-vf", "drawbox=x=iw/3:y=ih/3:w=iw/8:h=ih/8:t=fill"], "face-free frames untouched"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value)[:30],
)  # fmt: skip
def test_what_is_wrong_is_found(tmp_path: Path, case: str, arguments: list[str], wrong: str) -> None:
    output = made(case, tmp_path / f"out{cases()[case].path.suffix}", *CODED, *arguments)
    assert wrong in findings(case, output)


def test_the_tick_is_judged_where_a_millisecond_is_not(tmp_path: Path) -> None:
    """Every second frame 0.4 ms late."""
    late = "settb=1/90000,setpts=PTS+36*mod(N\\,2)"
    mp4 = ["-video_track_timescale", "90000", *TICKS]
    assert findings("M00", made("M00", tmp_path / "out.mp4", *CODED, "-vf", late, *mp4)) == {"ticks"}


def test_a_missing_output_and_one_that_is_no_video_are_found(tmp_path: Path) -> None:
    assert findings("M00", tmp_path / "none.mp4") == {"output exists"}
    (tmp_path / "junk.mp4").write_text("junk")
    assert findings("M00", tmp_path / "junk.mp4") == {"output decodes"}
