"""Keys and passwords in code reach no text of a design; words that only look like them stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.reports.design_document import design_document
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.reports.html import report_html
from gapwatch.design.reports.markdown import report_markdown
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.source.secret_texts import without_secrets
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

# Put together here, so that no scanner of repositories takes them for real ones.
SECRETS = {
    "OpenAI": "sk-" + "proj-" + "a1B2" * 6,
    "Anthropic": "sk-" + "ant-api03-" + "Zz09" * 8,
    "Stripe": "sk_" + "live_" + "4eC39HqLyjWD" * 2,
    "GitHub": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "Slack": "xoxb-" + "123456789012-abcdefGHIJ",
    "Hugging Face": "hf_" + "aBcDeFgHiJ" * 3 + "kLmN",
    "Groq": "gsk_" + "aB3dE5gH7j" * 5,
    "Tavily": "tvly-" + "dev-a1B2c3D4e5F6",
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE",
    "Google": "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
    "a web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
}
_PEM = "-----BEGIN " + "PRIVATE KEY-----"


def test_no_report_shows_a_key_of_a_prompt_a_default_an_answer_or_a_template(tmp_path: Path) -> None:
    source = "from openai import OpenAI\n" + "".join(
        f"PROMPT_{i} = 'You are a clerk. Use the key {secret} for the tool. Answer from the notes.'\n\n\n"
        f"def answer_{i}(q, key='{secret}'):\n    try:\n        return OpenAI(api_key=key).chat.completions.create(\n"
        f"            model='m', messages=[{{'role': 'system', 'content': PROMPT_{i} + q}}])\n"
        f"    except Exception:\n        return 'Failed: {secret}'\n"
        for i, secret in enumerate(SECRETS.values())
    )
    asked = (
        "from openai import OpenAI\n\n\ndef ask(q):\n    prompt = open('p.txt').read()\n"
        "    return OpenAI().chat.completions.create(model='m', messages=[{'role': 'system', 'content': prompt + q}])\n"
    )
    prompt = f"You are a clerk. Answer from the notes, with the key {SECRETS['OpenAI']}, in one sentence."
    design = run_design(scan_repository(write_tree(tmp_path, {"app.py": source, "ask.py": asked, "p.txt": prompt})))
    report = design_document(design)
    texts = (report_html(report), report_markdown(report), portfolio_yaml(portfolio_data(design), design), repr(design))

    assert design.secrets[:3] == ("app.py:2", "app.py:5", "app.py:10")
    assert "app.py:5" in texts[0]
    assert [p.place.path for p in design.prompts["ask"]] == ["p.txt"]
    assert not [name for name, secret in SECRETS.items() for text in texts if secret in text]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_key_is_known_by_its_own_form(secret: str) -> None:
    assert without_secrets(f'x = 1\ny = f"{secret} {{q}}"\n'.encode()) == (b'x = 1\ny = f"[secret] {q}"\n', (2,))


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("db = 'postgres://app:Hj7-kkq2@db/x'\n", "db = 'postgres://app:[secret]@db/x'\n"),
        ("h = {'Authorization': 'Bearer q8w7e6r5t4y3u2i1o0'}\n", "h = {'Authorization': 'Bearer [secret]'}\n"),
        ("def f(api_key: str | None = 'q8w7e6r5t4y3u2i1'): ...\n", "def f(api_key: str | None = '[secret]'): ...\n"),
        ('MY_SECRET_KEY="0f0f0f0f0f0f0f0f"\n', 'MY_SECRET_KEY="[secret]"\n'),
        (f"k = '''{_PEM}\nMIIEowIBAAKCAQEA1\nx2y3\n-----END'''\n", f"k = '''{_PEM}[secret]\n\n\n-----END'''\n"),
    ],
)
def test_a_secret_is_known_by_what_stands_before_it(source: str, left: str) -> None:
    assert without_secrets(source.encode()) == (left.encode(), (1,))


@pytest.mark.parametrize(
    "source",
    [
        "api_key = 'sk-your-openai-key-goes-here'\n",
        "task_management_of_2024_and_later = risk-averse_and_desk-top\n",
        "url = f'postgres://{user}:{password}@{host}/x'\n",
        f"if '{_PEM}' in text: x = 1 - 2\n",
        "headers = {'Authorization': f'Bearer {key}'}\nnote = 'bearer authentication is on'\n",
        "api_key = os.environ['OPENAI_API_KEY_FALLBACK_2']\nmodel = 'gpt-4.1-mini-2025-04-14'\n",
        "is_right = form['password'] == 'correct-horse'\n",
    ],
)
def test_words_that_look_like_secrets_stay(source: str) -> None:
    assert without_secrets(source.encode()) == (source.encode(), ())
