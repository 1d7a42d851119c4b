"""Settings of judges: what is wrong is said without repeating a value, which may be a key."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.judges.settings import JudgeSettings, load_judge_settings
from tests.streams.judges.judged_store import settings


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("", "valid dictionary"),
        ("providers: {}", "providers"),
        ("providers: {openai: {adapter: http}}", "base_url"),
        ("providers: {openai: {key: sk-12345678901234567890}}", "Extra inputs"),
        ("providers: {openai: {key_env: A, key_file: b}}", "both given"),
        ("providers: {openai: {concurrency: 0}}", "concurrency"),
        ("providers: [", "not valid YAML"),
    ],
)
def test_wrong_settings_are_refused_without_repeating_a_value(tmp_path: Path, text: str, because: str) -> None:
    file = tmp_path / "judges.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=because) as refused:
        load_judge_settings(file)

    assert "sk-1234" not in str(refused.value)


def test_a_vendor_without_a_provider_is_refused() -> None:
    with pytest.raises(UsageError, match="groq"):
        JudgeSettings.model_validate({"providers": {"openai": {}}}).provider("groq")
    assert settings().provider("groq").adapter == "http"
