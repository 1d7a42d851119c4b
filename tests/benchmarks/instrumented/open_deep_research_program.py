"""Drives the research graph as a LangGraph server does: with a store, a thread and an owner; one question a phase."""

# It runs in the application's own environment.
# mypy: ignore-errors

import asyncio
import json
import os
import sys
import urllib.request

import httpx

SERVER = os.environ["MODEL_SERVER"]
_begin = httpx.AsyncClient.__init__


def _to_this_machine(client, *args, **given):
    """Send Tavily's requests to the local server: its client takes no other address."""
    if str(given.get("base_url", "")).startswith("https://api.tavily.com"):
        given["base_url"] = SERVER
    _begin(client, *args, **given)


httpx.AsyncClient.__init__ = _to_this_machine

from langgraph.store.memory import InMemoryStore  # noqa: E402
from open_deep_research.deep_researcher import deep_researcher  # noqa: E402

deep_researcher.store = InMemoryStore()


def begin(phase):
    data = json.dumps(phase).encode()
    urllib.request.urlopen(urllib.request.Request(f"{SERVER}/phase", data, method="POST")).close()


async def ask(phase):
    config = {
        "configurable": {
            "thread_id": phase["name"],
            "mcp_config": {"url": SERVER, "tools": ["stock"], "auth_required": True},
            "x-supabase-access-token": "t",
        },
        "metadata": {"owner": phase["name"]},
    }
    state = {"messages": [{"role": "user", "content": "When may customers return goods?"}]}
    try:
        result = await deep_researcher.ainvoke(state, config)
        print(phase["name"], "->", str(result.get("final_report") or result["messages"][-1].content)[:60])
    except Exception as error:
        print(phase["name"], "->", type(error).__name__)


for line in sys.stdin:
    phase = json.loads(line)
    begin(phase)
    asyncio.run(ask(phase))
