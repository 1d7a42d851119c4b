"""`gapwatch rules`: rules for Prometheus and routes for Alertmanager."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click


@click.command("rules")
@click.argument("portfolios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PORTFOLIO...")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Where rules.yml and alertmanager.yml are written, in the place of what is there.",
)  # fmt: skip
@click.option("--pages-to", metavar="URL", help="Webhook that Alertmanager sends pages to. Default: nowhere.")
@click.option("--tickets-to", metavar="URL", help="The same for tickets.")
def rules_command(portfolios: tuple[Path, ...], out: Path, pages_to: str | None, tickets_to: str | None) -> None:
    """Write Prometheus rules and Alertmanager settings for PORTFOLIOs.

    Prometheus must scrape Gapwatch under the job name gapwatch. Check them with promtool check rules and amtool
    check-config. What the detectors found fires at once, without thresholds of its own.
    """
    import yaml

    from gapwatch.scorers.errors import UsageError
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.monitoring.alertmanager_routes import alertmanager_document
    from gapwatch.streams.monitoring.prometheus_rules import rules_document
    from gapwatch.streams.monitoring.written_files import write_files

    for option, url in (("--pages-to", pages_to), ("--tickets-to", tickets_to)):
        if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
            raise UsageError(f"{option} {url!r} is no address; write http://host:port/path")
    loaded = [load_portfolio(path) for path in portfolios]
    if len({portfolio.pipeline for portfolio in loaded}) < len(loaded):
        raise UsageError("two of these portfolios claim one pipeline")
    head = f"# Made by gapwatch rules {' '.join(path.name for path in portfolios)}; a change here is lost.\n"
    documents = {
        "rules.yml": rules_document(loaded),
        "alertmanager.yml": alertmanager_document(pages_to, tickets_to),
    }
    files = {
        name: head + yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
        for name, document in documents.items()
    }
    for path in write_files(out, files):
        click.echo(path)
