"""Names under which secrets stand, and the shapes of keys: one list for files that are read and for spans of a run."""

from __future__ import annotations

#: Words of which a text must hold one before the pattern is tried, for speed; and the pattern. Its group, if it has
#: one, is the secret.
SECRET_SHAPES = (
    (("sk-", "k_live_", "k_test_"), r"\b(?:sk-|[spr]k_(?:live|test)_)[\w-]{16,}"),  # OpenAI, Anthropic, Stripe
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"), r"\b(?:gh[pousr]|github_pat)_\w{20,}"),
    (("glpat-", "tvly-", "pplx-", "xox"), r"\b(?:glpat|tvly|pplx|xox[abprs])-[\w-]{10,}"),
    (("hf_", "gsk_", "r8_"), r"\b(?:hf_|gsk_|r8_)[A-Za-z0-9]{30,}"),
    (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    (("AIza",), r"\bAIza[\w-]{30,}"),
    (("eyJ",), r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),  # JSON web tokens
    (("Bearer ", "bearer "), r"\b[Bb]earer +([\w.~+/-]{16,}=*)"),
    (("PRIVATE KEY-----",), r"-----BEGIN [A-Z ]*PRIVATE KEY-----((?:\\[nr]|[\sA-Za-z0-9+/=]){16,})"),
    (("://",), r"://[^\s/:@'\"{}]{0,64}:([^\s/@'\"{}]{3,})@"),  # passwords in addresses
)
#: What words do not have: digits beside letters, or small and capital letters in one long run. `sk-your-key` is words.
RANDOM_TEXT = r"(?=.*[A-Za-z])(?=.*\d)|(?=[A-Za-z]*[a-z])(?=[A-Za-z]*[A-Z][a-z]*[A-Z])[A-Za-z]{20}"
_GAP = r"[\s_./-]{0,2}"
#: Names of secrets, for a search without regard to case; `secretary`, `keyword` and `max_tokens` are none.
SECRET_NAMES = (
    rf"(?:(?:(?:api|access|private|account|auth|signing|encryption|subscription|master|service|webhook|license|ssh)"
    rf"{_GAP}keys?|(?:access|auth|refresh|bearer){_GAP}tokens?"
    rf"|(?<![a-z])(?:api|session|id|csrf|xsrf|bot|personal|security|hf|hub|github|slack|oauth){_GAP}tokens?"
    rf"|(?<![a-z])creds|cookies?)(?![a-z])"
    rf"|secret(?!ar)(?:{_GAP}keys?(?![a-z]))?|pass{_GAP}(?:word|wd|phrase|code)s?|authori[sz]ation|credentials?)"
)
