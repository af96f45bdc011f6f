"""The commands except `apply`, one module each; `freeze` holds `unfreeze` too."""
