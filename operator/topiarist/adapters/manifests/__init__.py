"""YAML files and folders: parse, locate, diagnose, write."""
