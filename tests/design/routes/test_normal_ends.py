"""Values that look like failures and are the normal course, each with a twin that is a failure."""

# ruff: noqa: E501 - one case a line reads as a table
from __future__ import annotations

from pathlib import Path

import pytest

from tests.design.source_tree import patterns

#: Name: (source of the normal course, source of its twin, line of the twin's failure).
CASES: dict[str, tuple[str, str, int]] = {
    "a default of a setting": (
        "import os\ndef f():\n    try:\n        return float(os.getenv('TTL', '3'))\n    except ValueError:\n        return 3.0\n",
        "def f(x):\n    try:\n        return float(tool(x))\n    except ValueError:\n        return 3.0\n",
        5,
    ),
    "a member of an enumeration": (
        "from enum import Enum\nclass Language(Enum):\n    EN = 'en'\n    OTHER = ''\ndef f(code):\n    try:\n        found = Language(code)\n    except ValueError:\n        return Language.OTHER\n    return found\n",
        "from enum import Enum\nclass Language(Enum):\n    EN = 'en'\n    OTHER = ''\ndef f(text):\n    try:\n        found = Language(detected(text))\n    except ValueError:\n        return Language.OTHER\n    return found\n",
        9,
    ),
    "the kind of a file by its name": (
        "import mimetypes\nfrom enum import Enum\nclass Kind(str, Enum):\n    PDF = '.pdf'\ndef f(path):\n    try:\n        found = mimetypes.guess_type(path)\n        return Kind(found)\n    except ValueError:\n        return path\n",
        "from enum import Enum\nclass Kind(str, Enum):\n    PDF = '.pdf'\ndef f(path):\n    try:\n        found = kind_by_reading(path)\n        return Kind(found)\n    except ValueError:\n        return path\n",
        9,
    ),
    "the version of a package": (
        "from importlib.metadata import PackageNotFoundError, version\ndef f():\n    try:\n        mine = version('app')\n    except PackageNotFoundError:\n        mine = 'dev'\n    return mine\n",
        "def f(x):\n    try:\n        mine = version_of(tool(x))\n    except OSError:\n        mine = 'dev'\n    return mine\n",
        5,
    ),
    "an escape of a text that is not yet whole": (
        "import json\ndef f(parts):\n    try:\n        return json.loads('\"' + ''.join(parts) + '\"')\n    except ValueError:\n        return None\n",
        "import json\ndef f(reply):\n    try:\n        return json.loads(reply)\n    except ValueError:\n        return None\n",
        6,
    ),
    "a record that is there already": (
        "def f(row):\n    try:\n        return tool(row)\n    except RuntimeError as e:\n        if 'already exists' in str(e):\n            return []\n        raise\n",
        "def f(row):\n    try:\n        return tool(row)\n    except RuntimeError as e:\n        if 'connection' in str(e):\n            return []\n        raise\n",
        6,
    ),
    "a further way in the handler": (
        "def f(rows):\n    try:\n        found = all_of(rows)\n    except OSError:\n        found = []\n        for row in rows:\n            found.append(one_of(row))\n    return found\n",
        "def f(rows):\n    try:\n        found = all_of(rows)\n    except OSError:\n        found = []\n        log.error('no rows')\n    return found\n",
        5,
    ),
    "a further way behind the handler": (
        "import json\ndef f(call):\n    try:\n        given = json.loads(call.arguments)\n    except ValueError:\n        given = None\n    if not isinstance(given, dict):\n        given = call.parameters\n    return given\n",
        "import json\ndef f(call):\n    try:\n        given = json.loads(call.arguments)\n    except ValueError:\n        given = None\n    if not isinstance(given, dict):\n        log.info('none')\n    return given\n",
        6,
    ),
    "a record that is begun anew": (
        "import json\ndef f(path, name):\n    try:\n        kept = json.loads(path.read_text())\n    except Exception:\n        kept = {}\n    kept['name'] = name\n    path.write_text(json.dumps(kept))\n",
        "import json\ndef f(path, name):\n    try:\n        kept = json.loads(path.read_text())\n    except Exception:\n        kept = {}\n    kept['name'] = name\n    return kept\n",
        6,
    ),
    "the end of a stream that has told of its failure": (
        "def f(x):\n    try:\n        reply = tool(x)\n    except OSError as e:\n        yield {'error': str(e)}\n        return\n    yield reply\n",
        "def f(x):\n    try:\n        reply = tool(x)\n    except OSError:\n        yield {'error': 'no contact'}\n    yield reply\n",
        5,
    ),
    "the mark at the end of a stream that has told of its failure": (
        "def f(x):\n    try:\n        for part in tool(x):\n            yield part\n    except OSError as e:\n        yield 'data: ' + str(e)\n        yield 'data: [DONE] now'\n",
        "def f(x):\n    try:\n        for part in tool(x):\n            yield part\n    except OSError:\n        yield 'data: [DONE] now'\n",
        6,
    ),
    "an answer in words of an agent that may also ask for a tool": (
        "import openai\ndef parse_call(reply):\n    for line in reply.splitlines():\n        if line.startswith('CALL'): return line[4:]\n    return None\ndef f(x):\n    said = openai.OpenAI().chat.completions.create(model='m', messages=[x]).choices[0].message.content\n    call = parse_call(said)\n    if call is None:\n        words = said.strip()\n        return ('answer', words)\n    return ('call', call)\n",
        "import openai\ndef parse_call(reply):\n    for line in reply.splitlines():\n        if line.startswith('CALL'): return line[4:]\n    return None\ndef f(x):\n    said = openai.OpenAI().chat.completions.create(model='m', messages=[x]).choices[0].message.content\n    call = parse_call(said)\n    if call is None:\n        return ('answer', 'There is nothing to call here.')\n    return ('call', call)\n",
        5,
    ),
    "a name that nobody has": (
        "def f(orders, name):\n    try:\n        return orders.of(name)\n    except KeyError:\n        return 'Error: the order could not be found'\n",
        "def f(orders, name):\n    try:\n        return orders.of(name)\n    except OSError:\n        return 'Error: the order could not be found'\n",
        5,
    ),
    "settings as they come": (
        "def f(company):\n    try:\n        return Settings(**company['settings'])\n    except Exception:\n        log.warning('wrong settings')\n        return Settings()\n",
        "def f(company):\n    try:\n        return Answer(**ask(company))\n    except Exception:\n        log.warning('no answer')\n        return Apology()\n",
        6,
    ),
    "how far the work is": (
        "import requests\ndef f(q):\n    rows = requests.get(q).json()\n    if not rows:\n        yield {'step': 'looking in another place now'}\n    for row in requests.get(q + '/other').json():\n        yield row\n",
        "import requests\ndef f(q):\n    rows = requests.get(q).json()\n    if not rows:\n        yield {'step': 'nothing was there to look at'}\n    for row in rows:\n        yield row\n",
        5,
    ),
    "a choice that the function does not have": (
        "def f(kind):\n    if kind == 'web':\n        return tool(kind)\n    else:\n        log.error('no such kind')\n        return None\n",
        "def f(kind):\n    found = tool(kind)\n    if found.state == 'web':\n        return found\n    else:\n        log.error('no such kind')\n        return None\n",
        7,
    ),
    "an argument that is missing": (
        "def f(address):\n    if not address:\n        return ToolResult(error='No address was given to open')\n    return tool(address)\n",
        "def f(address):\n    page = tool(address)\n    if not page:\n        return ToolResult(error='The page could not be opened')\n    return page\n",
        4,
    ),
    "the code of a request that is refused": (
        "def f(request):\n    if not request.is_json:\n        return told_error(AppError(Code.INVALID_REQUEST, 'wrong form'))\n    return tool(request)\n",
        "def f(request):\n    if not tool(request):\n        return told_error(AppError(Code.MODEL_FAILED, 'no answer'))\n    return True\n",
        3,
    ),
    "a code of 404 in the fields": (
        "import requests\ndef f(name):\n    base = requests.get(name).json()\n    if base is None:\n        return Reply(code=404, msg='There is no base of this name')\n    return base\n",
        "import requests\ndef f(name):\n    base = requests.get(name).json()\n    if base is None:\n        return Reply(code=500, msg='There is no base of this name')\n    return base\n",
        5,
    ),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_normal_course_is_left_alone_and_its_twin_is_found(name: str, tmp_path: Path) -> None:
    normal, failing, line = CASES[name]

    found = [h.line for h in patterns(tmp_path / "twin", {"m.py": failing}) if h.pattern == "returns_failure"]
    left = [h.line for h in patterns(tmp_path / "normal", {"m.py": normal}) if h.pattern == "returns_failure"]

    assert line in found
    assert left == [h for h in left if "stream" in name and "yield" in normal.splitlines()[h - 1]]
