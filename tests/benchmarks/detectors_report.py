"""Collects lines and goals of the benchmark and prints them as they come."""

from __future__ import annotations

from dataclasses import dataclass, field


def row_text(name: str, cells: list[str]) -> str:
    return f"  {name:34s} " + " | ".join(f"{cell:>14s}" for cell in cells)


@dataclass
class Report:
    """Goals with what was measured; `--check` of the command fails when one is missed."""

    goals: list[tuple[str, str, bool]] = field(default_factory=list)

    def line(self, text: str) -> None:
        print(text, flush=True)

    def goal(self, name: str, measured: str, reached: bool) -> None:
        self.goals.append((name, measured, bool(reached)))
        self.line(f"  GOAL {name}: {measured} {'reached' if reached else 'NOT REACHED'}")

    def table(self) -> None:
        self.line("\n| goal | measured | reached |\n|---|---|---|")
        for name, measured, reached in self.goals:
            self.line(f"| {name} | {measured} | {'yes' if reached else '**no**'} |")
