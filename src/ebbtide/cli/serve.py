"""`ebbtide serve` and `ebbtide worker`: one process, or a parent that keeps several."""

from __future__ import annotations

import os
from dataclasses import replace

from ebbtide.cli.bootflags import ServeFlags, WorkerFlags, read_config
from ebbtide.cli.processes import end_with_parent, run_processes
from ebbtide.config import Config, as_environment
from ebbtide.siblings import family_folder


def serve(flags: ServeFlags = ServeFlags()) -> int:  # noqa: B008  frozen
    """Run the gateway: the HTTP server and the batch worker in one process, unless --role says otherwise.

    The first start makes an administrator and prints its API key, once.
    """
    return _start(read_config(flags))


def worker(flags: WorkerFlags = WorkerFlags()) -> int:  # noqa: B008  frozen
    """Run batches and serve no HTTP: the same as `serve --role worker`."""
    return _start(read_config(flags, role="worker"))


def _start(config: Config) -> int:
    if config.processes > 1 and config.family_dir is None:
        return run_processes(config)
    if config.parent_fd is not None:
        end_with_parent(config.parent_fd)
    if config.family_dir is not None:  # one of several
        return _run(config)
    with family_folder() as folder:
        return _run(replace(config, family_dir=folder))


def _run(config: Config) -> int:
    # Read once, when the library of the metrics is loaded; each process counts in a file of its own there.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(config.family_dir)
    # Here, so that the parent of several processes loads none of it.
    from ebbtide.app import run

    return run(config, {**os.environ, **as_environment(config)})
