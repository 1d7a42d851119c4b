"""`gapwatch rules`: writes alerting rules for Prometheus and routes for Alertmanager."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import click


@click.command("rules")
@click.argument("portfolios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PORTFOLIO...")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Folder for rules.yml and alertmanager.yml; files of these names are replaced.",
)  # fmt: skip
@click.option("--pages-to", metavar="URL", help="Webhook to which Alertmanager sends pages. Default: none.")
@click.option("--tickets-to", metavar="URL", help="Webhook to which Alertmanager sends tickets. Default: none.")
def rules_command(portfolios: tuple[Path, ...], out: Path, pages_to: str | None, tickets_to: str | None) -> None:
    """Write Prometheus rules and Alertmanager settings for PORTFOLIOs.

    Prometheus must scrape Gapwatch under the job name gapwatch. Check the files with promtool check rules and amtool
    check-config. The rules on alerts of Gapwatch fire at once: the detectors have thresholds of their own.
    """
    import yaml

    from gapwatch.scorers.errors import UsageError
    from gapwatch.scorers.loading.load import load_portfolio
    from gapwatch.streams.monitoring.alertmanager_routes import alertmanager_document
    from gapwatch.streams.monitoring.prometheus_rules import rules_document
    from gapwatch.streams.monitoring.written_files import write_files

    for option, url in (("--pages-to", pages_to), ("--tickets-to", tickets_to)):
        if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
            raise UsageError(f"{option} {url!r} is not a valid address; write http://host:port/path")
    loaded = [load_portfolio(path) for path in portfolios]
    if len({portfolio.pipeline for portfolio in loaded}) < len(loaded):
        raise UsageError("two of these portfolios are for the same pipeline; give one portfolio for each pipeline")
    head = f"# Made by gapwatch rules {' '.join(path.name for path in portfolios)}; changes here are lost.\n"
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
