"""The root of the checkout that the tests run in."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
