"""`gapwatch dashboards`: writes dashboards for Grafana, which provisions them from files."""

from __future__ import annotations

from pathlib import Path

import click

_PROVIDER = """\
# For provisioning/dashboards of Grafana; made by gapwatch dashboards. Set path to the folder of this file.
apiVersion: 1
providers:
  - name: gapwatch
    folder: Gapwatch
    type: file
    options: {path: /etc/grafana/dashboards}
"""


@click.command("dashboards")
@click.argument("portfolios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PORTFOLIO...")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Folder for the files; files of the same names are replaced.",
)  # fmt: skip
def dashboards_command(portfolios: tuple[Path, ...], out: Path) -> None:
    """Write dashboards for Grafana: an overview, and one for the pipeline of each PORTFOLIO.

    Needs pip install 'gapwatch[dashboards]'. Grafana finds the dashboards by the file provider.yaml beside them.
    """
    import warnings

    from gapwatch.scorers.errors import UsageError
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.monitoring.written_files import write_files

    loaded = [load_portfolio(path) for path in portfolios]
    try:
        with warnings.catch_warnings():
            # The import warns of a newer schema; every Grafana from 10 on reads this one.
            warnings.simplefilter("ignore", DeprecationWarning)
            from gapwatch.streams.monitoring.dashboards import dashboard_files

            files = dashboard_files(loaded)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("grafana_foundation_sdk"):
            raise
        raise UsageError("Grafana's SDK is missing: pip install 'gapwatch[dashboards]'") from error
    for path in write_files(out, {**files, "provider.yaml": _PROVIDER}):
        click.echo(path)
