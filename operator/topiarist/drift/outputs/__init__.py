"""Formats of a drift report: a folder of files, Markdown, HTML, Prometheus text."""
