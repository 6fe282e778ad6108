"""JupyterLab in Chromium: start it on a copy of the course, open a notebook, run it, press keys.

Nothing in here knows what a good notebook is; that is `checks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

CHECKOUT = Path(__file__).resolve().parents[2]

HOW_TO_GET_A_BROWSER = (
    "no Chromium or Chrome was found: install one, or fetch Playwright's own with "
    f"`{Path(sys.executable).name} -m playwright install chromium`, or name one in MHA_BROWSER"
)


class BrowserMissing(Exception):
    """There is no browser here that starts; the message says how to get one."""


# ---------------------------------------------------------------------------------------------
# The browser


def installed_browsers() -> list[str]:
    """Paths of the Chromium kind of browsers found here, best first."""
    if named := os.environ.get("MHA_BROWSER"):
        return [named]
    names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge",
             "microsoft-edge"]
    found = [path for name in names if (path := shutil.which(name))]
    usual = [f"/Applications/{app}.app/Contents/MacOS/{app}" for app in ("Chromium", "Google Chrome", "Microsoft Edge")]
    for root in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA"):
        if folder := os.environ.get(root):
            usual += [str(Path(folder, "Google/Chrome/Application/chrome.exe")),
                      str(Path(folder, "Chromium/Application/chrome.exe")),
                      str(Path(folder, "Microsoft/Edge/Application/msedge.exe"))]
    found += [path for path in usual if Path(path).is_file()]
    # A snap has a /tmp of its own and may not see the profile made for it, so it is tried last.
    return sorted(dict.fromkeys(found), key=lambda path: "/snap/" in os.path.realpath(path) or "/snap/" in path)


def launch_browser(playwright, profile: Path):
    """A browser context with a fresh profile, or `BrowserMissing`."""
    options = {
        "headless": True,
        "viewport": {"width": 1280, "height": 1000},
        "args": [
            "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
            "--disable-component-update", "--disable-sync", "--disable-default-apps", "--no-proxy-server",
            # Nothing but this machine has a name or an address: what asks for more fails, here as on a train.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
        ],
    }
    complaints = []
    for path in [*installed_browsers(), None]:
        if path is None and not Path(playwright.chromium.executable_path).exists():
            continue
        try:
            context = playwright.chromium.launch_persistent_context(str(profile), executable_path=path, **options)
        except Exception as problem:  # whatever keeps it from starting, another one may start
            complaints.append(f"{path or 'the download'} does not start: {str(problem).splitlines()[0]}")
            continue
        context.add_init_script(path=str(Path(__file__).with_name("in_page.js")))
        return context
    raise BrowserMissing("; ".join([*complaints, HOW_TO_GET_A_BROWSER]))


# ---------------------------------------------------------------------------------------------
# The server

# Run by IPython at the start of every kernel: what tries to leave the machine is refused and remembered, and the
# figures that are open are counted.
WATCH = """
import sys

def _stay_here():
    tried = sys._tried_to_leave = []
    here = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "", None}

    def hook(event, args):
        if event == "socket.connect" and isinstance(args[1], tuple):
            host = args[1][0]
        elif event == "socket.getaddrinfo":
            host = args[0]
        else:
            return
        host = host.decode() if isinstance(host, bytes) else host
        if host not in here:
            tried.append(str(host))
            raise OSError(f"a notebook must work offline, but this one asked for {host}")

    sys.addaudithook(hook)

def _count_figures():
    # Before a cell runs and not after it: the inline backend closes all figures at the end of a cell.
    plt = sys.modules.get("matplotlib.pyplot")
    sys._open_figures = len(plt.get_fignums()) if plt else 0

_stay_here()
get_ipython().events.register("pre_execute", _count_figures)
del _stay_here, _count_figures
"""


class Lab:
    """A JupyterLab server on a temporary copy of the course.

    Parameters
    ----------
    notebooks : Path
        Folder to copy; a notebook in it is opened by its name.
    """

    def __init__(self, notebooks: Path):
        self.folder = Path(tempfile.mkdtemp(prefix="mha-lab-"))
        self.copy = self.folder / "course"
        self._copy_course(notebooks)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.token = secrets.token_hex(16)
        self.base = f"http://127.0.0.1:{self.port}/"
        self._settings()
        self.log = self.folder / "server.log"
        self._start()

    def _copy_course(self, notebooks: Path) -> None:
        junk = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
        shutil.copytree(notebooks, self.copy / "notebooks", ignore=junk)
        # A notebook may reach beside itself; it finds there what it finds in a checkout.
        shutil.copytree(CHECKOUT / "mha_lib", self.copy / "mha_lib", ignore=junk)
        for extra in ("pyproject.toml", "README.md", "requirements.txt"):
            if (CHECKOUT / extra).is_file():
                shutil.copy(CHECKOUT / extra, self.copy / extra)

    def _settings(self) -> None:
        apputils = self.folder / "settings/@jupyterlab/apputils-extension"
        apputils.mkdir(parents=True)
        # Or a "Jupyter news?" pop-up lies over the page.
        (apputils / "notification.jupyterlab-settings").write_text(
            json.dumps({"fetchNews": "false", "checkForUpdates": False}))
        startup = self.folder / "ipython/profile_default/startup"
        startup.mkdir(parents=True)
        (startup / "00-watch.py").write_text(WATCH)

    def _start(self) -> None:
        folder = self.folder
        env = {name: value for name, value in os.environ.items()
               if name not in ("JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "MPLBACKEND", "JUPYTER_TOKEN")}
        env |= {
            "JUPYTER_CONFIG_DIR": str(folder / "config"), "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"), "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
            "MHA_PROGRESS": str(folder / "progress.json"),
            # The library beside the notebooks is the one to test, whatever is installed.
            "PYTHONPATH": os.pathsep.join(filter(None, [str(self.copy), os.environ.get("PYTHONPATH", "")])),
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={self.port}",
                   "--ServerApp.port_retries=0", f"--IdentityProvider.token={self.token}",
                   f"--ServerApp.root_dir={self.copy}", "--LabApp.expose_app_in_browser=True"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            command.append("--allow-root")
        with open(self.log, "w") as log:
            self.server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=subprocess.STDOUT)
        # Or matplotlib's first use on a machine prints that it builds its font cache, in somebody's cell.
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], capture_output=True)
        deadline = time.monotonic() + 90
        while True:
            try:
                self.request("GET", "api/status")
                return
            except OSError:
                if self.server.poll() is not None or time.monotonic() > deadline:
                    said = self.log.read_text(errors="replace")
                    self.close()
                    raise RuntimeError(f"JupyterLab does not start:\n{said[-3000:]}") from None
                time.sleep(0.1)  # nothing to wait on but the port itself

    def request(self, method: str, path: str):
        """The answer of the server's REST API, as parsed JSON."""
        ask = urllib.request.Request(f"{self.base}{path}", method=method,
                                     headers={"Authorization": f"token {self.token}"})
        # An opener without proxies: a proxy in the environment must not get between us and 127.0.0.1.
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(ask, timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def url(self, name: str) -> str:
        return f"{self.base}lab/tree/notebooks/{quote(name)}?token={self.token}&reset"

    def stop_kernels(self) -> None:
        for session in self.request("GET", "api/sessions"):
            with contextlib.suppress(urllib.error.HTTPError):  # gone by itself
                self.request("DELETE", f"api/sessions/{session['id']}")

    def close(self) -> None:
        if self.server.poll() is None:
            with contextlib.suppress(OSError):
                self.stop_kernels()
            self.server.terminate()
            try:
                self.server.wait(15)
            except subprocess.TimeoutExpired:
                self.server.kill()
                self.server.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def lab_and_browser(notebooks: Path) -> Iterator[tuple[Lab, object]]:
    """A server on a copy of `notebooks` and a browser context, both gone at the end."""
    from playwright.sync_api import sync_playwright

    with contextlib.ExitStack() as stack:
        profile = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mha-profile-",
                                                                       ignore_cleanup_errors=True)))
        playwright = stack.enter_context(sync_playwright())
        context = launch_browser(playwright, profile)  # first: without a browser no server is needed
        stack.callback(context.close)
        lab = Lab(notebooks)
        stack.callback(lab.close)
        yield lab, context


# ---------------------------------------------------------------------------------------------
# One notebook in one tab


@dataclass
class Heard:
    """What the browser said while a notebook was open."""

    console_errors: list[str] = field(default_factory=list)
    page_errors: list[str] = field(default_factory=list)
    left_machine: list[str] = field(default_factory=list)


class OpenNotebook:
    """A notebook in a tab of its own, from before it is run until its kernel is stopped."""

    def __init__(self, lab: Lab, context, name: str):
        self.lab, self.name = lab, name
        self.heard = Heard()
        self.page = page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.heard.page_errors.append(str(error)))
        page.on("console", self._hear_console)
        page.on("request", lambda request: self._hear_request(request.url))
        page.on("websocket", lambda socket: self._hear_request(socket.url))
        page.goto(lab.url(name))
        page.locator(".jp-NotebookPanel .jp-Cell").first.wait_for(timeout=60_000)
        # The "Idle" in the corner comes too early; the kernel's own answer does not.
        page.evaluate("() => mha.ready()")
        page.evaluate("() => mha.settled()")

    def _hear_console(self, message) -> None:
        if message.type == "error":
            where = message.location or {}
            self.heard.console_errors.append(f"{message.text} [{where.get('url', '')}]")

    def _hear_request(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("data", "blob", "about", "chrome-extension", "devtools"):
            return
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc == f"127.0.0.1:{self.lab.port}":
            return
        self.heard.left_machine.append(url)

    def run_all(self, timeout: float = 180) -> bool:
        """Run every cell and wait for the last widget to stand; False if it took longer than `timeout` seconds."""
        done = self.page.evaluate("seconds => mha.runAll(seconds)", timeout)
        if done:
            self.page.evaluate("() => mha.settled()")
        return done

    def ask_kernel(self, expression: str) -> str:
        """The repr of a Python expression, evaluated in the kernel without a trace in the notebook."""
        answer = self.page.evaluate("expression => mha.askKernel(expression)", expression)
        if answer["status"] != "ok":
            raise RuntimeError(f"the kernel cannot say {expression}: {answer}")
        return answer["data"]["text/plain"]

    def set_theme(self, theme: str) -> None:
        self.page.evaluate("theme => mha.setTheme(theme)", theme)
        self.page.evaluate("() => mha.settled()")

    def close(self) -> None:
        with contextlib.suppress(Exception):  # a page that died is as good as closed
            self.page.close(run_before_unload=False)
        self.lab.stop_kernels()
