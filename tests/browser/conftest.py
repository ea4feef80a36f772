"""A real Chromium with the network off, and pages to open in it."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fullrank as fr
from fullrank.demo import run as run_demo
from fullrank.evaluation import report_on

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync "
    "--no-first-run --hide-scrollbars --disable-dev-shm-usage --proxy-server=127.0.0.1:9"
)


def missing(reason):
    """Skip, or fail where the browser was promised (`.ci/browser`)."""
    if os.environ.get("FULLRANK_BROWSER") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        missing("selenium is not installed: run .ci/browser")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        missing("chromium and chromedriver are not installed: run .ci/browser")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(chromedriver))
    browser.set_page_load_timeout(60)  # below the 120 s after which selenium gives up on the driver altogether
    browser.set_script_timeout(60)
    browser.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    path = Path(os.environ.get("FULLRANK_AXE", ROOT / ".venv/axe/node_modules/axe-core/axe.min.js"))
    if not path.is_file():
        missing(f"axe-core is not at {path}: run .ci/browser, or set FULLRANK_AXE")
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def artifacts():
    folder = Path(os.environ.get("FULLRANK_SCREENSHOTS", ROOT / "artifacts"))
    folder.mkdir(exist_ok=True, parents=True)
    return folder


def true_ranks(rng, shape, cases, n_items):
    return np.minimum(np.exp(rng.gamma(shape, 1.55, size=cases)), n_items).astype(int)


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Pages of every kind: of each verb, and adaptive, exhaustive, hostile, empty ones."""
    folder = tmp_path_factory.mktemp("pages")
    rng, N = np.random.default_rng(1), 20_000
    sampled, adaptive = {}, {}
    design = fr.Adaptive(99, 1599, stop_at=1)
    for name, shape in (("EASE", 3.2), ("ALS, 64 factors", 3.5), ("Popularity", 4.2)):
        θ = (true_ranks(rng, shape, 2000, N) - 1) / (N - 1)
        sampled[name] = fr.RankCounts.from_ranks(1 + rng.binomial(99, θ), N, "uni99")
        m, x = np.full(2000, 99), rng.binomial(99, θ)
        for size in design.stages(N)[1:]:
            more = (x == 0) & (2 * m < size + 2)
            x, m = np.where(more, rng.binomial(size - m, θ), x), np.where(more, size, m)
        adaptive[name] = fr.RankCounts.from_ranks(x + 1, N, design, drawn=m)
    report = report_on(
        adaptive, ["ndcg@10", "recall@20"], provenance={"seed": 1, "data_sha256": "0123456789abcdef" * 4}
    )
    attacks = [
        "<script>hacked=1</script>",
        '"><img src=x onerror=hacked=1>',
        "</style><svg onload=hacked=1>",
        "אבג\u202e <b>",
    ]
    hostile = dict.fromkeys(attacks, sampled["EASE"])
    many = {f"{i:02d} {name}": sampled[name] for i in range(10) for name in sampled}
    users, items = rng.normal(size=(1500, 8)).astype("f4"), rng.normal(size=(4000, 8)).astype("f4")
    liked = (users @ items.T + 3 * rng.gumbel(size=(1500, 4000))).argmax(1)
    split = fr.Split(sp.csr_matrix((1500, 4000)), users=np.arange(1500), items=liked, name="toy")
    noisy = users + rng.normal(size=users.shape).astype("f4")
    wanted = {"design": "adaptive", "precision": 0.1, "progress": False}
    reports = {
        "demo": run_demo(0).corrected,
        "evaluate": fr.evaluate({"BPR": (users, items), "BPR, noisy": (noisy, items)}, split, "ndcg@10", **wanted),
        "compare": fr.compare(sampled, "ndcg@10"),
        "plan": fr.plan(n_items=1_000_000, cases=50_000, metric="ndcg@10", precision=0.02),
        "thirty": report_on(many, ["ndcg@10", "recall@20"], estimator="mle"),
        "correct": report_on(sampled, ["recall@10", "ndcg@10", "auc"]),
        "adaptive": report,
        "exhaustive": fr.correct({"EASE": true_ranks(rng, 3.2, 500, 3000)}, n_items=3000, design="full"),
        "hostile": report_on(hostile, ["recall@10"], provenance=dict(zip(attacks, attacks, strict=True))),
        "empty": fr.Report([]),
    }
    return {name: each.to_html(folder / f"{name}.html") for name, each in reports.items()}
