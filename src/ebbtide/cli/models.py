"""`ebbtide models …`: what a gateway serves, and whether a models file is sound."""

from __future__ import annotations

import os
from pathlib import Path

from cyclopts import App

from ebbtide.catalog.model import Model
from ebbtide.catalog.source import FileSource
from ebbtide.cli.gateway import HERE, GatewayOptions, open_gateway
from ebbtide.cli.output import AsJson, print_rows, tell

app = App(name="models", help="Models: of a gateway, or of a models file.")
_COLUMNS = ("id", "type", "aliases", "min_role", "routes", "batches")


@app.command(name="list")
async def list_(*, json: AsJson = False, options: GatewayOptions = HERE) -> None:
    """List the models that a gateway serves to this key."""
    async with open_gateway(options) as gateway:
        found = await gateway.models()
    rows = ({"owned_by": None, **model} for model in found)
    print_rows(rows, ("id", "owned_by"), as_json=json, empty="This gateway serves this key no models.")


@app.command
async def check(file: Path, /, *, json: AsJson = False) -> None:
    """Read a models file as `serve` would, and say what is in it or what is wrong, with the line."""
    source = FileSource(file, os.environ)
    await source.start()
    found = source.current.models
    rows = [_object(model) for model in found] if json else [_row(model) for model in found]
    print_rows(rows, _COLUMNS, as_json=json, empty="The file names no models.")
    tell(f"{file} is sound.")


def _object(model: Model) -> dict[str, object]:
    """A model for programs."""
    return {
        "id": model.id,
        "type": model.type,
        "aliases": list(model.aliases),
        "min_role": model.min_role.value,
        "routes": [{"id": route.id, "batch_allowed": route.batch_allowed} for route in model.routes],
        "batches": model.has_batch_route,
    }


def _row(model: Model) -> dict[str, object]:
    return {
        "id": model.id,
        "type": model.type,
        "aliases": ", ".join(model.aliases) or None,
        "min_role": model.min_role.value,
        "routes": ", ".join(route.id for route in model.routes),
        "batches": "yes" if model.has_batch_route else "no: no route is self-hosted",
    }
