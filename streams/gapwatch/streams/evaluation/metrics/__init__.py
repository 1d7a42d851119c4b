"""Metrics of evaluations: the shipped ones, their registry, and the choice by task."""
