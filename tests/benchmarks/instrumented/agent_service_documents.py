"""Fills the database of documents that the application searches; its own script needs an older LangChain."""

# It runs in the application's own environment.
# mypy: ignore-errors

from langchain_chroma import Chroma
from langchain_openai import OpenAIEmbeddings

database = Chroma(persist_directory="./chroma_db", embedding_function=OpenAIEmbeddings())
database.add_texts(["Customers may return goods within thirty days.", "Batteries are shipped by road."])
