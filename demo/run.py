"""`make demo`: a gateway with a stand-in model, a batch of 200 requests through it, then the gateway until Ctrl-C.

Whatever the product does is done by its own command; this file only calls it and tells what to try next. What it keeps
lies in one folder, so that it can be run again at any time, also after it was killed.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ebbtide.config import load_config
from ebbtide.errors import EbbtideError, SetupError
from ebbtide.storage.embedded import default_data_dir, find_problems

DEMO = Path(__file__).resolve().parent
EBBTIDE = (sys.executable, "-m", "ebbtide")
ACCOUNT = "demo"
CHAT_MODEL = "standin-chat"
START_SECONDS = 120
SHOWN_ANSWERS = ("001-label", "083-sentiment", "122-summary", "156-extract", "180-translate-french")

console = Console(highlight=False, markup=False)


@dataclass(frozen=True)
class Demo:
    """Where the demo's gateway listens, where its data lie, and the environment its commands get."""

    url: str
    folder: Path
    environ: Mapping[str, str]

    @property
    def log(self) -> Path:
        return self.folder / "demo-gateway.log"

    @property
    def results(self) -> Path:
        return self.folder / "demo-results.jsonl"

    @property
    def account_file(self) -> Path:
        return self.folder / "demo-account.json"


def prepare(environ: Mapping[str, str]) -> Demo:
    """Choose folder and port. Raises SetupError when the port is taken or the folder cannot be used."""
    boot = load_config(environ, {"models": str(DEMO / "models.yaml")})
    folder = boot.data_dir if "EBBTIDE_DATA_DIR" in environ else choose_folder(environ)
    check_port(boot.host, boot.port)
    if not folder.exists():
        folder.mkdir(parents=True)
        folder.chmod(0o711)  # root's database runs as another user, who has to pass
    settled = {"EBBTIDE_DATA_DIR": str(folder), "EBBTIDE_MODELS": str(boot.models), "EBBTIDE_PORT": str(boot.port)}
    return Demo(f"http://127.0.0.1:{boot.port}", folder, {**environ, **settled})


def choose_folder(environ: Mapping[str, str]) -> Path:
    """`.ebbtide` of this checkout, unless the database's user could not enter it (root's own folders, say)."""
    here = DEMO.parent / ".ebbtide"
    if not find_problems(here):
        return here
    return default_data_dir(environ, os.geteuid() == 0) / "demo"


def check_port(host: str, port: int) -> None:
    try:
        socket.create_server((host, port)).close()
    except OSError as error:
        raise SetupError(
            f"{host} port {port} cannot be had ({error.strerror}). Try another: EBBTIDE_PORT={port + 1} make demo"
        ) from error


@contextmanager
def running_gateway(demo: Demo) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway for the block, stopped gently at its end; should this process be killed, it stops by itself."""
    alive, death = os.pipe()
    demo.log.touch(mode=0o600)
    with demo.log.open("ab") as log:
        gateway = subprocess.Popen(
            [*EBBTIDE, "serve"],
            env={**demo.environ, "EBBTIDE_PARENT_FD": str(alive)},
            pass_fds=(alive,),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,  # Ctrl-C reaches this process alone, which then stops the gateway once
        )
    os.close(alive)
    try:
        wait_until_ready(demo, gateway)
        yield gateway
    finally:
        gateway.terminate()
        gateway.wait()
        os.close(death)


def wait_until_ready(demo: Demo, gateway: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while gateway.poll() is None and time.monotonic() < deadline:
        if get(demo, "/health/ready") is not None:
            return
        time.sleep(0.1)
    raise SetupError(f"The gateway did not start. {demo.log} ends with:\n{demo.log.read_text()[-2000:]}")


def get(demo: Demo, path: str, key: str = "") -> Any:
    """The JSON at `path`, or None when there is no good answer."""
    request = urllib.request.Request(demo.url + path, headers={"Authorization": f"Bearer {key}"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as answer:
            return json.load(answer)
    except (OSError, urllib.error.HTTPError):
        return None


def find_account(demo: Demo) -> dict[str, str]:
    """Key and password of the demo's own account: those of an earlier run if the key still works, else new ones.

    An administrator, so that the console shows all of its pages.
    """
    if demo.account_file.is_file():
        account: dict[str, str] = json.loads(demo.account_file.read_text())
        if get(demo, "/v1/models", account["key"]) is not None:
            return account
    names = [json.loads(line)["name"] for line in said(demo, "accounts", "list", "--json").splitlines()]
    if ACCOUNT not in names:
        said(demo, "accounts", "create", ACCOUNT, "--role", "admin")
    password = secrets.token_urlsafe(9)
    said(demo, "accounts", "set-password", ACCOUNT, "--stdin", typed=password)
    key = said(demo, "keys", "create", ACCOUNT, "--name", "make demo").strip()
    demo.account_file.unlink(missing_ok=True)
    demo.account_file.touch(mode=0o600)
    demo.account_file.write_text(json.dumps({"key": key, "password": password}))
    return {"key": key, "password": password}


def said(demo: Demo, *command: str, typed: str = "") -> str:
    """What an `ebbtide` command printed. Raises SetupError with its complaint when it failed."""
    whole = [*EBBTIDE, *command]
    done = subprocess.run(whole, env=demo.environ, input=typed, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"ebbtide {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def run_batch(demo: Demo, key: str) -> dict[str, Any]:
    """Submit the requests as anyone would, with the command's own progress bar; the batch as it ended."""
    named = ("--metadata", "name=demo")  # what the console calls it
    command = ("batch", "submit", str(DEMO / "requests.jsonl"), *named, "--wait", "-o", str(demo.results))
    shown = f"$ ebbtide batch submit demo/requests.jsonl {' '.join(named)} --wait -o {short(demo.results)}"
    console.print(shown, style="bold", soft_wrap=True)
    environ = {**demo.environ, "EBBTIDE_URL": demo.url, "EBBTIDE_API_KEY": key}
    done = subprocess.run([*EBBTIDE, *command], env=environ, stdout=subprocess.PIPE, text=True, check=False)
    batch = get(demo, f"/v1/batches/{done.stdout.strip()}", key)
    if done.returncode or batch is None:
        raise SetupError(f"The batch ended with exit status {done.returncode}; the gateway's log is {demo.log}")
    return dict(batch)


def show_summary(batch: Mapping[str, Any]) -> None:
    counts, usage = batch["request_counts"], batch["usage"]
    rows = {
        "requests": f"{counts['total']}: {counts['completed']} completed, {counts['failed']} failed",
        "tokens": f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out",
        "cost": f"{batch['cost_usd']:.6f} USD at the prices in demo/models.yaml",
        "time": f"{batch['completed_at'] - batch['created_at']} s",
    }
    for name, value in rows.items():
        console.print(f"  {name:<9} {value}")


def show_answers(demo: Demo) -> None:
    """A few of the results, as one would meet them in the file."""
    results = read_lines(demo.results)
    table = Table(title="\nA few of the answers", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("request", no_wrap=True, min_width=20)
    table.add_column("answer", overflow="fold")
    for name in SHOWN_ANSWERS:
        table.add_row(name, results[name]["response"]["body"]["choices"][0]["message"]["content"])
    console.print(table)


def read_lines(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8") as file:
        return {line["custom_id"]: line for line in map(json.loads, file)}


def short(path: Path) -> str:
    """`path` as one would type it in the checkout."""
    return str(path.relative_to(DEMO.parent)) if path.is_relative_to(DEMO.parent) else str(path)


NEXT = """
The gateway keeps running here: {url}   (Ctrl-C stops it)

  console   {url}/console   name: {name}   password: {password}
  API key   {key}
  log       {log}

Password and key stay the same at the next `make demo`.

What to try next, in another terminal in this folder:

  export EBBTIDE_URL={url} EBBTIDE_API_KEY={key}
  export EBBTIDE_DATA_DIR={data_dir}   # for commands that work on the database itself

  # the models
  curl -s $EBBTIDE_URL/v1/models -H "Authorization: Bearer $EBBTIDE_API_KEY"

  # a chat, streamed
  curl -sN $EBBTIDE_URL/v1/chat/completions -H "Authorization: Bearer $EBBTIDE_API_KEY" \\
    -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "Good morning!"}}]}}'

  # a batch of your own, requests in the call
  curl -s $EBBTIDE_URL/v1/batches -H "Authorization: Bearer $EBBTIDE_API_KEY" -H 'Content-Type: application/json' \\
    -d '{{"requests": [{{"custom_id": "1",
          "body": {{"model": "{model}", "messages": [{{"role": "user", "content": "Hi"}}]}}}}]}}'

  # the batches so far
  .venv/bin/ebbtide batch list

  # a batch from a file, which you may interrupt and pick up again
  .venv/bin/ebbtide batch submit demo/requests.jsonl --wait -o results.jsonl

  # an account of your own, and a key for it
  .venv/bin/ebbtide accounts create research --role internal
  .venv/bin/ebbtide keys create research

Your own models instead of the stand-in: README.md, "In front of your own servers".
"""


def serve_until_stopped(gateway: subprocess.Popen[bytes]) -> None:
    """Wait for the gateway's end, Ctrl-C, or the end of the `make` that started this."""
    parent = os.getppid()
    while os.getppid() == parent:
        try:
            status = gateway.wait(timeout=1)
        except subprocess.TimeoutExpired:
            continue
        raise SetupError(f"The gateway ended with exit status {status}")


def stop(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


def show(environ: Mapping[str, str]) -> None:
    demo = prepare(environ)
    console.print(f"Starting a gateway on {demo.url}, its data in {short(demo.folder)} …")
    with running_gateway(demo) as gateway:
        account = find_account(demo)
        show_summary(run_batch(demo, account["key"]))
        show_answers(demo)
        places = {"log": short(demo.log), "data_dir": shlex.quote(str(demo.folder))}
        print(NEXT.format(url=demo.url, name=ACCOUNT, model=CHAT_MODEL, **account, **places), flush=True)
        serve_until_stopped(gateway)


def main() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        show(os.environ)
    except EbbtideError as error:
        print(f"demo: {error.message}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. `make demo` starts it again.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
