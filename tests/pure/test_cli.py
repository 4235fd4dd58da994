"""The command line: what it takes, where it writes, how it ends. The run itself is faked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autoplace import cli
from autoplace.commands import asked_model
from autoplace.demo import run as run_module
from autoplace.demo.results import CPU_ARM, PLAN_ARM, Result
from autoplace.demo.run import Settings
from autoplace.errors import MissingExtraError, UnknownSimulationError
from autoplace.ir import CPU, Assignment, LayerGraph, Plan, Unit
from autoplace.report import Report
from autoplace.sim import kernel_tables, timing_profiles

Fake = Callable[..., list[Settings]]


def one_result(name: str, loss: float) -> Result:
    """A result without an accelerator."""
    unit = Unit(path="dense", class_name="Dense", signature="s")
    plan = Plan(
        graph=LayerGraph(model_name=name, model_kind="functional", batch_size=9, units=(unit,)),
        units=(Assignment(path="dense", device=CPU, reason="here"),),
    )
    return Result(
        name=name,
        batch=9,
        report=Report(plan),
        losses={CPU_ARM: 1.0, PLAN_ARM: loss},
        samples_ns={CPU_ARM: [10] * 8, PLAN_ARM: [10] * 8},
    )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Replace the run; return the settings that it got."""

    def install(*, loss: float = 1.0, error: Exception | None = None) -> list[Settings]:
        asked: list[Settings] = []

        def run(settings: Settings, say: Callable[[str], None]) -> Sequence[Result]:
            asked.append(settings)
            say("running on nothing")
            if error is not None:
                raise error
            return [one_result(name, loss) for name in settings.models]

        monkeypatch.setattr(run_module, "run", run)
        return asked

    return install


def call(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr."""
    done = CliRunner().invoke(cli.app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def test_defaults(fake: Fake, tmp_path: Path) -> None:
    """All models, a table on stdout, messages on stderr, two files."""
    asked = fake()
    code, out, messages = call("demo", "--out", str(tmp_path))
    assert code == 0
    assert asked == [Settings()]
    assert "three_inputs" in out
    assert "running" not in out
    assert "running on nothing" in messages
    assert "\x1b" not in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_json_is_alone_on_stdout(fake: Fake, tmp_path: Path) -> None:
    """What is printed is what is written."""
    fake()
    code, out, _ = call("demo", "--json", "--out", str(tmp_path))
    assert code == 0
    assert json.loads(out) == json.loads((tmp_path / "report.json").read_text())
    assert list(json.loads(out)["models"]) == ["dnn9", "three_inputs", "crnn"]


@pytest.mark.parametrize(
    ("arguments", "models"),
    [
        (("--models", "crnn"), ("crnn",)),
        (("--models", "crnn,dnn9"), ("crnn", "dnn9")),
        (("--models", "crnn", "--models", "dnn9, crnn"), ("crnn", "dnn9")),
    ],
)
def test_models(
    fake: Fake, tmp_path: Path, arguments: tuple[str, ...], models: tuple[str, ...]
) -> None:
    """Repeated, by commas, each once."""
    asked = fake()
    assert call("demo", *arguments, "--out", str(tmp_path))[0] == 0
    assert asked[0].models == models


def test_options(fake: Fake, tmp_path: Path) -> None:
    """All of them reach the run."""
    asked = fake()
    arguments = ("--sim", "m1", "--epochs", "1", "--small", "--out", str(tmp_path))
    assert call("demo", *arguments)[0] == 0
    assert call("demo", "--no-sim", "--out", str(tmp_path))[0] == 0
    assert asked == [Settings(profile="m1", epochs=1, is_small=True), Settings(may_simulate=False)]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--models", "resnet"),
        ("--models", ","),
        ("--sim", "m1", "--no-sim"),
        ("--epochs", "0"),
        ("--unknown",),
    ],
)
def test_wrong_usage(fake: Fake, arguments: tuple[str, ...]) -> None:
    """Exit code 2, nothing on stdout, nothing run."""
    asked = fake()
    code, out, messages = call("demo", *arguments)
    assert (code, out, asked) == (2, "", [])
    assert messages


def test_wrong_losses_are_findings(fake: Fake, tmp_path: Path) -> None:
    """Exit code 1, and a sentence on stderr; the files are there all the same."""
    fake(loss=2.0)
    code, out, messages = call("demo", "--models", "dnn9", "--json", "--out", str(tmp_path))
    assert code == 1
    assert "dnn9: the final loss is off by 100.00%" in messages
    assert json.loads(out)["schema"] == 1


@pytest.mark.parametrize(
    ("kind", "code"), [(MissingExtraError, 1), (UnknownSimulationError, 2)], ids=str
)
def test_errors_are_messages(
    fake: Fake, tmp_path: Path, kind: type[MissingExtraError], code: int
) -> None:
    """The four parts on stderr, no traceback unless it is asked for."""
    fake(error=kind("what", expected="this", received="that", fix="so"))
    for debug in ((), ("--debug",)):
        got, out, messages = call("demo", "--out", str(tmp_path), *debug)
        assert (got, out) == (code, "")
        assert f"{kind.code}: what\n  Expected: this\n  Received: that\n  Fix: so" in messages
        assert ("Traceback" in messages) == bool(debug)


def test_unexpected_errors_say_how_to_see_more(fake: Fake, tmp_path: Path) -> None:
    """No traceback, but the way to it."""
    fake(error=ZeroDivisionError("oh"))
    code, _, messages = call("demo", "--out", str(tmp_path))
    assert code == 1
    assert messages.endswith("ZeroDivisionError: oh\n  Fix: --debug shows where it happened\n")


def test_folder_that_cannot_be_made(fake: Fake, tmp_path: Path) -> None:
    """A file in the way is a message."""
    fake()
    (tmp_path / "file").touch()
    code, out, messages = call("demo", "--models", "dnn9", "--out", str(tmp_path / "file" / "sub"))
    assert (code, out) == (1, "")
    assert "Traceback" not in messages


def test_help() -> None:
    """Without arguments and with --help."""
    assert "demo" in call("--help")[1]
    assert "--no-sim" in call("demo", "--help")[1]


def test_defaults_are_those_of_the_simulator() -> None:
    """Written down twice, so that no command line waits for its import."""
    assert asked_model.TARGET == kernel_tables.NEWEST
    assert asked_model.PROFILE == timing_profiles.DEFAULT


def test_plan_of_a_file_that_is_not_there() -> None:
    code, _, messages = call("plan", "nowhere.keras")
    assert code == 2
    assert "nowhere.keras" in messages


# ---------------------------------------------------------------------------------------- rules


MINE = """
schema = 1

[[rule]]
id = "{identity}"
title = "My layer is wrong"
kind = "wrong_result"
probe = "parity"
action = "pin_cpu"
remedy = "Leave it on the CPU."
confidence = "{confidence}"
evidence = ["file:my own report"]

[rule.match]
layers = ["MyLayer"]
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A valid rules file that takes the place of one of ours."""
    path = tmp_path / "mine.toml"
    path.write_text(MINE.format(identity="AP-R001", confidence="high"))
    return path


def test_rules_list_by_kind() -> None:
    """As JSON and as a table, and only the kind that is asked for."""
    code, out, _ = call("rules", "list", "--kind", "wrong_result", "--json")
    found = json.loads(out)
    assert code == 0
    assert {rule["kind"] for rule in found} == {"wrong_result"}
    assert "AP-R001" in {rule["id"] for rule in found}
    assert len(json.loads(call("rules", "list", "--json")[1])) > len(found)
    code, out, messages = call("rules", "list", "--kind", "wrong_result")
    assert (code, messages) == (0, "")
    assert "AP-R001" in out


def test_rules_show_has_the_evidence() -> None:
    """One rule, whole."""
    code, out, _ = call("rules", "show", "AP-R001", "--json")
    assert code == 0
    assert "tensorflow/tensorflow#62137" in json.loads(out)["evidence"]
    assert "tensorflow/tensorflow#62137" in call("rules", "show", "AP-R001")[1]


def test_a_rule_that_is_not_there() -> None:
    """AP605 on stderr, nothing on stdout."""
    code, out, messages = call("rules", "show", "AP-R999")
    assert (code == 0, out) == (False, "")
    assert "AP605" in messages
    assert "Traceback" not in messages


def test_an_unknown_kind_of_rule() -> None:
    code, out, messages = call("rules", "list", "--kind", "sad")
    assert (code, out) == (2, "")
    assert "wrong_result" in messages


def test_own_rules_replace_ours(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By --file, and by the environment."""
    shown = json.loads(call("rules", "show", "AP-R001", "--file", str(mine), "--json")[1])
    assert shown["title"] == "My layer is wrong"
    monkeypatch.setenv("AUTOPLACE_RULES", str(mine))
    assert json.loads(call("rules", "show", "AP-R001", "--json")[1]) == shown


def test_rules_check(mine: Path, tmp_path: Path) -> None:
    """Exit code 1 as soon as one file is not valid; each file is told of."""
    code, out, _ = call("rules", "check", str(mine))
    assert code == 0
    assert "1 rules, in place of AP-R001" in out
    broken = tmp_path / "broken.toml"
    broken.write_text(MINE.format(identity="X-1", confidence="very"))
    code, out, messages = call("rules", "check", str(mine), str(broken))
    assert code == 1
    assert "in place of" in out
    assert "AP603" in messages
    assert "confidence" in messages
    entries = json.loads(call("rules", "check", str(mine), str(broken), "--json")[1])
    assert [entry["valid"] for entry in entries] == [True, False]
