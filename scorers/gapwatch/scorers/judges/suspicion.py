"""Detects inputs that seem to address their judge (prompt injection); they are counted and change no verdict."""

from __future__ import annotations

import re

from gapwatch.scorers.judges.fence import INVISIBLE, SHOWN_CHARACTERS

_TOP = r"(?:full|maximum|highest|top|perfect|best|excellent|10/10|5/5)"
_TOLD = r"(?:must|should|score|rate|give|award|assign|output|return|answer|pass)"
_RULES = r"(?:previous|prior|above|earlier|all|instructions?|rubric|criteri[ao]n?|prompt)"
_RULES_ELSEWHERE = r"(?:anweisung|instruc|istruzion|инструк|polece|regel|consigne|talimat|命令|指示)"
_FORGET_ELSEWHERE = (
    r"(?:ignorier|ignorez|ignorar|oublie|vergiss|olvida|dimentica|игнорир|забудь|zignoruj|esque[cç]a|yok say)"
)

#: Patterns by name. Each begins with a rare word, so that searching ordinary text is fast.
_PATTERNS = {
    "instruction": rf"(?:ignore|disregard|forget|override)\b.{{0,40}}\b{_RULES}\b",
    "addresses_judge": rf"\b(?:judge|grader|evaluator|rater|reviewer|evaluation model)\b.{{0,60}}\b{_TOLD}\b",
    "asks_for_score": rf"\b(?:give|award|assign|rate|score|mark|grade)\b.{{0,40}}(?:\b{_TOP}\b|100 ?%)",
    "fake_verdict": r"\b(?:score|verdict|rating|justification)\b\W{1,6}(?:excellent|very good|good|pass|[0-9])",
    "fake_fence": r"<<<\s*(?:data|end)|</?(?:data|input|output|document|trace)>|-{3,} ?end",
    "role_marker": r"<\|[a-z_]+\|>|^(?:system|assistant) ?:|\[/?inst\]|<</?sys>>|^[#=]+ ?(?:system|instruction)",
    "rules_replaced": r"\b(?:scale|schema|criterion|rubric)\b(?: is now| changed|,? from best|:.{0,60}\n?scale)",
    "role_play": r"\b(?:you are now|pretend|role-?play|from now on|developer mode|jailbreak)\b",
    "other_language": rf"{_FORGET_ELSEWHERE}.{{0,60}}{_RULES_ELSEWHERE}|忽略|无视|無視|이전 지시|تجاهل|अनदेखा|התעלם",
}
#: Groups of words by name: a text that matches the pattern contains a word of each group. Ordinary text rarely does,
#: and searching a word takes a thirtieth of the time of searching the pattern.
_WORDS = {
    "instruction": (("ignore", "disregard", "forget", "override"),),
    "addresses_judge": (("judge", "grader", "evaluator", "rater", "reviewer", "evaluation model"),),
    "asks_for_score": (
        ("give", "award", "assign", "rate", "score", "mark", "grade"),
        ("full", "maximum", "highest", "top", "perfect", "best", "excellent", "10/10", "5/5", "100"),
    ),
    "fake_verdict": (
        ("score", "verdict", "rating", "justification"),
        ("excellent", "very good", "good", "pass", *"0123456789"),
    ),
    "fake_fence": (("<", "---"),),
    "role_marker": (("<|", "system", "assistant", "inst", "sys"),),
    "rules_replaced": (("scale", "schema", "criterion", "rubric"), ("is now", "changed", "from best", "scale")),
    "role_play": (("you are now", "pretend", "role", "from now on", "developer mode", "jailbreak"),),
    "other_language": (
        ("ignorier", "ignorez", "ignorar", "oublie", "vergiss", "olvida", "dimentica", "zignoruj", "esquec", "yok say"),
    ),  # for ASCII texts; any other text is searched with the pattern
}
#: Characters that `IGNORECASE` treats as ASCII letters and `lower` does not convert to one.
_LIKE_ASCII = str.maketrans({"\u0130": "i", "\u0131": "i", "\u017f": "s", "\u212a": "k"})
_COMPILED = {name: re.compile(pattern, re.IGNORECASE | re.MULTILINE) for name, pattern in _PATTERNS.items()}
_NAMES = (*_COMPILED, "invisible_characters", "very_long")
#: Characters that are searched: as many as the judge sees.
_LOOKED_AT = SHOWN_CHARACTERS


def suspicions(text: str) -> tuple[str, ...]:
    """Return the names of the patterns that a text matches, in a fixed order.

    An honest text may match, too, such as a customer's complaint; so suspicions are counted and change no verdict.
    """
    looked = text if len(text) <= _LOOKED_AT else text[: _LOOKED_AT * 2 // 3] + text[-_LOOKED_AT // 3 :]
    folded = (looked if looked.isascii() else looked.translate(_LIKE_ASCII)).lower()
    found = [name for name, pattern in _COMPILED.items() if _may_match(name, folded) and pattern.search(looked)]
    if INVISIBLE.search(looked):
        found.append("invisible_characters")
    if len(text) > SHOWN_CHARACTERS:
        found.append("very_long")
    return tuple(found)


def _may_match(name: str, folded: str) -> bool:
    if name == "other_language" and not folded.isascii():
        return True
    for words in _WORDS[name]:  # nested loops: a generator would take longer than the search
        for word in words:
            if word in folded:
                break
        else:
            return False
    return True


def suspicion_names() -> tuple[str, ...]:
    """Return the names of all suspicions, in their order."""
    return _NAMES
