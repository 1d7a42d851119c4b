"""Writes that store a row or fail, beside writes that a filter may miss."""

from __future__ import annotations

import pymongo
from fastapi import FastAPI
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

app = FastAPI()
notes = pymongo.MongoClient("mongodb://localhost")["app"]["notes"]
engine = create_engine("sqlite://")


def keep(question: str, answer: str) -> None:
    notes.insert_one({"question": question, "answer": answer})


def book(answer: object) -> None:
    with Session(engine) as session:
        session.add(answer)
        session.commit()


def close(number: str) -> None:
    notes.update_one({"number": number}, {"$set": {"state": "closed"}})


@app.post("/close")
def end(number: str, question: str) -> None:
    keep(question, "closed")
    book(question)
    close(number)
