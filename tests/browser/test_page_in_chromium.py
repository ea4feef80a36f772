"""The page as people meet it: opened from a file, offline, by mouse, keyboard and screen reader, wide, narrow, on paper."""

import base64
import json
import time

import pytest

pytestmark = pytest.mark.browser

#: The pages of the verbs, then those of other reports.
VERBS = ["correct", "evaluate", "compare", "plan", "demo"]
KINDS = [*VERBS, "adaptive", "exhaustive", "thirty", "hostile", "empty"]


def patiently(action, *arguments, attempts=4):
    """Ask the browser, and again after a pause where it stumbles, as it does now and then on a loaded machine."""
    from selenium.common.exceptions import WebDriverException

    for attempt in range(1, attempts):
        try:
            return action(*arguments)
        except WebDriverException:
            time.sleep(attempt)
    return action(*arguments)


def set_size(driver, width, height):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    patiently(driver.execute_cdp_cmd, "Emulation.setDeviceMetricsOverride", size)


def show(driver, path, width=1400, scheme="light"):
    """Load the page, and return once it is there as a whole."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    patiently(driver.execute_cdp_cmd, "Emulation.setEmulatedMedia", {"media": "screen", "features": features})
    set_size(driver, width, 900)
    driver.get_log("browser")
    driver.get_log("performance")
    patiently(driver.get, path.as_uri())
    patiently(wait_until_drawn, driver)
    assert driver.current_url == path.as_uri()


def wait_until_drawn(driver):
    """Wait for the whole document, then for two frames of it: by the second, the first is on the screen."""
    driver.execute_async_script(
        "const done = arguments[0], frames = () => requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        "if (document.readyState === 'complete') frames(); else addEventListener('load', frames)"
    )


def take_picture(driver, width):
    """Return the whole page as PNG. The page is not loaded again: only its window grows to the page's height."""
    set_size(driver, width, driver.execute_script("return document.documentElement.scrollHeight"))
    wait_until_drawn(driver)
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])


@pytest.mark.parametrize("kind", KINDS)
def test_opens_offline_without_an_error_or_a_request(driver, pages, kind):
    show(driver, pages[kind])
    assert driver.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert pages[kind].as_uri() in asked  # the log does see requests
    assert [url for url in asked if url != pages[kind].as_uri() and not url.startswith("data:")] == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_nothing_in_a_name_runs(driver, pages):
    show(driver, pages["hostile"])
    assert driver.execute_script("return typeof window.hacked") == "undefined"
    forbidden = "script, img, iframe, object, [onload], [onerror]"
    assert driver.execute_script(f"return document.querySelectorAll('{forbidden}').length") == 0
    assert "<script>hacked=1</script>" in driver.find_element("tag name", "main").text  # shown as what it is


@pytest.mark.parametrize(
    ("kind", "least"),
    [
        ("correct", 5),
        ("adaptive", 5),
        ("exhaustive", 5),
        ("evaluate", 4),
        ("demo", 5),
        ("compare", 1),
        ("plan", 1),
        ("thirty", 5),
    ],
)
@pytest.mark.parametrize("width", [360, 1400])
def test_charts_are_there_and_inside_the_page(driver, pages, kind, least, width):
    show(driver, pages[kind], width)
    boxes = driver.execute_script(
        "return [...document.querySelectorAll('figure > svg')].map(s => {"
        " const b = s.getBoundingClientRect();"
        " return [b.left, b.right, b.height, s.querySelectorAll('path, line, text').length] })"
    )
    assert len(boxes) >= least
    for left, right, height, marks in boxes:
        assert 0 <= left < right <= width
        assert right - left > 250
        assert height > 60
        assert marks > 5
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("kind", ["correct", "evaluate", "compare", "demo", "adaptive", "exhaustive"])
def test_tables_of_results_are_not_clipped_and_names_not_torn(driver, pages, kind, width):
    show(driver, pages[kind], width)
    boxes, torn = driver.execute_script(
        "const tables = [...document.querySelectorAll('.scroll > table')]"
        "  .filter(t => !t.classList.contains('pairs') && !t.closest('details'));"
        "const lines = th => { const r = document.createRange(); r.selectNodeContents(th);"
        "  return new Set([...r.getClientRects()].filter(b => b.width > 0).map(b => Math.round(b.top))).size };"
        "return [tables.map(t => [t.parentElement.scrollWidth, t.parentElement.clientWidth]),"
        "  tables.flatMap(t => [...t.querySelectorAll('tbody th')]).filter(th => !th.textContent.trim().includes(' '))"
        "  .filter(th => lines(th) > 2).map(th => th.textContent)]"
    )
    assert boxes
    for inside, seen in boxes:
        assert inside <= seen + 1
    assert torn == []


def test_axes_far_from_zero_begin_near_the_values(driver, pages):
    """AUC of 0.78 to 0.91: the layers of a chart share one axis, and it begins near them."""
    show(driver, pages["correct"])
    ticks = driver.execute_script(
        "return [...document.querySelectorAll('#results figure')].map(f => [f.querySelector('h3').textContent,"
        " [...f.querySelectorAll('svg text')].map(t => t.textContent).filter(t => /^\\d([.]\\d{1,2})?$/.test(t))])"
    )
    assert {name: min(map(float, found)) > 0.6 for name, found in ticks} == {
        "recall@10": False,
        "ndcg@10": False,
        "auc": True,
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_matrix_that_is_cut_off_shows_a_shadow_where_there_is_more(driver, pages, scheme):
    show(driver, pages["thirty"], 360, scheme)
    wide, shadow = driver.execute_script(
        "const box = document.querySelector('table.pairs').parentElement;"
        "return [box.scrollWidth > box.clientWidth + 20, getComputedStyle(box).backgroundImage]"
    )
    assert wide
    assert shadow.count("linear-gradient") == 4


def test_a_legend_names_the_two_bars_of_the_budget(driver, pages):
    show(driver, pages["adaptive"])
    found = driver.execute_script(
        "return [...document.querySelectorAll('#budget figure')].map(f => [...f.querySelectorAll('.legend li')]"
        ".map(l => [l.textContent, getComputedStyle(l.querySelector('.key')).backgroundColor]))"
    )
    assert len(found) == 3
    for legend in found:
        assert [words for words, _ in legend] == ["share of cases", "share of items scored"]
        assert legend[0][1] != legend[1][1]


def test_the_demo_shows_the_truth(driver, pages):
    show(driver, pages["demo"])
    rows = driver.execute_script(
        "return [...document.querySelectorAll('#results tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    heads = driver.execute_script("return [...document.querySelectorAll('#results thead tr')].map(r => r.innerText)")
    assert all("Truth" in head for head in heads)
    assert all(0 < float(row[-1]) < 1 for row in rows)
    assert "truth" in driver.execute_script("return document.querySelector('#results desc').textContent")


def test_bars_and_lines_have_the_colours_of_the_theme(driver, pages):
    seen = {}
    for scheme in ("light", "dark"):
        show(driver, pages["correct"], scheme=scheme)
        seen[scheme] = driver.execute_script(
            "return [getComputedStyle(document.body).backgroundColor,"
            ' ...[...document.querySelectorAll(\'svg [stroke^="var(--s"], svg [fill^="var(--s"]\')]'
            ".map(e => getComputedStyle(e).fill + getComputedStyle(e).stroke)]"
        )
    assert seen["light"][0] == "rgb(255, 255, 255)"
    assert len(seen["light"]) == len(seen["dark"]) > 10
    assert all(a != b for a, b in zip(seen["light"], seen["dark"], strict=True))


def test_text_in_charts_is_readable_on_a_phone(driver, pages):
    show(driver, pages["adaptive"], 360)
    heights = driver.execute_script(
        "return [...document.querySelectorAll('figure svg text')].filter(t => t.textContent.trim())"
        ".map(t => t.getBoundingClientRect().height)"
    )
    assert len(heights) > 50
    assert min(heights) >= 9


@pytest.mark.parametrize("kind", ["adaptive", "thirty", "compare", "evaluate", "demo"])
def test_labels_do_not_overlap(driver, pages, kind):
    show(driver, pages[kind])
    overlaps = driver.execute_script(
        "let bad = [];"
        "for (const svg of document.querySelectorAll('figure svg')) {"
        " const t = [...svg.querySelectorAll('text')].filter(e => e.textContent.trim())"
        "  .map(e => [e.textContent, e.getBoundingClientRect()]);"
        " for (let i = 0; i < t.length; i++) for (let j = i + 1; j < t.length; j++) {"
        "  const a = t[i][1], b = t[j][1], w = Math.min(a.right, b.right) - Math.max(a.left, b.left),"
        "   h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);"
        "  if (w > 2 && h > 5) bad.push([t[i][0], t[j][0], w, h]) } }"
        "return bad"
    )
    assert overlaps == []


def test_the_keyboard_reaches_every_table_of_numbers(driver, pages):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    show(driver, pages["adaptive"])
    wanted = driver.execute_script("return document.querySelectorAll('summary').length")
    assert wanted >= 5
    reached = 0
    for _ in range(200):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        where = driver.execute_script(
            "const e = document.activeElement; if (e.tagName !== 'SUMMARY') return e.tagName;"
            "const outline = getComputedStyle(e).outlineStyle; return e.parentElement.open ? 'OPEN' : 'SUMMARY ' + outline"
        )
        if where == "BODY":
            break
        if where.startswith("SUMMARY"):
            assert where != "SUMMARY none"  # focus can be seen
            ActionChains(driver).send_keys(Keys.ENTER).perform()
            rows, height = driver.execute_script(
                "const t = document.activeElement.parentElement.querySelector('table');"
                "return [t.rows.length, t.getBoundingClientRect().height]"
            )
            assert rows > 1
            assert height > 20
            reached += 1
    assert reached == wanted


def test_tables_hold_what_the_tooltips_say(driver, pages):
    show(driver, pages["correct"])
    figures = driver.execute_script(
        "return [...document.querySelectorAll('#ranks figure')].map(f => ["
        " [...f.querySelectorAll('svg title')].map(t => t.textContent),"
        " [...f.querySelectorAll('tbody tr')].map(r => [...r.cells].map(c => c.textContent))])"
    )
    assert len(figures) == 3
    for titles, rows in figures:
        bars = [title for title in titles if "of cases" in title]
        assert len(bars) == len(rows)
        for title, (rank, share, _) in zip(bars, rows, strict=True):
            assert f"rank {rank}: {share} of cases" in title


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [360, 1400])
def test_axe_finds_nothing(driver, pages, axe, kind, scheme, width):
    show(driver, pages[kind], width, scheme)
    driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    driver.execute_script(axe)
    result = driver.execute_async_script(
        "const done = arguments[0];"
        "axe.run({resultTypes: ['violations']}).then(r => done(r.violations), e => done(String(e)))"
    )
    assert [(v["impact"], v["id"], [n["html"][:200] for n in v["nodes"]][:3]) for v in result] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("kind", [*VERBS, "adaptive", "thirty", "hostile"])
def test_screenshots_are_kept(driver, pages, artifacts, kind, width, scheme):
    show(driver, pages[kind], width, scheme)
    image = patiently(take_picture, driver, width)
    (artifacts / f"report-{kind}-{width}-{scheme}.png").write_bytes(image)
    assert len(image) > 20_000


def test_prints(driver, pages, artifacts):
    show(driver, pages["adaptive"])
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]  # a dark screen must not make dark paper
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": dark})
    pdf = base64.b64decode(patiently(driver.execute_cdp_cmd, "Page.printToPDF", {"preferCSSPageSize": True})["data"])
    (artifacts / "report-adaptive.pdf").write_bytes(pdf)
    assert pdf.startswith(b"%PDF")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert driver.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
