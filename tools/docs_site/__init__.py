"""The documentation site: the pages of this repository as HTML, built without a network (``make site``)."""
