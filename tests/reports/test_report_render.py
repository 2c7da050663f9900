"""The page and its figures: complete, self-contained, safe, reproducible, for every shape of table."""

from __future__ import annotations

import base64
import html
import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from extractors.foundation.errors import DataError, OutputError
from extractors.foundation.results import tidy
from reports import render_report
from reports.render import render

ROOT = Path(__file__).resolve().parents[2]


class Page(HTMLParser):
    """Tags with their attributes, and the visible text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.hidden = [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.hidden += tag in ("style", "script")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("style", "script")

    def handle_data(self, data):
        if not self.hidden:
            self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def rendered(synthetic, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    path = render_report(
        synthetic.full_table(), costs=synthetic.costs_table(), run=synthetic.run_record(), folder=folder
    )
    return path, path.read_text(encoding="utf-8")


def contents(uri):
    head, _, body = uri.partition(",")
    assert head.endswith(";base64")
    return base64.b64decode(body, validate=True)


def svg_text(content):
    return "".join(ElementTree.fromstring(content).itertext())


def test_every_section_figure_and_definition_is_there(rendered):
    path, text = rendered
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {
        "summary",
        "run",
        "directions",
        "tasks",
        "attention",
        "cost",
        "tables",
        "definitions",
        "reproduce",
        "limits",
    } <= set(ids)
    anchors = [a["href"][1:] for a in page.all("a") if a["href"].startswith("#")]
    assert set(anchors) <= set(ids)
    assert {"def-direction-share-interaction", "def-contextual-share", "def-accuracy", "def-attention-distance"} <= set(
        anchors
    )
    assert {f"figure-{number}" for number in (1, 2, 3, 4)} <= set(ids)
    assert len(list((path.parent / "figures").glob("*.svg"))) == len(page.all("img"))
    for image in page.all("img"):
        assert len(image["alt"]) > 40
        assert any(character.isdigit() for character in image["alt"])


def test_the_embedded_figures_are_the_files(rendered):
    path, text = rendered
    page = Page(text)
    files = {file.read_bytes() for file in (path.parent / "figures").glob("*.svg")}
    assert {contents(image["src"]) for image in page.all("img")} == files
    linked = {a["download"]: contents(a["href"]) for a in page.all("a") if a.get("download", "").endswith(".svg")}
    assert {name: (path.parent / "figures" / name).read_bytes() for name in linked} == linked


def test_downloads_hold_the_table(rendered, synthetic):
    page = Page(rendered[1])
    files = {a["download"]: contents(a["href"]) for a in page.all("a") if "download" in a}
    table = synthetic.full_table()
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(files["results.parquet"])).astype(table.dtypes), table)
    read = pd.read_csv(io.BytesIO(files["results.csv"])).astype(table.dtypes)
    pd.testing.assert_frame_equal(read, table)


def test_nothing_is_fetched_or_run(rendered):
    text = rendered[1]
    page = Page(text)
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            if name in attributes:
                assert attributes[name].startswith(("#", "data:")), attributes[name][:80]
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
    assert not page.all("script")
    assert not page.all("link")
    assert "url(" not in text
    assert "@import" not in text
    (policy,) = [
        meta["content"] for meta in page.all("meta") if "Content-Security-Policy" in meta.get("http-equiv", "")
    ]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_style_hash_admits_the_style(rendered):
    import hashlib

    style = re.search(r"<style>(.*?)</style>", rendered[1], re.S)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in rendered[1].replace("&#39;", "'")


def test_same_table_same_bytes(synthetic, tmp_path):
    first, second = (
        render_report(
            synthetic.small_table(), costs=synthetic.costs_table(), run=synthetic.run_record(), folder=tmp_path / name
        )
        for name in ("a", "b")
    )
    assert first.read_bytes() == second.read_bytes()
    names = sorted(file.name for file in (first.parent / "figures").iterdir())
    assert len(names) == 10
    assert names == sorted(file.name for file in (second.parent / "figures").iterdir())
    for name in names:
        assert (first.parent / "figures" / name).read_bytes() == (second.parent / "figures" / name).read_bytes()


def test_undefined_layer_is_a_marked_gap(rendered):
    path, text = rendered
    (bert,) = (path.parent / "figures").glob("figure-01-*-bert-tiny-*.svg")
    assert "undefined" in svg_text(bert.read_bytes())
    caption = " ".join(html.unescape(re.search(r"(?s)<figcaption>.*?</figcaption>", text)[0]).split())
    assert "a gap, not a zero" in caption
    assert "bert-tiny layer 6: interaction 0.300 [0.288, 0.312]" in caption


def test_caption_numbers_follow_the_table(synthetic):
    table = tidy(synthetic.attention_rows("bert-tiny", 6, 12))
    keep = (table["measure"] == "attention_distance") & (table["head"] == 5) & (table["layer"] == 4)
    table.loc[keep.fillna(False), ["value", "low", "high"]] = [17.25, 17.0, 17.5]
    figures, _ = render(table, costs=None, run={})
    assert "the farthest 17.25 [17.00, 17.50] (layer 4, head 5)" in figures[-1].caption
    assert "71 of 72 heads look nearer" in figures[-1].caption


HOSTILE = {
    "<script>alert(1)</script>": "concatenated",
    "\"quotes\" & 'ticks' $x^2$ \\frac{": "bidirectional",
    "evil\u202egnp.exe \U0001f642\x00": "bidirectional",
    "n" * 300: "bidirectional",
    "n" * 299 + "\x1b": "bidirectional",
}


def test_hostile_names_stay_text(synthetic, tmp_path):
    task = "<img src=x onerror=alert(2)>$\\alpha_{\x00"
    rows = [row for name, kind in HOSTILE.items() for row in synthetic.share_rows(name, kind, 1)]
    rows += [row for name in HOSTILE for row in synthetic.probe_rows(name, 1, (task,))]
    rows += synthetic.attention_rows(next(iter(HOSTILE)), 2, 2) + synthetic.baseline_rows((task,))
    run = synthetic.run_record(HOSTILE)
    run["command"] = "probe run --model '<script>alert(1)</script>'\n--out x"
    run["notes"] = ["</style><b>note</b> \u202e"]
    path = render_report(tidy(rows), costs=None, run=run, folder=tmp_path)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not page.all("script")
    assert not page.all("b")
    assert len(page.all("img")) == len(list((tmp_path / "figures").iterdir()))
    assert not any(character in text for character in "\x00\x1b\u202e")
    shown = "".join(page.text)
    assert "<script>alert(1)</script>" in shown
    assert "⟨U+202E⟩" in shown
    assert "n" * 300 in shown
    drawn = [svg_text(file.read_bytes()) for file in sorted((tmp_path / "figures").iterdir())]
    assert any("<script>alert(1)</script>" in one for one in drawn)
    assert any("$x^2$" in one or "$x…" in one or "frac{" in one for one in drawn)
    assert all(re.fullmatch(r"[a-z0-9.-]+\.svg", file.name) for file in (tmp_path / "figures").iterdir())


@pytest.mark.parametrize(
    ("name", "present", "absent"),
    [
        ("analyses", {"directions"}, {"tasks", "attention", "cost"}),
        ("probes", {"tasks"}, {"directions", "attention", "cost"}),
        ("attention", {"attention"}, {"directions", "tasks", "cost"}),
        ("nothing", set(), {"directions", "tasks", "attention", "cost"}),
    ],
)
def test_parts_of_a_table(synthetic, name, present, absent):
    rows = {
        "analyses": synthetic.share_rows("only", "bidirectional", 3),
        "probes": synthetic.probe_rows("only", 3, ("upos",)),
        "attention": synthetic.attention_rows("only", 2, 3),
        "nothing": [],
    }[name]
    figures, text = render(tidy(rows), costs=None, run={})
    ids = {attributes.get("id") for _, attributes in Page(text).tags}
    assert present <= ids
    assert not absent & ids
    assert {figure.section for figure in figures} == present


def test_many_layers_and_heads(synthetic):
    rows = synthetic.share_rows("deep", "bidirectional", 50) + synthetic.attention_rows("deep", 50, 24)
    figures, _ = render(tidy(rows), costs=None, run={})
    panels = [panel for figure in figures for panel in figure.panels]
    assert len(panels) == 5
    for panel in panels:
        assert len(panel.svg) < 200_000
        ElementTree.fromstring(panel.svg)


def test_baselines_are_labelled_lines(rendered):
    (drawing,) = (rendered[0].parent / "figures").glob("figure-02-01-*.svg")
    text = svg_text(drawing.read_bytes())
    assert "word type 0.830" in text
    assert "majority 0.170, below the axis" in text
    assert "bert-tiny (untrained)" in text


def test_literature_is_never_drawn_as_measured(synthetic):
    rows = synthetic.share_rows("bert-tiny", "bidirectional", 2)
    quoted = [{**row, "model": "quoted", "source": "literature"} for row in rows]
    figures, text = render(tidy(rows + quoted), costs=None, run={})
    assert all("quoted" not in panel.title for figure in figures for panel in figure.panels)
    assert "Rows from the literature" in text


def test_stale_figures_go_and_other_files_stay(synthetic, tmp_path):
    figures = tmp_path / "figures"
    figures.mkdir()
    (figures / "figure-09-01-old.svg").write_text("old")
    (figures / "figure-mine.svg").write_text("mine")
    render_report(tidy(synthetic.share_rows("only", "bidirectional", 2)), costs=None, run={}, folder=tmp_path)
    names = {file.name for file in figures.iterdir()}
    assert "figure-09-01-old.svg" not in names
    assert "figure-mine.svg" in names
    assert not [name for name in names if name.endswith(".part")]


def test_a_foreign_table_is_refused(synthetic, tmp_path):
    with pytest.raises(DataError, match="missing columns \\['head'\\]"):
        render_report(synthetic.full_table().drop(columns="head"), costs=None, run={}, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_is_an_output_error(synthetic, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OutputError):
        render_report(tidy(synthetic.share_rows("m", "b", 1)), costs=None, run={}, folder=blocked)


def test_matplotlib_settings_are_left_alone(synthetic):
    import matplotlib

    render(tidy([]), costs=None, run={})  # seaborn is imported by now
    before = dict(matplotlib.rcParams)
    render(tidy(synthetic.share_rows("m", "b", 1)), costs=None, run={})
    assert dict(matplotlib.rcParams) == before


def test_neither_torch_nor_transformers_is_loaded(tmp_path):
    code = (
        "import sys, importlib.util\n"
        f"spec = importlib.util.spec_from_file_location('s', {str(Path(__file__).with_name('synthetic.py'))!r})\n"
        "s = importlib.util.module_from_spec(spec); spec.loader.exec_module(s)\n"
        "import reports\n"
        "assert 'pandas' not in vars(reports)\n"
        "from pathlib import Path\n"
        f"reports.render_report(s.tidy(s.share_rows('m', 'b', 1)), costs=None, run={{}}, folder=Path({str(tmp_path)!r}))\n"
        "print([m for m in ('torch', 'transformers', 'sklearn', 'studies') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=None, check=True)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""
