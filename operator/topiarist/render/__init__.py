"""Plans, reports, complaints and specs as text or JSON: strings in, strings out; nothing here prints or reads anything.

``text`` is what a person reads, ``document`` what a machine does; both show the same values. The command line decides
where they go, how wide the page is, and whether it has colour.
"""
