"""The table of docs/media.md out of a run of all cases, as JUnit XML.

python -m pytest tests/media/test_cases.py -m "not soak" --junit-xml=results.xml
python -m tests.media.table results.xml [more.xml]
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from schemas.containers import suffix_of
from tests.support.cases import Case, cases

_CASE = re.compile(r"\[(\w+)\]$")


def rows(*results: Path) -> list[tuple[str, str]]:
    """(name of the case, its result in words) of each case that ran."""
    found = {}
    for test in (test for path in results for test in ET.parse(path).iter("testcase")):
        name = _CASE.search(test.get("name", ""))
        case = cases().get(name[1]) if name else None
        if case is not None and "test_cases" in test.get("classname", ""):
            found[case.name] = _result(case, test)
    return sorted(found.items())


def _result(case: Case, test: ET.Element) -> str:
    if test.find("failure") is not None or test.find("error") is not None:
        return "**wrong**"
    told = {p.get("name"): p.get("value", "") for p in test.iter("property")}
    if "refused" in told:
        return f"refused: {told['refused']}"
    given = suffix_of(case.file)
    verb = "kept" if given == told["container"] else f"converted to {told['container']}"
    swapped = "" if told["engine"] == "none" else ", faces swapped"
    names = "".join(f", `{name}`" for name in (told["warnings"] or "").split())
    return f"{verb}{swapped}{names}"


def main() -> None:
    print("| case | file | what it shows | result |\n|---|---|---|---|")
    for name, result in rows(*map(Path, sys.argv[1:])):
        case = cases()[name]
        print(f"| {name} | {case.file} | {case.title} | {result} |")


if __name__ == "__main__":
    main()
