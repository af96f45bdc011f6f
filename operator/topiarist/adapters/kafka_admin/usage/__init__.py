"""Reading the usage of topics: groups, offsets, bytes. Nothing here writes, or makes a broker write."""
