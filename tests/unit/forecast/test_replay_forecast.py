"""`osmo replay --forecast`: what is forecast and scored, and that nothing of the future is known."""

from __future__ import annotations

import csv
import json
import random
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import yaml
from typer.testing import CliRunner

from osmo_admin.cli.client import app
from scheduling.history.forecast.forecaster import Forecaster
from scheduling.history.forecast.scoring import ScoredForecast
from scheduling.history.traces.calibration_plot import observed_shares
from scheduling.history.traces.faults import ReplayFault
from scheduling.history.traces.run import ReplayRequest, replay
from tests.support.nightly_parts import samples

KEYS = [
    "asked", "scored", "bursts", "coverage_80", "coverage_80_of_bursts", "pinball", "pinball_baseline", "by_depth",
    "median_abs_error_s", "ms_per_forecast",
]  # fmt: skip


@pytest.fixture
def files(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    queues = [{"name": name, "parent": "all", "quota": 4} for name in ("a", "b")]
    nodes = [{"name": f"n{i}", "gpus": 4} for i in range(2)]
    cluster.write_text(yaml.safe_dump({"nodes": nodes, "cohorts": [{"name": "all"}], "queues": queues}))
    return tmp_path


def make_trace(seed=5, jobs=60):
    pick, rows, time = random.Random(seed), [], 0
    for _ in range(jobs):
        rows.append([time, pick.choice([20, 60, 61, 300]), pick.choice([1, 1, 2, 4]), pick.choice("ab")])
        time += pick.choice([0, 1, 5, 30])
    return rows


def write_trace(folder, rows):
    text = "\n".join(["submit_time,duration_s,gpus,team", *(",".join(map(str, row)) for row in rows)])
    (folder / "trace.csv").write_text(text + "\n")
    return ReplayRequest(str(folder / "trace.csv"), str(folder / "cluster.yaml"), runs=str(folder / "runs.csv"))


class Recorder(Forecaster):
    def __init__(self):
        super().__init__(futures=3)
        self.made = []

    def waits(self, clock, live):
        super().waits(clock, live)
        forecast = self._open[live.name]
        self.made.append((clock.now / 1e6, live.job.id, tuple(forecast.quantiles), tuple(forecast.baseline)))


def forecasts(folder, rows):
    recorder = Recorder()
    replay(write_trace(folder, rows), observers=lambda _facts: [recorder])
    return recorder


def read_runs(folder):
    with (folder / "runs.csv").open() as lines:
        return [row for row in csv.DictReader(lines) if row["attempt"] == "1"]


def test_the_answer_has_the_scores_of_exactly_the_jobs_that_waited(files):
    request = write_trace(files, make_trace())
    words = ["replay", request.trace, "--on", request.on, "--runs", request.runs, "--forecast", "-o", "json"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["forecast"]
    assert list(found) == KEYS
    waited = [row for row in read_runs(files) if float(row["start"]) > float(row["submit"])]
    assert found["asked"] == len(waited) > 10
    assert 0 <= found["coverage_80"] <= 1


def test_a_table_tells_the_scores(files):
    request = write_trace(files, make_trace(jobs=40))
    words = ["replay", request.trace, "--on", request.on, "--forecast"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "Starts inside their 80 %" in result.output


def test_the_losses_are_those_that_a_separate_program_computes(files):
    recorder = forecasts(files, make_trace())
    rows = read_runs(files)
    wait_of = {int(row["job"]): float(row["start"]) - float(row["submit"]) for row in rows}

    def loss(quantiles, wait):
        return (
            sum(max(q * (wait - f), (q - 1) * (wait - f)) for q, f in zip((0.1, 0.5, 0.9), quantiles, strict=True)) / 3
        )

    made = recorder.made
    summary = recorder.summary()
    assert summary["pinball"] == pytest.approx(sum(loss(q, wait_of[job]) for _t, job, q, _b in made) / len(made))
    assert summary["pinball_baseline"] == pytest.approx(
        sum(loss(b, wait_of[job]) for _t, job, _q, b in made) / len(made)
    )
    inside = [q[0] <= wait_of[job] <= q[2] for _t, job, q, _b in made]
    assert summary["coverage_80"] == pytest.approx(sum(inside) / len(inside))
    parts = [part for part in summary["by_depth"] if part["scored"]]
    assert sum(part["scored"] for part in parts) == summary["asked"]
    of_depths = sum(part["scored"] * part["coverage_80"] for part in parts)
    assert of_depths / summary["asked"] == pytest.approx(summary["coverage_80"])
    assert len(parts) > 2


@pytest.mark.parametrize("seed", samples([1], [2, 3]))
def test_nothing_of_the_future_is_known(files, seed):
    """What runs at an instant may end at any later time, and any work may come: the forecasts up to then stay."""
    rows = make_trace(seed)
    before = forecasts(files, rows).made
    at = before[len(before) // 2][0]
    ended = {int(row["job"]) for row in read_runs(files) if float(row["end"]) <= at}
    other = [
        [submit, duration if number in ended else 4000 + number, gpus, team]
        for number, (submit, duration, gpus, team) in enumerate(rows, 1)
        if submit <= at
    ]
    after = forecasts(files, [*other, [at + 1, 7, 8, "a"]]).made
    known = [each for each in before if each[0] <= at]
    assert [each for each in after if each[0] <= at] == known
    assert len(known) > 5


def test_a_replay_gives_the_same_with_and_without_forecasts(files):
    rows = make_trace(4)
    plain = replay(write_trace(files, rows))
    runs = (files / "runs.csv").read_text()
    forecasts(files, rows)
    assert (files / "runs.csv").read_text() == runs
    assert plain["summary"]["jobs"] == len(rows)


def test_scores_since_a_time_leave_out_earlier_jobs(files):
    whole = replay(replace(write_trace(files, make_trace()), forecast=True))["forecast"]
    request = replace(write_trace(files, make_trace()), forecast=True, score_since="300")
    later = replay(request)["forecast"]
    assert 0 < later["asked"] < whole["asked"]
    assert replay(replace(request, score_since="0"))["forecast"]["pinball"] == whole["pinball"]
    with pytest.raises(ReplayFault, match="is not a number of seconds"):
        replay(replace(request, score_since="soon"))


def test_the_plot_of_calibration_is_an_svg_with_a_line_of_all_forecasts(files):
    plot = files / "plot.svg"
    request = replace(write_trace(files, make_trace()), forecast=True, calibration=str(plot))
    count = replay(request)["forecast"]["asked"]
    root = ElementTree.fromstring(plot.read_text())
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert f"{count:,} forecasts" in texts
    lines = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert lines[0] == "all"
    assert len(lines) > 1


def test_observed_shares_are_exact_on_the_quantiles_and_between_them():
    quantiles = (90.0, 990.0, 9990.0)  # 2, 3 and 4 as logarithms to base 10 with the grain of ten seconds
    waits = (0.0, 90.0, 306.0, 307.0, 990.0, 3151.0, 3153.0, 9990.0, 10**6, 10**7)
    shares = observed_shares([ScoredForecast(quantiles, wait) for wait in waits])
    assert (shares[0], shares[2], shares[4], shares[6], shares[8]) == (0.2, 0.3, 0.5, 0.6, 0.8)


@pytest.mark.parametrize("option", ["--score-since", "--calibration"])
def test_options_about_forecasts_need_forecasts(files, option):
    request = write_trace(files, make_trace())
    result = CliRunner().invoke(app, ["replay", request.trace, "--on", request.on, option, "0"])
    assert result.exit_code != 0
    assert "add --forecast" in result.output


def test_one_set_of_futures_answers_for_all_queues_that_wait(files):
    """Both teams have waiting work when the futures are made; each reads the waits of its own queue."""
    rows = [*([0, 3000, 4, team] for team in "ab"), *([5, 60, gpus, team] for team in "ab" for gpus in (1, 2))]
    recorder = forecasts(files, rows)
    assert (recorder.sets_made, recorder.summary()["asked"]) == (1, 4)
