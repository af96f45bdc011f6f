"""Releases: the version in all files, the changelog, reproducible files, and checks of an installation.

``cut`` makes the commit and the tag of a version in a scratch clone, ``build`` the files of a tag. Both work without a
forge: a workflow runs the same targets of the Makefile, and uploads what they made. See
``docs/internals/releasing.md``.
"""
