"""Conversations in turns: read from lists of messages and from traces, written as text, and cut."""
