"""The page's own parts."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from importlib.resources import files
from pathlib import Path

from rewake.report import assets

UPLOT = {
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_the_chart_library_is_the_released_one() -> None:
    directory = files("rewake.report").joinpath("assets", "uplot")
    found = {
        item.name: hashlib.sha256(item.read_bytes()).hexdigest() for item in directory.iterdir()
    }
    assert found == UPLOT


def test_every_module_is_in_the_bundle_once_and_none_of_its_imports() -> None:
    modules = files("rewake.report").joinpath("assets", "js")
    bundle = assets.bundle()
    for item in modules.iterdir():
        first = item.read_text("utf-8").split("\n")[0]
        assert bundle.count(first) == 1, item.name
    assert re.search(r"^(?:import|export)\b", bundle, re.MULTILINE) is None


def test_no_two_modules_use_one_name_since_they_share_a_scope() -> None:
    names = re.findall(
        r"^(?:async )?(?:const|let|function|class) (\w+)", assets.bundle(), re.MULTILINE
    )
    assert len(names) == len(set(names))


def test_nothing_in_a_script_or_a_style_ends_its_element() -> None:
    parts = assets.assets()
    for text in (*parts.scripts, *parts.styles):
        assert "</" not in re.sub(r"</(?!script|style)", "", text, flags=re.IGNORECASE)
        assert "<!--" not in text


def test_no_script_makes_markup_of_text() -> None:
    making = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|DOMParser"
    )
    for script in assets.assets().scripts:
        assert making.search(script) is None


def test_the_wheel_has_the_assets(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, capture_output=True, check=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"rewake/report/assets/uplot/{name}" for name in UPLOT} <= names
    assert {"rewake/report/assets/page.css", "rewake/report/assets/js/app.js"} <= names
