"""Ebbtide: a self-hosted LLM inference gateway whose batches run in the capacity interactive traffic leaves free."""

__version__ = "0.1.0"
