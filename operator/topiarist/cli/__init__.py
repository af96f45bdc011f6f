"""The command line: ``main`` lists the commands, and the modules of ``commands`` have them."""
