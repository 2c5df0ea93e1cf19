"""What the checks of the dashboard work with: a daemon with its page, load by fio, a browser."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

CONFIG = """
socket = "s"
control = "c"
[[device]]
name = "disk"
emulate = "hdd-sata-250g-ncq"
size = "4GiB"
direct = true
nr-requests = 256
window = 8
[[device]]
name = "buffered"
emulate = "hdd-sata-250g"
size = "4GiB"
[[export]]
name = "web"
device = "disk"
group = "/vms/web"
[[export]]
name = "db"
device = "disk"
group = "/vms/db"
[[export]]
name = "files"
device = "buffered"
group = "/backup"
[group."/vms/web"]
[group."/vms/db"]
[group."/backup"]
"""

# What Chromium writes to its log when a request is answered with 4xx, or not at all: the browser's
# own words, which a page cannot keep back. They are errors where no refusal or outage is wanted.
REFUSED = r"status of 4\d\d"
OUTAGE = r"net::ERR_|status of 5\d\d"

CHROMIUM = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync""".split()


class Daemon:
    """A daemon with two disks, three exports in three groups, and the page on a port."""

    def __init__(self, folder):
        self.folder = folder
        self.port = 0
        self.process = None
        self.url = None
        with open(os.path.join(folder, "iopace.toml"), "w") as file:
            file.write(CONFIG)
        self.start()

    def start(self):
        """Starts it, on the same port as before and with the same token."""
        command = [os.path.realpath(os.environ["IOPACE_BIN"]), "serve", "--config", "iopace.toml"]
        self.run([*command, "--http", str(self.port), "--http-token-file", "token"])
        address = self.said(r"dashboard: http://127\.0\.0\.1:\d+/").removeprefix("dashboard: ")
        self.port = int(re.search(r":(\d+)/", address).group(1))
        with open(os.path.join(self.folder, "token")) as file:
            self.url = f"{address}#token={file.read().strip()}"

    def run(self, command):
        with open(os.path.join(self.folder, "log"), "wb") as log:
            pipes = {"stdout": log, "stderr": log}
            self.process = subprocess.Popen(command, cwd=self.folder, **pipes)
        self.said(r"serving disk")

    def said(self, pattern):
        """Waits for words of the daemon."""
        for _ in range(400):
            with open(os.path.join(self.folder, "log")) as file:
                text = file.read()
            found = re.search(pattern, text)
            if found:
                return found.group(0)
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"the daemon did not say {pattern}:\n{text}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    @property
    def token(self):
        return self.url.split("token=")[1]

    def get(self, path):
        """An answer of the control socket: what holds, whatever the page says."""
        return answer(os.path.join(self.folder, "c"), path)

    def effective(self, group, file):
        (report,) = self.get(f"/v1/groups/files?group={group}&file={file}&device=disk")
        return report["effective"][0]["value"]

    def fio(self, exports, seconds, rw="randread"):
        """Load on exports at once, in the background; `finish` has MiB/s of each. The jobs are
        deep: a client that is late on a loaded machine is to have requests waiting all the same."""
        path = os.path.join(self.folder, "s")
        jobs = f"[global]\nioengine=nbd\nrw={rw}\nbs=16k\niodepth=64\nsize=512m\n"
        jobs += f"time_based\nruntime={seconds}\n"
        for place, name in enumerate(exports):
            jobs += f"[{name}]\nuri=nbd+unix:///{name}?socket={path}\noffset={place}g\n"
        with open(os.path.join(self.folder, "jobs.fio"), "w") as file:
            file.write(jobs)
        command = ["fio", "jobs.fio", "--output-format=json"]
        return subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE)


def answer(control, path):
    """What a control socket answers."""
    client = http.client.HTTPConnection("localhost")
    client.sock = socket.socket(socket.AF_UNIX)
    client.sock.connect(control)
    client.request("GET", path)
    return json.loads(client.getresponse().read())


def finish(load):
    """The MiB/s of the jobs of a load, by name."""
    out = load.communicate(timeout=120)[0].decode()
    assert load.returncode == 0, out
    jobs = json.loads(out[out.index("{") :])["jobs"]
    return {job["jobname"]: job["read"]["bw"] / 1024 + job["write"]["bw"] / 1024 for job in jobs}


class Figure(Exception):
    """What load does, or is to show, is not as it has to be: a processor that is taken away for a
    second spoils that now and then."""


def figure(is_so, words):
    if not is_so:
        raise Figure(words)


class Page:
    """The page in a browser with an empty profile."""

    def __init__(self, folder, screenshots):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for word in [*CHROMIUM, f"--user-data-dir={folder}"]:
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service(shutil.which("chromedriver"))
        self.browser = webdriver.Chrome(service=service, options=options)
        self.screenshots = screenshots
        self.look(1440, 900, "light")

    def look(self, width, height, theme):
        """Size of the window, and the theme that the desktop has."""
        command = self.browser.execute_cdp_cmd
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        command("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": theme}
        command("Emulation.setEmulatedMedia", {"features": [scheme]})

    def screenshot(self, name):
        if self.screenshots:
            self.browser.save_screenshot(os.path.join(self.screenshots, f"{name}.png"))

    def js(self, code, *words):
        return self.browser.execute_script(code, *words)

    def id(self, name):
        return self.browser.find_element(By.ID, name)

    def labelled(self, label):
        return self.browser.find_element(By.CSS_SELECTOR, f'[aria-label="{label}"]')

    def alerts(self):
        nodes = self.browser.find_elements(By.CSS_SELECTOR, "main [role=alert]")
        return [node.text for node in nodes if node.text]

    def keys(self, *keys):
        """Presses keys with nothing focused."""
        self.js("document.activeElement.blur()")
        self.browser.find_element(By.TAG_NAME, "body").send_keys(*keys)

    def fill(self, field, text):
        """Types over what a field says, and sets it."""
        self.js("arguments[0].scrollIntoView({block: 'center'})", field)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.BACKSPACE, text, Keys.ENTER)

    def choose(self, name, value, button):
        select = self.id(name)
        self.js("arguments[0].scrollIntoView({block: 'center'})", select)
        Select(select).select_by_value(value)
        self.id(button).click()

    def wait(self, what, condition, seconds=20):
        """Waits until something holds: generous, as machines are loaded."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.05)
        raise AssertionError(f"{what}: not within {seconds} s")

    def see(self, what, load, condition):
        """Waits until something is shown that there is only as long as there is load."""
        while load.poll() is None:
            if condition():
                return
            time.sleep(0.05)
        raise Figure(f"{what}: not as long as there is load")

    def wait_live(self):
        state = self.id("state")
        self.wait("the page is live", lambda: state.get_attribute("data-state") == "live")
        self.wait("the page shows a device", lambda: self.id("main").is_displayed())

    def quiet(self, *allowed):
        """Nothing but what is allowed here was written to the console."""
        for entry in self.browser.get_log("browser"):
            is_allowed = any(re.search(pattern, entry["message"]) for pattern in allowed)
            assert is_allowed, f"console: {entry['message']}"
