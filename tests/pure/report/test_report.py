"""Reports of plans of any kind: data, files, HTML, terminal."""

from __future__ import annotations

import io
import itertools
import json
import stat
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import autoplace.report as report_room
from autoplace.ir import (
    ALL_CPU,
    ALL_GPU,
    CPU,
    GPU,
    MIXED,
    Assignment,
    CostTable,
    Device,
    Edge,
    Event,
    GateResult,
    LayerGraph,
    Machine,
    Plan,
    StepTime,
    Unit,
    UnitCost,
    Verdict,
)
from autoplace.ir.evidence import Decision
from autoplace.report import Report, sentences
from autoplace.testing.strategies import planner_inputs

KEYS = {
    "": "schema model machine choice step_times_ns gate parity units edges probe events advice",
    "model": "name kind parameters batch",
    "gate": "candidate against ratio low high decided",
    "probe": "seconds measured from_cache predicted",
    "units": "path class device reason verdict cost_ns parameters output_shape",
    "edges": "from to bytes crosses",
    "events": "step kind unit action detail",
}


def plan_of(devices: dict[str, Device], **evidence: Any) -> Plan:
    """A chain of dense layers on the given devices."""
    units = tuple(
        Unit(path=path, class_name="Dense", signature=path, output_shapes=((8, 4),))
        for path in devices
    )
    paths = list(devices)
    edges = tuple(
        Edge(source=a, target=b, size_bytes=128, tensor=a) for a, b in itertools.pairwise(paths)
    )
    return Plan(
        graph=LayerGraph(
            model_name="net", model_kind="functional", batch_size=8, units=units, edges=edges
        ),
        units=tuple(
            Assignment(path=path, device=device, reason="why not")
            for path, device in devices.items()
        ),
        **evidence,
    )


def large(units: int) -> Plan:
    """A plan of many units, with costs, verdicts and an event each."""
    devices = {f"block_{n}/conv": (GPU if n % 2 else CPU) for n in range(units)}
    cost = UnitCost(forward_ns=123_456, backward_ns=234_567, update_ns=34_567)
    return plan_of(
        devices,
        costs=CostTable(units={path: {CPU: cost, GPU: cost} for path in devices}),
        verdicts={path: Verdict(state="ok", source="parity") for path in devices},
        events=tuple(
            Event(step=0, kind="pin", unit=path, action="pinned", detail="") for path in devices
        ),
    )


# ------------------------------------------------------------------------------------------ data


@given(planner_inputs(max_units=6))
def test_data_of_any_plan_is_schema_1(drawn: Any) -> None:
    """Exactly the keys of the design, and nothing that JSON could not hold."""
    graph = drawn.graph
    plan = Plan(
        graph=graph,
        units=tuple(
            Assignment(path=unit.path, device=drawn.fixed.get(unit.path, CPU), reason="r")
            for unit in graph.units
        ),
        costs=drawn.costs,
        gate=GateResult(
            candidate=MIXED, against=ALL_CPU, ratio=0.5, low=0.4, high=0.6, decided="faster"
        ),
        events=(Event(step=1, kind="pin", unit="", action="a", detail="d"),),
    )
    data = Report(plan).to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert set(data) == set(KEYS[""].split())
    for key in ("model", "gate", "probe"):
        assert list(data[key]) == KEYS[key].split()
    for key in ("units", "edges", "events"):
        assert all(list(entry) == KEYS[key].split() for entry in data[key])
    assert len(data["units"]) == len(graph.units)
    assert data["advice"] == []
    assert str(Report(plan))
    assert "<table>" in Report(plan)._repr_html_()


def test_costs_are_those_of_a_step() -> None:
    """A shared layer that runs three times costs three times its passes, and one update."""
    unit = Unit(path="shared", class_name="Dense", signature="s", calls=3)
    plan = Plan(
        graph=LayerGraph(model_name="n", model_kind="functional", batch_size=1, units=(unit,)),
        units=(Assignment(path="shared", device=CPU, reason="r"),),
        costs=CostTable(
            units={"shared": {CPU: UnitCost(forward_ns=10, backward_ns=20, update_ns=5)}}
        ),
    )
    costs = Report(plan).to_dict()["units"][0]["cost_ns"]
    assert costs == {"cpu:0": {"forward": 30, "backward": 60, "update": 5, "measured": True}}


def test_crossing_edges_are_marked() -> None:
    """Only the edge between devices crosses, and a tensor with two consumers is one transfer."""
    plan = plan_of({"a": CPU, "b": GPU, "c": GPU})
    assert [edge["crosses"] for edge in Report(plan).to_dict()["edges"]] == [True, False]
    assert "1 tensor of together 128 B cross" in str(Report(plan))


# ------------------------------------------------------------------------------------- sentences


@pytest.mark.parametrize(
    ("chosen", "gate", "sentence"),
    [
        (MIXED, ("mixed", "all-gpu", 0.5, 0.4, 0.8, "faster"), "2.00x faster than all-gpu"),
        (ALL_CPU, ("all-gpu", "all-cpu", 4.0, 3.5, 4.5, "slower"), "4.00x faster than all-gpu"),
        (ALL_CPU, ("mixed", "all-cpu", 0.9, 0.7, 1.2, "no_difference"), "no difference to mixed"),
        (ALL_CPU, ("mixed", "all-cpu", 0.5, 0.4, 0.8, "faster"), "mixed was 2.00x faster"),
        (ALL_GPU, ("mixed", "all-cpu", 0.5, 0.4, 0.8, "faster"), "mixed takes 0.500 of the time"),
    ],
)
def test_summary_says_what_the_gate_found(
    chosen: str, gate: tuple[str, str, float, float, float, Decision], sentence: str
) -> None:
    """Whichever of the two was chosen, and also where neither was."""
    devices = {ALL_CPU: (CPU, CPU), ALL_GPU: (GPU, GPU), MIXED: (CPU, GPU)}[chosen]
    candidate, against, ratio, low, high, decided = gate
    result = GateResult(
        candidate=candidate, against=against, ratio=ratio, low=low, high=high, decided=decided
    )
    summary = sentences.summary(plan_of(dict(zip("ab", devices, strict=True)), gate=result))
    assert summary.startswith(f"{chosen} plan: ")
    assert sentence in summary


def test_simulated_device_is_named_with_its_scale() -> None:
    """Nobody may take simulated times for a chip's."""
    machine = Machine(
        fingerprint={"simulation.profile": "m1", "simulation.scale": "ratio"}, simulated=True
    )
    plan = plan_of({"a": CPU}, machine=machine)
    for shown in (str(Report(plan)), Report(plan)._repr_html_()):
        assert "SIMULATED" in shown
        assert "profile m1; scale ratio" in shown
    assert Report(plan).to_dict()["machine"]["simulated"] is True


def test_sizes_and_counts() -> None:
    """Units that a person reads."""
    assert [sentences.size(n) for n in (0, 1023, 1024, 3 * 2**20 // 2, 2**30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 MiB",
        "1.0 GiB",
    ]
    assert sentences.counted(1, "unit") == "1 unit"
    assert sentences.milliseconds(1_234_567_890) == "1,234.568"


# ------------------------------------------------------------------------------------------ HTML


class Reader(HTMLParser):
    """Checks that tags close in order, and collects them."""

    VOID = frozenset({"meta", "line", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag."""
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember a tag that closes itself."""
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost."""
        assert self.open.pop() == tag


def read(html: str) -> Reader:
    """Parse `html`; every tag has to be closed."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


@pytest.mark.parametrize("is_page", [False, True])
def test_html_is_whole_and_asks_no_network(is_page: bool, tmp_path: Path) -> None:
    """No address, no script; each table has a caption and each header its scope."""
    report = Report(
        plan_of(
            {"a": CPU, "b": GPU},
            step_times={ALL_CPU: StepTime(median_ns=2, low_ns=1, high_ns=3, rounds=6)},
            events=(Event(step=0, kind="k", unit="", action="a", detail="d"),),
        )
    )
    report.to_html(tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text() if is_page else report._repr_html_()
    tags = read(html).seen
    names = [tag for tag, _ in tags]
    assert not {"script", "link", "img", "iframe"} & set(names)
    assert not [a for _, attributes in tags for a in attributes if a in ("src", "href")]
    assert "url(" not in html
    assert "http" not in html
    assert names.count("table") == names.count("caption")
    assert all("scope" in attributes for tag, attributes in tags if tag == "th")
    assert ("html" in names) == is_page


@pytest.mark.parametrize("where", ["path", "reason", "evidence", "event", "model", "machine"])
def test_html_escapes_names(where: str) -> None:
    """Layer names are the user's: none becomes a tag."""
    evil = "<script>alert(1)</script>"
    unit = Unit(path=evil if where == "path" else "u", class_name="Dense", signature="")
    plan = Plan(
        graph=LayerGraph(
            model_name=evil if where == "model" else "net",
            model_kind="functional",
            batch_size=1,
            units=(unit,),
        ),
        units=(Assignment(path=unit.path, device=CPU, reason=evil if where == "reason" else "r"),),
        verdicts={
            unit.path: Verdict(
                state="wrong", source="parity", evidence=evil if where == "evidence" else ""
            )
        },
        machine=Machine(fingerprint={"chip": evil if where == "machine" else "c"}),
        events=(
            Event(step=0, kind="k", unit="u", action="a", detail=evil if where == "event" else "d"),
        ),
    )
    html = Report(plan)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_text_has_no_terminal_codes() -> None:
    """Not even those in a layer's name."""
    plan = plan_of({"red\x1b[31m\nlayer": CPU})
    text = str(Report(plan))
    assert "\x1b" not in text
    assert "red\\x1b[31m\\nlayer" in text


def test_large_plans() -> None:
    """500 units: all of them in the data and in the page, the text says how many it leaves out."""
    report = Report(large(500))
    assert len(report.to_dict()["units"]) == 500
    html = report._repr_html_()
    read(html)
    assert html.count('<th scope="row">block_') == 500
    assert len(html) < 500_000
    assert "420 units more" in str(report)


# -------------------------------------------------------------------------------- files, terminal


def test_files_are_whole_or_absent(tmp_path: Path) -> None:
    """Text paths and Path objects; others may read the file; nothing else is left in the folder."""
    report = Report(plan_of({"a": CPU}))
    report.to_json(str(tmp_path / "r.json"))
    report.to_html(tmp_path / "r.html")
    assert json.loads((tmp_path / "r.json").read_text()) == report.to_dict()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.json"]
    if sys.platform != "win32":
        ordinary = tmp_path / "ordinary"
        ordinary.touch()
        assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == stat.S_IMODE(
            ordinary.stat().st_mode
        )


def test_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """A folder stands where the file should go: the error is the system's, the folder stays."""
    (tmp_path / "r.json").mkdir()
    with pytest.raises(OSError, match=r"r\.json"):
        Report(plan_of({"a": CPU})).to_json(tmp_path / "r.json")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    """Folders are not made behind the user's back."""
    with pytest.raises(FileNotFoundError):
        Report(plan_of({"a": CPU})).to_html(tmp_path / "no" / "r.html")


@given(st.integers(20, 200))
def test_rich_fits_any_width(width: int) -> None:
    """A terminal shows the same as the text, wrapped."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(Report(plan_of({"a[b]": CPU, "b": GPU})))
    shown = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO above
    assert "mixed plan" in " ".join(shown.split())
    assert all(len(line) <= width for line in shown.splitlines())


# ---------------------------------------------------------------------------------------- module


def test_module_is_callable(monkeypatch: pytest.MonkeyPatch) -> None:
    """`autoplace.report(model)` forwards to the function in `autoplace.model`."""
    made = Report(plan_of({"a": CPU}))
    fake = ModuleType("autoplace.model")
    fake.report = lambda model: (model, made)  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "autoplace.model", fake)
    assert report_room("the model") == ("the model", made)  # type: ignore[operator]  # its class is set at import


def test_import_is_light() -> None:
    """The room loads neither rich nor jinja2 nor a framework, and this test would notice."""
    code = (
        "import sys, autoplace.report; {more}"
        "print(sorted({{'rich', 'jinja2', 'keras', 'tensorflow', 'numpy'}} & set(sys.modules)))"
    )
    for more, found in (("", "[]"), ("import jinja2; ", "['jinja2']")):
        done = subprocess.run(
            [sys.executable, "-c", code.format(more=more)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == found
