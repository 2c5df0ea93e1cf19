"""The dashboard, live: headless Chromium on the page of a real daemon, with load by fio.

    dashboard.py [--screenshots FOLDER] [CHECK...]

IOPACE_BIN is the program. Needs chromium, chromedriver and python3-selenium (make setup). One line
per check; ends with 1 if one failed. A figure that load is to show, and that was not seen, is missed
(figures.py). Without names, all checks are made, in order.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

from selenium.webdriver.common.keys import Keys

from figures import figure as said
from browser import OUTAGE, REFUSED, Daemon, Figure, Page, answer, figure, finish


def token(daemon, page):
    """The form asks for the token, refuses a wrong one, and takes the right one."""
    page.js("sessionStorage.clear()")
    page.browser.get(f"http://127.0.0.1:{daemon.port}/?new")
    page.wait("the form", lambda: page.id("login").is_displayed())
    page.quiet()
    page.id("token").send_keys("wrong", Keys.ENTER)
    page.wait("a refusal", lambda: "token" in page.id("login-message").text)
    page.quiet(REFUSED)
    page.id("token").send_keys(daemon.token, Keys.ENTER)
    page.wait_live()


def address(daemon, page):
    """A token in the address is taken out of it, and outlives a reload."""
    page.js("sessionStorage.clear()")
    page.browser.get("about:blank")
    page.browser.get(daemon.url)
    page.wait_live()
    assert "token" not in page.browser.current_url, page.browser.current_url
    page.browser.refresh()
    page.wait_live()


def idle(daemon, page):
    """Without load the page says how to make some."""
    code = page.id("empty-code")
    page.wait("a command", code.is_displayed)
    assert "nbd+unix:///web" in code.text, code.text
    page.screenshot("idle")


def charts(daemon, page):
    """Charts move under load, and the numbers are those of fio, about."""
    picture = "return document.querySelector('#chart-bandwidth canvas').toDataURL()"
    load = daemon.fio(["web", "db"], 12)
    tile = "return document.querySelector('#tiles .big').textContent"
    page.see("a read rate", load, lambda: re.match(r"[1-9].* MiB/s", page.js(tile)))
    before = page.js(picture)
    page.see("another picture", load, lambda: page.js(picture) != before)
    legend = lambda: page.id("chart-bandwidth").text
    page.see("both groups", load, lambda: "/vms/web" in legend() and "/vms/db" in legend())
    page.see("a reason", load, lambda: "%" in page.id("why-rows").text)
    busy(page, load)
    page.screenshot("light")
    seen = []
    while load.poll() is None:
        seen.append(mib_s(page.js(tile)))
        time.sleep(0.5)
    measured = sum(finish(load).values())
    far = [shown for shown in seen if not measured / 2 < shown < measured * 2]
    # The first and the last second are not whole, nor is one in which somebody had no processor.
    figure(len(seen) >= 12 and len(far) * 4 <= len(seen), f"{seen} shown, {measured} by fio")


def busy(page, load):
    """Under load the page does not say how to make some."""
    is_hidden = not page.id("empty-code").is_displayed()
    assert is_hidden or load.poll() is not None, "there is load"
    figure(is_hidden, "the load is over")


def mib_s(text):
    """What the tile of a rate shows: `1.9 MiB/s`."""
    number, unit = text.removesuffix("/s").split()
    return float(number) * 1024 ** (["B", "KiB", "MiB", "GiB"].index(unit) - 2)


def pacing(daemon, page):
    """The control picture of a buffered device moves too."""
    page.keys("2")
    page.wait("the other device", lambda: page.id("chart-dirty").is_displayed())
    load = daemon.fio(["files"], 8, rw="randwrite")
    legend = lambda: page.js("return document.querySelector('#chart-dirty .legend').textContent")
    # Buffered writes have a column of their own, for groups and for tasks.
    cells = ("return [...document.querySelectorAll('#%s-rows tr:not(.message)')].map("
             "row => row.cells[%d].textContent)")
    for table, column in (("group", 6), ("task", 4)):
        page.see(f"buffered writes in the table of {table}s", load, lambda: any(
            re.match(r"[1-9].*iB/s", text) for text in page.js(cells % (table, column))))
    busy(page, load)  # What is buffered is load.
    page.see("dirty memory", load, lambda: re.search(r"dirty[1-9][0-9.]* [KM]iB", legend()))
    page.screenshot("pacing")
    finish(load)
    page.keys("1")
    page.wait("the first device", lambda: page.id("unpaced").is_displayed())


def exchange(daemon, page):
    """A scheduler chosen in the page is the one that the daemon has."""
    scheduler = lambda: daemon.get("/v1/devices/disk")["scheduler"]
    page.choose("scheduler", "rr", "scheduler-set")
    page.wait("rr", lambda: scheduler()["algorithm"] == "rr" and scheduler()["inserted"])
    page.wait("read back", lambda: "rr (inserted)" in page.id("scheduler-now").text)
    page.fill(page.id("param-wait_ms"), "5")
    page.wait("a parameter", lambda: scheduler()["params"]["wait_ms"] == 5)
    page.wait("read back", lambda: "wait_ms=5" in page.id("scheduler-now").text)
    page.wait("the event", lambda: "rr" in page.id("event-rows").text)
    page.choose("scheduler", "", "scheduler-set")
    page.wait("the base", lambda: not scheduler()["inserted"])
    page.wait("the button", lambda: page.id("scheduler-set").text == "Set")
    page.choose("scheduler", "fair", "scheduler-set")
    page.wait("fair", lambda: scheduler()["algorithm"] == "fair")
    page.choose("window-policy", "fixed", "window-set")
    page.wait("window", lambda: daemon.get("/v1/devices/disk")["window"]["policy"] == "fixed")


def weight(daemon, page):
    """Weights set in the page are the shares that fio measures."""
    if daemon.get("/v1/devices/disk")["scheduler"]["algorithm"] != "fair":
        page.choose("scheduler", "fair", "scheduler-set")
    equal = finish(daemon.fio(["web", "db"], 5))
    field = page.labelled("weight of /vms/web on disk")
    page.fill(field, "400")
    page.wait("the weight", lambda: daemon.effective("/vms/web", "io.weight") == "400")
    load = daemon.fio(["web", "db"], 8)
    time.sleep(4)
    page.screenshot("weight")
    shared = finish(load)
    ratios = [speeds["web"] / speeds["db"] for speeds in (equal, shared)]
    print(f"   web to db: {ratios[0]:.2f} with 100 to 100, {ratios[1]:.2f} with 400 to 100")
    assert field.get_attribute("value") == "400"
    figure(0.7 < ratios[0] < 1.4 and 2.5 < ratios[1] < 6, ratios)


def warnings(daemon, page):
    """A weight that the scheduler will not keep is said beside the field, and beside the scheduler."""
    page.choose("scheduler", "rr", "scheduler-set")
    page.wait("rr", lambda: daemon.get("/v1/devices/disk")["scheduler"]["algorithm"] == "rr")
    field = page.labelled("weight of /vms/db on disk")
    page.fill(field, "300")
    rows = lambda: page.id("group-rows").text
    page.wait("a warning", lambda: "rr does not divide the disk by weight" in rows())
    assert "iopace sched configure -a fair disk" in rows(), rows()
    time.sleep(7)  # Longer than what is set is told.
    assert "set; 300 holds now; but" in rows(), rows()
    page.screenshot("warning")
    page.choose("scheduler", "fair", "scheduler-set")
    message = lambda: page.id("scheduler-message").text
    page.wait("fair", lambda: "set; the device says:" == message())
    page.choose("scheduler", "rr", "scheduler-set")
    page.wait("the same", lambda: re.search(
        r"set, but for /vms/db.*: scheduler rr does not divide", message()))
    page.screenshot("warning-scheduler")
    page.fill(field, "100")
    page.wait("the weight", lambda: daemon.effective("/vms/db", "io.weight") == "100")
    page.choose("scheduler", "fair", "scheduler-set")
    page.wait("no warning", lambda: "set; the device says:" == message())


def worst(daemon, page):
    """Who is worst off is told with what would change it, in the words of `iopace explain`."""
    page.fill(page.labelled("limits of /vms/db on disk"), "riops=5")
    page.wait("the limit", lambda: daemon.effective("/vms/db", "io.max") == "riops=5")
    load = daemon.fio(["web", "db"], 14)
    told = lambda: page.id("diagnosis").text
    page.see("a group", load, lambda: "/vms/" in page.id("worst-group").text)
    commands = lambda: page.js(
        "return [...document.querySelectorAll('#remedies code')].map(node => node.textContent)")
    page.see("a command", load, lambda: any("iopace group set /vms/" in one for one in commands()))
    control = os.path.join(os.path.realpath(daemon.folder), "c")
    assert all(one.endswith(f" --control {control}") for one in commands()), commands()
    group = page.id("worst-group").text
    assert f"{group} on disk" in page.id("worst-text").text, told()
    page.screenshot("worst")
    finish(load)
    page.fill(page.labelled("limits of /vms/db on disk"), "")
    page.wait("no limit", lambda: daemon.effective("/vms/db", "io.max") == "max")
    page.wait("nobody", lambda: "iopace holds up no group" in told(), 30)


def remedy(daemon, page):
    """A remedy is a button, and can be undone; not if somebody else has changed the same since."""
    before = daemon.effective("/vms/db", "io.max")
    page.fill(page.labelled("limits of /vms/db on disk"), "riops=5 wiops=7")
    held = lambda: daemon.effective("/vms/db", "io.max")
    page.wait("the limit", lambda: held() == "riops=5 wiops=7")
    load = daemon.fio(["db"], 45)
    lifts = "#remedies button[aria-label='Do it: iopace group set /vms/db io.max \\'disk riops=max\\'']"
    find = lambda: page.js("return document.querySelector(arguments[0])", lifts)
    page.see("a remedy", load, lambda: (node := find()) and node.is_enabled())
    page.js("arguments[0].click()", find())
    page.wait("it is set", lambda: held() == "wiops=7")
    finish(load)
    undo = lambda: page.js("return document.querySelector('#done button')")
    page.wait("a way back", lambda: undo() is not None)
    page.js("scrollTo(0, 0)")
    page.screenshot("remedy")
    # Somebody else sets another limit, and then the same again.
    for text in ("wiops=9", "wiops=7"):
        page.fill(page.labelled("limits of /vms/db on disk"), text)
        page.wait("another limit", lambda: held() == text)
        page.js("arguments[0].click()", undo())
        if text == "wiops=9":
            page.wait("a refusal", lambda: "changed since" in page.id("remedy-message").text)
            assert held() == text, held()
    page.wait("it is undone", lambda: held() == "riops=5 wiops=7")
    page.wait("no way back", lambda: undo() is None)
    page.fill(page.labelled("limits of /vms/db on disk"), "")
    page.wait("no limit", lambda: held() == before)


def unknown(daemon, page):
    """A remedy of a kind that the page does not know has no button, and nothing is sent for it."""
    page.js("""
        const real = window.fetch;
        const remedy = (kind) => ({ command: `iopace ${kind}`, effect: "", price: "",
            change: { kind, body: { path: "/v1/exports", group: "/vms/db", file: "io.max" } } });
        window.posted = [];
        window.fetch = async (path, options = {}) => {
            if (options.method === "POST") window.posted.push(path);
            const answer = await real(path, options);
            if (!String(path).startsWith("/v1/explain")) return answer;
            const told = await answer.json();
            const causes = [{ remedies: ["export", "constructor", "__proto__"].map(remedy) }];
            for (const device of told.devices) {
                device.worst = { ...device.explained, group: "/vms/db", summary: "", causes };
            }
            return new Response(JSON.stringify(told));
        };
        document.dispatchEvent(new Event("visibilitychange"));""")
    buttons = "[...document.querySelectorAll('#remedies button.primary')]"
    page.wait("remedies", lambda: page.js(f"return {buttons}.length") == 3, 30)
    page.wait("they rest", lambda: page.js(f"return {buttons}.every((one) => !one.disabled)"))
    assert page.js(f"return {buttons}.every((one) => one.offsetParent === null)")
    page.js(f"{buttons}.forEach((one) => one.click())")
    page.wait("an error", lambda: page.id("remedy-message").text != "")
    assert page.js("return window.posted") == [], page.js("return window.posted")
    page.browser.refresh()
    page.wait_live()


def alarm(daemon, page):
    """A p99 of a second or more is an alarm, where it stands in the tile and in the diagnosis; the
    group has one colour in the list, the table and the legend of the chart."""
    page.fill(page.labelled("limits of /vms/web on disk"), "riops=8")
    page.wait("the limit", lambda: daemon.effective("/vms/web", "io.max") == "riops=8")
    load = daemon.fio(["web", "db"], 30)
    level = "return document.querySelector('%s').classList.contains('alarm')"
    row = "#latency-rows tr:first-child"
    page.see("an alarm", load, lambda: page.js(level % "#diagnosis"))
    page.see("the worst first", load, lambda: page.js(
        f"return document.querySelector('{row} th').textContent") == "/vms/web")
    for where in (f"{row} .value", "#tiles .tile:nth-child(4) .big"):
        page.see(f"an alarm at {where}", load, lambda: page.js(level % where))
    swatches = page.js("""return ["#latency-rows tr[title='/vms/web'] .swatch",
        "#group-rows th[title='/vms/web'] .swatch"].map(
        where => getComputedStyle(document.querySelector(where)).backgroundColor)""")
    legend = """return [...document.querySelectorAll("#chart-bandwidth .legend li")].filter(
        one => one.textContent.startsWith("/vms/web")).map(
        one => getComputedStyle(one.querySelector(".swatch")).backgroundColor)"""
    assert len(set(swatches + page.js(legend))) == 1, (swatches, page.js(legend))
    page.screenshot("alarm")
    finish(load)
    page.fill(page.labelled("limits of /vms/web on disk"), "")
    page.wait("no limit", lambda: daemon.effective("/vms/web", "io.max") == "max")


def colours(daemon, page):
    """One colour means one thing: groups, reasons and levels have none in common."""
    for theme in ("light", "dark"):
        page.look(1440, 900, theme)
        found = page.js("""
            const made = (name, parent) => {
              const node = parent.appendChild(document.createElement("span"));
              node.className = name;
              const style = getComputedStyle(node);
              const colour = name.startsWith("l") ? style.color : style.backgroundColor;
              node.remove();
              return colour;
            };
            const eight = [0, 1, 2, 3, 4, 5, 6, 7];
            return [eight.map(i => made(`k${i}`, document.body)),
                    eight.map(i => made(`r${i}`, document.body)),
                    ["alarm", "warn"].map(name => made(`level-test ${name}`, document.body))];""")
        all_of_them = [colour for some in found for colour in some]
        assert len(set(all_of_them)) == len(all_of_them) == 18, found
    page.look(1440, 900, "light")


def limit(daemon, page):
    """A limit set in the page is what fio gets; taken away, it is gone."""
    field = page.labelled("limits of /vms/web on disk")
    page.fill(field, "rbps=256k")
    page.wait("the limit", lambda: daemon.effective("/vms/web", "io.max") == "rbps=262144")
    page.wait("read back", lambda: field.get_attribute("value") == "rbps=256k")
    speed = finish(daemon.fio(["web"], 5))["web"]
    print(f"   {speed:.3f} MiB/s with rbps=256k")
    figure(0.2 < speed < 0.4, speed)
    page.fill(field, "")
    page.wait("no limit", lambda: daemon.effective("/vms/web", "io.max") == "max")


def refusals(daemon, page):
    """What is refused is said beside the field, changes nothing and loses nothing."""
    before = daemon.effective("/vms/web", "io.weight")
    heavy = page.labelled("weight of /vms/web on disk")
    page.fill(heavy, "0")
    page.wait("a message", lambda: any("from 1 to 10000" in text for text in page.alerts()))
    wide = page.labelled("limits of /vms/db on disk")
    page.fill(wide, "rbps=abc")
    page.wait("a message", lambda: any("not 'abc'" in text for text in page.alerts()))
    page.fill(page.id("window-depth"), "99999")
    page.wait("a message", lambda: "1 to" in page.id("window-message").text)
    time.sleep(3)  # Reports go on coming in.
    assert (heavy.get_attribute("value"), wide.get_attribute("value")) == ("0", "rbps=abc")
    assert page.browser.switch_to.active_element == page.id("window-depth")
    assert daemon.effective("/vms/web", "io.weight") == before
    page.js("document.getElementById('groups').scrollIntoView()")
    page.screenshot("refusals")
    page.quiet(REFUSED)
    for field in (heavy, wide):
        field.send_keys(Keys.ESCAPE)
    page.id("window-undo").click()
    assert heavy.get_attribute("value") == before and not page.alerts(), page.alerts()


def keyboard(daemon, page):
    """The keys that the help lists do what it says."""
    page.keys("?")
    assert page.id("help").is_displayed()
    page.browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.wait("no help", lambda: not page.id("help").is_displayed())
    page.keys("/")
    assert page.browser.switch_to.active_element == page.id("group-filter")
    page.keys("p")
    up = page.id("daemon").text
    time.sleep(2.5)
    assert page.id("daemon").text == up, "the display stands still"
    page.keys("p")
    page.wait("the display goes on", lambda: page.id("daemon").text != up)
    themes = []
    for _ in range(3):
        page.keys("t")
        themes.append(page.js("return document.documentElement.dataset.theme ?? 'auto'"))
    assert themes == ["light", "dark", "auto"], themes


def sizes(daemon, page):
    """No width makes the page scroll sideways; the themes follow the desktop."""
    for width, height, theme in ((1440, 900, "dark"), (768, 1024, "light"), (390, 844, "dark"),
                                 (360, 640, "light")):
        page.look(width, height, theme)
        page.js("scrollTo(0, 0)")
        time.sleep(1.5)
        page.screenshot(f"{width}-{theme}")
        wide = page.js("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{width}: {wide} pixels too wide"
        # The diagnosis comes first, also where all is in one column.
        tops = page.js("""return [...document.querySelectorAll("main section, #tiles")].filter(
            node => node.id !== "diagnosis" && node.offsetParent).map(
            node => node.getBoundingClientRect().top)""")
        first = page.js("return document.getElementById('diagnosis').getBoundingClientRect().top")
        assert first < min(tops) and first < height / 2, f"{width}: {first} of {tops}"
    page.look(1440, 900, "light")


def restart(daemon, page):
    """The page says that the daemon is gone, and goes on when it is back, with edits kept."""
    field = page.labelled("limits of /vms/db on disk")
    field.send_keys("rbps=1")
    daemon.stop()
    page.wait("the loss", lambda: page.id("state").get_attribute("data-state") == "lost")
    page.wait("the words", lambda: "Not connected" in page.id("lost").text)
    page.screenshot("lost")
    daemon.start()
    page.wait_live()
    time.sleep(2.5)
    page.screenshot("back")
    assert field.get_attribute("value") == "rbps=1"
    field.send_keys(Keys.ESCAPE)
    page.quiet(OUTAGE)


def demo(daemon, page):
    """`iopace demo --dashboard`: a scheduler put in on the page gives the database its disk back."""
    command = [os.path.realpath(os.environ["IOPACE_BIN"]), "demo", "--dashboard", "--format=json"]
    shown = subprocess.Popen(command, cwd=daemon.folder, stdout=subprocess.PIPE)
    try:
        doors = json.loads(shown.stdout.readline())
        page.browser.get(doors["url"])
        page.wait_live()
        rows = page.id("group-rows")
        page.wait("both groups", lambda: all(n in rows.text for n in ("database", "backup")))

        def reads(count):
            """Reads per second of the database in the last seconds."""
            time.sleep(count + 2)
            seen = answer(doors["control"], f"/v1/live?history={count}")
            groups = [one["devices"][0]["groups"] for one in seen]
            rates = [[g["read"]["ops_milli_s"] for g in all if g["group"] == "/database"]
                     for all in groups]
            return statistics.mean(rate[0] / 1000 for rate in rates if rate)

        def writes():
            """Whether the backup has begun: the database is alone at first."""
            groups = answer(doors["control"], "/v1/live")["devices"][0]["groups"]
            return any(g["group"] == "/backup" and g["write"]["bytes_s"] > 0 for g in groups)

        page.wait("the backup", writes, 40)
        before = reads(6)
        page.choose("scheduler", "fair", "scheduler-set")
        page.wait("read back", lambda: "fair (inserted" in page.id("scheduler-now").text)
        after = reads(6)
        page.screenshot("demo")
        print(f"   reads of the database: {before:.1f}/s, with fair {after:.1f}/s")
    finally:
        shown.send_signal(signal.SIGINT)
        assert shown.wait(30) == 0, "the demo did not end well"
    assert not os.path.exists(doors["control"]), "left behind"
    # The page looks for the demo until it is left: what it says of that is asked for afterwards.
    page.browser.get(daemon.url)
    page.wait_live()
    page.quiet(OUTAGE)
    figure(after > 3 * before, (before, after))


CHECKS = [token, address, idle, charts, pacing, exchange, weight, warnings, worst, remedy, unknown, alarm, colours,
          limit, refusals, keyboard, sizes, restart, demo]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--screenshots", metavar="FOLDER", help="where pictures go")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    words = parser.parse_args()
    if words.screenshots:
        os.makedirs(words.screenshots, exist_ok=True)
    names = {check.__name__: check for check in CHECKS}
    left = chosen = [names[name] for name in words.checks] or CHECKS
    failed = 0
    while left:
        made, bad, missed = perform(left, words.screenshots)
        left, failed = left[made + missed:], failed + bad
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(failed > 0)


def perform(chosen, screenshots):
    """Checks with a daemon and a browser of their own, up to one whose figure is missed: how many
    were made before it, how many of those failed, and whether there is one."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="iopace-dashboard-") as folder:
        daemon = Daemon(folder)
        page = Page(os.path.join(folder, "profile"), screenshots)
        try:
            page.browser.get(daemon.url)
            page.wait_live()
            for made, check in enumerate(chosen):
                try:
                    missed = attempt(check, daemon, page)
                except Exception:
                    failed += 1
                    page.screenshot(f"failed-{check.__name__}")
                    print(f"FAIL dashboard: {check.__name__}", flush=True)
                    traceback.print_exc()
                    continue
                name = f"dashboard: {check.__name__}"
                said(name, missed or "shown", "what fio says, about", not missed)
                if missed:
                    page.screenshot(f"missed-{check.__name__}")
                    return made, failed, True
        finally:
            page.browser.quit()
            daemon.stop()
    return len(chosen), failed, False


def attempt(check, daemon, page):
    """The figure that a check misses, if it does: all else fails, also what the console says."""
    missed = None
    try:
        check(daemon, page)
    except Figure as error:
        missed = error
    page.quiet()
    return missed


if __name__ == "__main__":
    main()
