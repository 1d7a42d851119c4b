"""A node that waits for a person is left by an exception each time; one that sends is left by one where it fails."""

from __future__ import annotations

from typing import Any

import httpx
from fastapi import FastAPI
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

app = FastAPI()


def approval(state: dict[str, Any]) -> dict[str, Any]:
    terms = httpx.get("https://terms.example").raise_for_status().text
    answer = interrupt({"draft": state["draft"], "terms": terms})
    return {"approved": answer == "yes"}


def sending(state: dict[str, Any]) -> dict[str, Any]:
    sent = httpx.post("https://mail.example", json={"text": state["draft"]}).raise_for_status()
    return {"sent": sent.text}


builder = StateGraph(dict)
builder.add_node("approval", approval)
builder.add_node("sending", sending)
builder.add_edge(START, "approval")
builder.add_edge("approval", "sending")
builder.add_edge("sending", END)
graph = builder.compile()


@app.post("/send")
def send(draft: str) -> dict[str, Any]:
    return graph.invoke({"draft": draft})
