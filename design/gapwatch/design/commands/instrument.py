"""The command `gapwatch instrument`: runs a program so that it emits the spans of its design."""

from __future__ import annotations

from pathlib import Path

import click

from gapwatch.design.design_folder import DESIGN_FOLDER


@click.command("instrument", context_settings={"ignore_unknown_options": True})
@click.option(
    "--design",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=DESIGN_FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder that `gapwatch design REPO --out DIR` wrote; its spans.json says what to emit.",
)
@click.option("--no-content", is_flag=True, help="Write neither inputs nor outputs of functions.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def instrument_command(folder: Path, no_content: bool, command: tuple[str, ...]) -> None:
    """Run a Python program so that it emits the spans of its design, without a line of its own.

    `gapwatch instrument -- python app.py`: events of the interpreter (Python 3.12 or newer) at the listed functions
    become spans of OpenTelemetry, which go to OTEL_EXPORTER_OTLP_ENDPOINT (by default http://localhost:4318). The
    program needs opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http beside it. Other code runs as it is.
    """
    from gapwatch.design.emission.program_start import start_program

    start_program(folder / "spans.json", command, has_content=not no_content)
