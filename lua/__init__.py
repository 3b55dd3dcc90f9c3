"""Redis: the live counters, and the scripts that decide and settle against them."""
