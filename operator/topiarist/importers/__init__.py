"""Topics of other tools' files as ``Topic`` documents.

``cli.commands.import_`` reads the files and calls ``formats``. Every field of an input is either mapped to a field of a
document or named as left out: ``topic`` keeps the account.
"""
