"""The JSON schemas of manifests: load them, check a document, explain each error in words."""
