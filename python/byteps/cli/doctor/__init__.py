"""`bps doctor`: what this machine has, and what its links and servers can do.

`machine` and `software` look at this machine. `survey` asks an `agent` on each host: agents send
each other plain bytes (`wire`) and real tensors (`small_job`). `report` makes text of it all.
"""
