"""Presentation: plans, descriptions, lists, reports and diagnostics as text, Markdown, JSON and for CI systems."""
